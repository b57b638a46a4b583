// Every command of the recorded suite (../shared/suites/pipelines/cli-calls.jsonl, where it is there), given to the published
// command line against this platform: it has to accept our answers. Before each one the things that it names are there.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Platform, until } from "../platform.mjs";

const suite = join(process.env.SLIPWAY_SUITES ?? resolve(import.meta.dirname, "../../../shared/suites"), "pipelines/cli-calls.jsonl");
const cli = resolve(import.meta.dirname, "../node_modules/codefresh/lib/interface/cli/codefresh");
const platform = new Platform(["--no-demo", "--executor", "host"]);
const home = join(platform.folder, "cf-home");

// A few of our own, for machines without the recording: something is always asserted. In CI the recording has to be there.
const own = ["get pipelines", "get pipelines proj/pipe -o json", "get pipelines nope/zzz", "get projects", "get contexts", "get builds", "create pipeline -f f/pipe.yaml", "validate f/cf.yml"];
if (!existsSync(suite)) {
  if (process.env.CI) throw new Error(`CI needs ${suite} (or SLIPWAY_SUITES)`);
  console.warn(`WARNING: no ${suite} on this machine: only ${own.length} commands of our own are tried`);
}
const recorded = existsSync(suite)
  ? readFileSync(suite, "utf8").trim().split("\n").map((line) => JSON.parse(line)).flatMap(({ cmd }) => (cmd ? [cmd] : []))
  : own;
const commands = [...new Set(recorded)];

/** Commands that have to end with an error, and what it has to say. */
const refused = [
  [/^get pipelines nope\/zzz/, /not found/i],
  // Not there: the control plane keeps no images and does not talk to registries, and no data of builds beside logs and reports.
  [/^tag /, /could not find this API path/],
  [/workflow-data-item/, /could not find this API path/],
  // The recorder's own slips: the command line sent nothing for these either.
  [/^delete project --name /, /Not enough|name/i],
  [/^create trigger .* -f tag=/, /./],
  [/^delete agent --name /, /./],
  [/^patch re -f /, /./],
];

const request = async (method, path, body) => {
  const headers = { authorization: platform.credentials.apiKey, "content-type": "application/json" };
  const answer = await fetch(platform.url + path, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  const text = await answer.text();
  return { status: answer.status, body: /^[[{"]/.test(text) ? JSON.parse(text) : text };
};
const good = async (method, path, body) => {
  const { status, body: answer } = await request(method, path, body);
  assert.ok(status < 300, `${method} ${path}: ${status} ${JSON.stringify(answer)}`);
  return answer;
};
const there = async (path, make) => ((await request("GET", path)).status === 404 ? make() : undefined);

const pipeline = (name, steps, more = {}) => ({ version: "1.0", kind: "pipeline", metadata: { name }, spec: { steps, ...more } });
const echo = { a: { image: "alpine", commands: ["echo hi"] } };
const asks = { ask: { type: "pending-approval" } };
const trigger = { type: "git", name: "tr", repo: "acme/app", events: ["push.heads"], branchRegex: "/.*/gi", provider: "github" };
const files = {
  "pipe.yaml": pipeline("proj/pipe", echo),
  "cf.yml": "version: '1.0'\nsteps:\n  a: {image: alpine, commands: [echo hi]}\n",
  "ctx.yaml": { apiVersion: "v1", kind: "context", metadata: { name: "c1" }, spec: { type: "config", data: { foo: "bar" } } },
  "step.yaml": { version: "1.0", kind: "step-type", metadata: { name: "acme/x", version: "1.0.0" }, spec: { steps: { main: { image: "alpine" } } } },
  "re.yaml": { version: 1, metadata: { name: "ctx/ns" }, runtimeScheduler: { cluster: { namespace: "n" } } },
};

async function build(name, wanted) {
  const id = await good("POST", `/api/pipelines/run/${encodeURIComponent(name)}`, {});
  await until(`a build that is ${wanted}`, async () => (await good("GET", `/api/builds/${id}`)).status === wanted, 20);
  return id;
}

/** What the command names is there, and what it makes is not; gives the ids in place of the recorded ones. */
async function prepared(command) {
  await there("/api/projects/name/proj", () => good("POST", "/api/projects", { projectName: "proj", tags: ["t"], variables: [] }));
  for (const [name, steps] of [["proj/pipe", echo], ["proj/asks", asks]]) {
    await there(`/api/pipelines/${encodeURIComponent(name)}`, () => good("POST", "/api/pipelines", pipeline(name, steps, { triggers: [trigger] })));
  }
  if (/^create (pipeline )?-f f\/pipe/.test(command)) await good("DELETE", "/api/pipelines/proj%2Fpipe");
  await there("/api/contexts/c1", () => good("POST", "/api/contexts", files["ctx.yaml"]));
  if (/^create step-type/.test(command)) await request("DELETE", "/api/step-types/acme%2Fx");
  else await there("/api/step-types/acme%2Fx", () => good("POST", "/api/step-types", files["step.yaml"]));
  if (/step-types x /.test(command)) await there("/api/step-types/x", () => good("POST", "/api/step-types", { ...files["step.yaml"], metadata: { name: "x", version: "1.0.0" } }));
  const { body: agent } = await request("GET", "/api/agents/name/a1");
  if (/^install agent/.test(command)) await request("DELETE", `/api/agent/${agent.id ?? agent._id}`);
  else await there("/api/agents/name/a1", () => good("POST", "/api/agents", { name: "a1" }));
  for (const name of ["ctx/ns", "ctx/ns2"]) {
    const register = { runtimeEnvironmentName: name, clusterName: "ctx", namespace: name.slice(4), agent: true };
    await there(`/api/runtime-environments/${encodeURIComponent(name)}`, () => good("POST", "/api/custom_clusters/register", register));
  }
  if (/^(delete project proj|patch project)/.test(command)) {
    for (const name of ["proj%2Fpipe", "proj%2Fasks"]) await good("DELETE", `/api/pipelines/${name}`);
  }
  const id = async (path) => (await request("GET", path)).body?.metadata?.id ?? (await request("GET", path)).body?.id;
  const ids = { "65a000000000000000000001": await id("/api/pipelines/proj%2Fpipe"), "65e000000000000000000001": await id("/api/projects/name/proj") };
  if (/65b0/.test(command)) {
    const [name, wanted] = /^(approve|deny|terminate)/.test(command) ? ["proj/asks", "pending-approval"] : ["proj/pipe", "success"];
    ids["65b000000000000000000001"] = await build(name, wanted);
  }
  if (/trigger/.test(command)) {
    const event = { type: "registry", kind: "dockerhub", secret: "!generate", values: { namespace: "codefresh", name: "fortune", action: "push" } };
    const made = await request("POST", "/api/hermes/events?public=false", event);
    const uri = made.body.uri ?? (await good("GET", "/api/hermes/events?public=false")).find(({ uri: known }) => known.includes("codefresh:fortune")).uri;
    const path = `/api/hermes/triggers/${encodeURIComponent(encodeURIComponent(uri))}/${ids["65a000000000000000000001"]}`;
    await request("DELETE", path);
    if (/^delete trigger /.test(command)) await good("POST", path, {});
    if (/^create trigger-event/.test(command)) await good("DELETE", `/api/hermes/events/${encodeURIComponent(encodeURIComponent(uri))}/none`);
    for (const recordedUri of ["registry:dockerhub:codefresh:fortune:push:107e", "registry:dockerhub:x", "uri1"]) ids[recordedUri] = uri;
  }
  return ids;
}

async function codefresh(line) {
  const env = { ...platform.environment(), HOME: home, DISABLE_VERSION_CHECK: "true", NO_COLOR: "1" };
  delete env.CF_URL;
  delete env.CF_API_KEY;
  try {
    return { code: 0, text: await platform.command(process.execPath, [cli, ...line.split(" ")], { env, cwd: home, timeout: 60_000 }) };
  } catch (error) {
    return { code: error.code ?? error.signal, text: `${error.stdout}${error.stderr}` };
  }
}

before(async () => {
  mkdirSync(join(home, "f"), { recursive: true });
  for (const [name, content] of Object.entries(files)) writeFileSync(join(home, "f", name), typeof content === "string" ? content : JSON.stringify(content));
  await platform.start();
  await codefresh(`auth create-context here --api-key ${platform.credentials.apiKey} --url ${platform.url}`);
});
after(() => platform.remove());

for (const recordedCommand of commands) {
  const command = recordedCommand.replace(/^codefresh /, "");
  test(command, async () => {
    const ids = await prepared(command);
    let line = command.replace(/--api-key \S+ --url \S+/, `--api-key ${platform.credentials.apiKey} --url ${platform.url}`);
    for (const [old, now] of Object.entries(ids)) line = line.replaceAll(old, now);
    const { code, text } = await codefresh(line);
    const expected = refused.find(([pattern]) => pattern.test(command));
    if (expected) {
      assert.notEqual(code, 0, text);
      assert.match(text, expected[1]);
    } else assert.equal(code, 0, `${line}\n${text}`);
  });
}

test("the suite was walked through, or is not on this machine", () => {
  assert.ok(commands.length > 60 || !existsSync(suite), `${commands.length} commands`);
});
