// A machine without a container engine: steps run sandboxed on the host, and the build says so.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { Platform, until } from "../platform.mjs";

const platform = new Platform(["--executor", "host"]);
before(() => platform.start());
after(() => platform.remove());

test("the pipeline runs on the host executor and commits the new version", async () => {
  const work = await platform.clone("demo/demo-app");
  appendFileSync(join(work, "www/index.html"), "<!-- on the host -->\n");
  const sha = await platform.push(work, "On the host");
  const build = await until("the build ends", async () => (await platform.builds()).find((one) => one.revision === sha && one.finished));
  const log = await platform.log(build.id);
  assert.equal(build.status, "success", JSON.stringify(log));
  assert.equal(build.executor, "host");
  const steps = Object.fromEntries(build.steps.map((step) => [step.name, step]));
  assert.equal(steps.build.status, "skipped");
  assert.equal(steps.test.status, "success");
  assert.match(log.test, /host/, "the log says that the image was not used");
  const head = (await platform.api("/api/repos")).find((repo) => repo.name === "demo/demo-deploy").head;
  assert.match(head.message, /On the host/);
});

test("a second process on the same data is refused with a sentence", async () => {
  await assert.rejects(
    platform.slipway("up", "--data", join(platform.folder, "data"), "--listen", "127.0.0.1:0"),
    (error) => /another slipway uses/.test(error.stderr),
  );
});
