// The published Go SDK, compiled as anybody would, as a client of the GitOps API.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { Platform, until } from "../platform.mjs";

const run = promisify(execFile);
const platform = new Platform(["--executor", "host"]);
before(() => platform.start());
after(() => platform.remove());

test("its typed calls read users, runtimes, components, clusters and limits", async () => {
  const program = join(platform.folder, "client");
  await run("go", ["build", "-o", program, "."], { cwd: new URL("../go-sdk", import.meta.url).pathname, env: { ...process.env, CGO_ENABLED: "0", GOFLAGS: "-mod=readonly" } });
  const env = { ...platform.environment(), SLIPWAY_URL: platform.url, SLIPWAY_API_KEY: platform.credentials.apiKey };
  // What a runtime says of its parts comes with its reports, perhaps between two questions of one call.
  const said = await until("the runtime reports its parts and its cluster", async () => {
    const all = JSON.parse((await run(program, ["local"], { env })).stdout);
    return [all.runtimes, all.components, all.clusters].every((list) => list.length > 0) ? all : undefined;
  });
  assert.equal(said.me.email, platform.credentials.adminEmail);
  assert.equal(said.me.isAdmin, true);
  assert.ok(said.me.accounts.some((account) => account.id === said.me.activeAccount.id));
  assert.deepEqual(said.runtimes.map((runtime) => runtime.metadata.name), ["local"]);
  assert.deepEqual([said.runtime.installationStatus, said.runtime.accessMode, said.runtime.managed], ["COMPLETED", "TUNNEL", false]);
  assert.ok(said.components.some((part) => part.metadata.name === "applications" && part.self.status.healthStatus === "HEALTHY"), JSON.stringify(said.components));
  assert.deepEqual([said.clusters[0].metadata.name, said.clusters[0].info.connectionState.status], ["in-cluster", "Successful"]);
  assert.deepEqual(said.gitSources, []);
  assert.equal(said.limits.status, true);
  assert.match(said.missing, /'nothing' does not exist/);
});
