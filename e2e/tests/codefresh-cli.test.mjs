// The published command line, unchanged, against this platform: a client that nobody here wrote.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Platform, until } from "../platform.mjs";

const platform = new Platform(["--no-demo", "--executor", "host"]);
const cli = resolve(import.meta.dirname, "../node_modules/codefresh/lib/interface/cli/codefresh");

// Its own home: it keeps contexts in ~/.cfconfig and caches beside it.
async function codefresh(...args) {
  const home = join(platform.folder, "cf-home");
  mkdirSync(home, { recursive: true });
  const env = { ...platform.environment(), HOME: home, CF_URL: "", CF_API_KEY: "", DISABLE_VERSION_CHECK: "true", NO_COLOR: "1" };
  delete env.CF_URL;
  delete env.CF_API_KEY;
  return platform.command(process.execPath, [cli, ...args], { env, cwd: home, timeout: 60_000 });
}

async function json(...args) {
  const text = await codefresh(...args, "-o", "json");
  const start = text.search(/^[[{]/m);
  assert.notEqual(start, -1, text);
  return JSON.parse(text.slice(start));
}

const list = (value) => (Array.isArray(value) ? value : [value]);

before(async () => {
  assert.ok(existsSync(cli), "run npm ci in e2e first");
  await platform.start();
});
after(() => platform.remove());

test("auth: a context is made with an API key, and says which account it is", async () => {
  const made = await codefresh("auth", "create-context", "here", "--api-key", platform.credentials.apiKey, "--url", platform.url);
  assert.match(made, /Created new context: here/);
  assert.match(await codefresh("auth", "get-contexts"), /here[\s\S]*default/);
  assert.match(await codefresh("auth", "current-context"), /here/);
});

test("auth: a key that is not good is refused in words", async () => {
  await assert.rejects(
    codefresh("auth", "create-context", "bad", "--api-key", "acacacacacacacacacacacac.00", "--url", platform.url),
    (error) => error.code !== 0,
  );
});

let token;
test("tokens: made, listed, changed, used and revoked", async () => {
  const made = await codefresh("create", "token", "from-cli", "-s", "pipeline", "-s", "build");
  token = made.match(/[0-9a-f]{24}\.[0-9a-f]{40}/)[0];
  const [listed] = list(await json("get", "tokens", "from-cli"));
  assert.deepEqual(listed.scopes, ["pipeline", "build"]);
  assert.equal(listed.id, token.split(".")[0]);
  assert.match(await codefresh("patch", "token", listed.id, "--name", "renamed"), /updated/);
  assert.equal(list(await json("get", "tokens", "renamed")).length, 1);
  const used = await fetch(`${platform.url}/api/pipelines`, { headers: { authorization: token } });
  assert.equal(used.status, 200);
  const elsewhere = await fetch(`${platform.url}/api/contexts`, { headers: { authorization: token } });
  assert.equal(elsewhere.status, 403, "its scopes do not reach that far");
  assert.match(await codefresh("delete", "token", listed.id), /Deleted token/);
  assert.equal((await fetch(`${platform.url}/api/pipelines`, { headers: { authorization: token } })).status, 401);
});

test("teams: made, listed, filled and emptied", async () => {
  const me = await platform.api("/api/user");
  assert.match(await codefresh("create", "team", "devs", "-t", "backend"), /Team: devs created/);
  const teams = list(await json("get", "teams"));
  assert.deepEqual(teams.map((team) => team.name).sort(), ["admins", "devs", "users"]);
  const devs = teams.find((team) => team.name === "devs");
  assert.deepEqual(devs.tags, ["backend"]);
  await codefresh("patch", "teams", "--team-id", devs.id, "--user-id", me._id);
  assert.deepEqual((await platform.api("/api/team/devs")).users.map((user) => user._id), [me._id]);
  await codefresh("delete", "teams", "--team-id", devs.id, "--user-id", me._id);
  assert.deepEqual((await platform.api("/api/team/devs")).users, []);
  await assert.rejects(codefresh("create", "team", "not/a-name"), /not a valid name for a team/);
});

test("contexts: config, secret, yaml, Git; masked, decrypted, changed, deleted", async () => {
  await codefresh("create", "context", "config", "plain", "-v", "GREETING=hello");
  await codefresh("create", "context", "secret", "hidden", "-v", "TOKEN=canary-e2e");
  const file = join(platform.folder, "values.yaml");
  writeFileSync(file, "image:\n  tag: v1\n");
  await codefresh("create", "context", "yaml", "values", "-f", file);
  await codefresh("create", "context", "git", "github", "my-git", "--access-token", "canary-git");
  const names = list(await json("get", "contexts")).map((context) => context.metadata.name);
  assert.deepEqual(names.sort(), ["hidden", "my-git", "plain", "values"]);
  const [plain] = list(await json("get", "context", "plain"));
  assert.equal(plain.spec.data.GREETING, "hello");
  const masked = JSON.stringify(await json("get", "contexts"));
  assert.ok(!masked.includes("canary"), masked);
  const [opened] = list(await json("get", "context", "hidden", "--decrypt"));
  assert.equal(opened.spec.data.TOKEN, "canary-e2e");
  assert.equal(list(await json("get", "contexts", "--type", "secret")).length, 1);
  assert.match(await codefresh("delete", "context", "plain"), /deleted/i);
  await assert.rejects(codefresh("get", "context", "plain"));
});

// A command that may end with any code: its output, and the code.
async function outcome(...args) {
  try {
    return { code: 0, text: await codefresh(...args) };
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    return { code: error.code, text: error.stdout + error.stderr };
  }
}

test("projects: made, listed, changed and deleted", async () => {
  await codefresh("create", "project", "shop", "-t", "web", "--variable", "REGION=eu");
  await codefresh("create", "project", "spare");
  const projects = list(await json("get", "projects"));
  assert.ok(projects.some((project) => project.projectName === "shop" || project.title === "shop"), JSON.stringify(projects));
  const shop = await platform.api("/api/projects/name/shop");
  assert.deepEqual([shop.tags, shop.variables[0].value], [["web"], "eu"]);
  await codefresh("patch", "project", "shop", "-t", "web", "-t", "store");
  assert.deepEqual((await platform.api("/api/projects/name/shop")).tags, ["web", "store"]);
  await assert.rejects(codefresh("create", "project", "shop"), /exist/i);
  await codefresh("delete", "project", "spare");
  await assert.rejects(platform.api("/api/projects/name/spare"), /404/);
});

const steps = { first: { image: "alpine", commands: ["echo hello $GREETING from $REGION"] }, second: { image: "alpine", commands: ["echo done"] } };
const manifest = (name, more = {}) => ({ version: "1.0", kind: "pipeline", metadata: { name }, spec: { variables: [{ key: "GREETING", value: "world" }], steps, ...more } });

function file(name, content) {
  const path = join(platform.folder, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

test("pipelines: made, listed, read, replaced; a text is validated", async () => {
  const made = await codefresh("create", "pipeline", "-f", file("pipeline.yaml", manifest("shop/build")));
  assert.match(made, /created/);
  await codefresh("create", "-f", file("second.yaml", manifest("shop/other", { steps: { bad: { image: "alpine", commands: ["exit 3"] } } })));
  const names = list(await json("get", "pipelines")).map((pipeline) => pipeline.metadata?.name ?? pipeline.name);
  assert.deepEqual(names.sort(), ["shop/build", "shop/other"]);
  assert.equal(list(await json("get", "pipelines", "--project", "shop")).length, 2);
  const [read] = list(await json("get", "pipeline", "shop/build"));
  assert.deepEqual(Object.keys(read.spec.steps), ["first", "second"]);
  read.spec.concurrency = 2;
  assert.match(await codefresh("replace", "-f", file("replaced.yaml", read)), /updated|replaced/i);
  assert.equal((await platform.api("/api/pipelines/shop%2Fbuild")).spec.concurrency, 2);
  assert.match(await codefresh("validate", file("good.yml", "version: '1.0'\nsteps:\n  a:\n    image: alpine\n")), /valid/i);
  const bad = await outcome("validate", file("bad.yml", "version: '1.0'\nsteps:\n  a:\n    type: build\n    image_nam: x\n"));
  assert.notEqual(bad.code, 0);
  assert.match(bad.text, /image_name|image_nam/);
});

let first;
test("run: detached and waited for; attached with its log; the exit code is the build's", async () => {
  first = (await codefresh("run", "shop/build", "-d", "-v", "GREETING=moon")).match(/[0-9a-f]{24}/)[0];
  assert.match(await codefresh("wait", first), /success/);
  const whole = await codefresh("logs", first);
  assert.match(whole, /hello moon from eu/);
  const attached = await outcome("run", "shop/build");
  assert.equal(attached.code, 0, attached.text);
  assert.match(attached.text, /hello world from eu[\s\S]*done/);
  const failed = await outcome("run", "shop/other");
  assert.equal(failed.code, 1, failed.text);
});

test("builds: listed, filtered, one of them, annotated", async () => {
  const builds = list(await json("get", "builds"));
  assert.ok(builds.length >= 3, JSON.stringify(builds));
  const failed = list(await json("get", "builds", "--status", "error"));
  assert.deepEqual(failed.map((build) => build.pipelineName ?? build["pipeline-name"]), ["shop/other"]);
  const [one] = list(await json("get", "build", first));
  assert.equal(one.id, first);
  await codefresh("create", "annotation", "build", first, "reviewed=yes");
  assert.match(await codefresh("get", "annotation", "build", first), /reviewed/);
  assert.equal((await platform.api(`/api/builds/${first}`)).annotations.reviewed, "yes");
});

test("a running build is followed, terminated and restarted", async () => {
  const slow = { wait: { image: "alpine", commands: ["echo started", "sleep 60"] } };
  await codefresh("create", "-f", file("slow.yaml", manifest("shop/slow", { steps: slow })));
  const id = (await codefresh("run", "shop/slow", "-d")).match(/[0-9a-f]{24}/)[0];
  const following = outcome("logs", id, "-f");
  await until("it has started", async () => JSON.stringify(await platform.log(id)).includes("started"));
  assert.match(await codefresh("terminate", id), /terminated/);
  const followed = await following;
  assert.match(followed.text, /started/);
  await until("it has ended", async () => (await platform.api(`/api/builds/${id}`)).status === "terminated");
  const again = (await codefresh("restart", id, "-d")).match(/[0-9a-f]{24}/)[0];
  assert.notEqual(again, id);
  assert.equal((await platform.api(`/api/builds/${again}`)).restartOf, id);
  await codefresh("terminate", again);
});

test("a build that asks is approved, and another denied", async () => {
  const asks = { ask: { type: "pending-approval" }, after: { image: "alpine", commands: ["echo went on"] } };
  await codefresh("create", "-f", file("asks.yaml", manifest("shop/asks", { steps: asks })));
  for (const [answer, status] of [["approve", "success"], ["deny", "error"]]) {
    const id = (await codefresh("run", "shop/asks", "-d")).match(/[0-9a-f]{24}/)[0];
    await codefresh("wait", id, "--status", "pending-approval");
    await codefresh(answer, id);
    const build = await until(`it is ${status}`, async () => {
      const seen = await platform.api(`/api/builds/${id}`);
      return seen.status === status && seen;
    });
    assert.deepEqual(build.approvals.map((given) => [given.step, given.approved]), [["ask", answer === "approve"]]);
  }
});

test("triggers: an event of a registry starts a pipeline that waits for it", async () => {
  const made = await codefresh("create", "trigger-event", "--type", "registry", "--kind", "dockerhub", "--value", "namespace=acme", "--value", "name=app", "--value", "action=push");
  const uri = made.match(/registry:dockerhub:acme:app:push:[0-9a-f]+/)[0];
  assert.match(await codefresh("get", "trigger-events"), /acme/);
  const { metadata } = await platform.api("/api/pipelines/shop%2Fbuild");
  await codefresh("create", "trigger", uri, metadata.id);
  assert.match(await codefresh("get", "triggers"), /acme/);
  const { endpoint } = await platform.api(`/api/hermes/events/${encodeURIComponent(encodeURIComponent(uri))}/endpoint`);
  const before = (await platform.builds()).length;
  const announce = (tag) => fetch(endpoint, { method: "POST", body: JSON.stringify({ repository: { repo_name: "acme/app" }, push_data: { tag } }) });
  for (const tag of ["v7", "v7", "v8"]) assert.equal((await announce(tag)).status, 200);
  // Builds follow what was announced, in its order: when the last one is there, the repetition was looked at.
  const started = () => platform.builds().then((builds) => builds.length - before);
  await until("both have begun", async () => (await started()) >= 2);
  assert.equal(await started(), 2, "a repetition starts nothing");
  assert.equal((await fetch(endpoint.replace(/secret=.*/, "secret=wrong"), { method: "POST", body: "{}" })).status, 401);
  await codefresh("delete", "trigger", uri, metadata.id);
});

test("a runner is made known as the chart's installer does it, changed, shown and removed", async () => {
  const kubeconfig = join(platform.folder, "kubeconfig");
  const entries = (value) => [{ name: "east", ...value }];
  writeFileSync(kubeconfig, JSON.stringify({ apiVersion: "v1", kind: "Config", "current-context": "east", clusters: entries({ cluster: { server: "https://127.0.0.1:1" } }), users: entries({ user: {} }), contexts: entries({ context: { cluster: "east", user: "east" } }) }));
  const words = ["--name", "east_cf", "--install-runtime", "--runtime-name", "east/cf", "--skip-cluster-creation", "--platform-only", "--agent-kube-namespace", "cf", "--kube-namespace", "cf", "--kube-context-name", "east", "--kube-config-path", kubeconfig, "--storage-class-name", "fast"];
  const installed = await codefresh("install", "agent", ...words);
  // The chart's script takes the last line for the agent's token.
  const key = installed.trim().split("\n").at(-1);
  assert.match(key, /^[0-9a-f]{24}\.[0-9a-f]{40}$/, installed);
  await assert.rejects(codefresh("install", "agent", ...words), /already exists/);
  // As text: the published command prints nothing of an agent as JSON.
  assert.match(await codefresh("get", "agents"), /east_cf/);
  assert.deepEqual((await platform.api("/api/agents/name/east_cf")).runtimes, ["east/cf"]);
  const [runtime] = list(await json("get", "re", "east/cf"));
  assert.equal(runtime.metadata.agent, true, JSON.stringify(runtime));
  assert.deepEqual([runtime.runtimeScheduler.cluster.namespace, runtime.runtimeScheduler.cluster.serviceAccount], ["cf", "codefresh-engine"]);
  assert.equal(runtime.dockerDaemonScheduler.pvcs[0].storageClassName, "fast");

  // As the chart's job after the installation.
  const spec = file("re.yaml", { metadata: { name: "east/cf", agent: true }, extends: ["system/default/hybrid/k8s_low_limits"], description: "ours", runtimeScheduler: { cluster: { namespace: "cf", clusterProvider: { selector: "east" }, nodeSelector: { pool: "builds" } } }, dockerDaemonScheduler: { cluster: { namespace: "cf", clusterProvider: { selector: "east" } } } });
  assert.match(await codefresh("patch", "re", "-f", spec), /'east\/cf' patched/);
  const [patched] = list(await json("get", "re", "east/cf"));
  assert.deepEqual([patched.version, patched.runtimeScheduler.cluster.nodeSelector], [2, { pool: "builds" }]);
  assert.match(await codefresh("get", "re"), /east\/cf/);
  assert.equal(JSON.parse(await codefresh("get", "re", "east/cf", "--history")).length, 2);
  await codefresh("patch", "re", "-f", spec, "--default");
  await assert.rejects(codefresh("delete", "re", "east/cf"), /default/);

  const { code, text } = await outcome("install", "agent", "--token", key, ...words.filter((word) => word !== "--name" && word !== "east_cf"));
  assert.equal(code, 0, text);
  assert.match(await codefresh("delete", "re", "east/cf", "--force"), /deleted/);
  assert.match(await codefresh("delete", "agent", "east_cf"), /deleted/);
  assert.match(await codefresh("create", "agent", "west", "--runtimes", "west/cf"), /Agent: "west" created[\s\S]*[0-9a-f]{24}\./);
  await codefresh("delete", "agent", "west");
});

test("pipelines: deleted, and what is not there is said in words", async () => {
  assert.match(await codefresh("delete", "pipeline", "shop/other"), /deleted/i);
  await assert.rejects(codefresh("get", "pipeline", "shop/other"), /exist|not find/i);
  await assert.rejects(codefresh("run", "shop/other", "-d"), /does not exist|not find/i);
});

test("audit: downloaded as CSV, with a filter", async () => {
  const file = join(platform.folder, "audit.csv");
  await codefresh("download", "audit", "--file", file, "--entity", "context");
  const lines = readFileSync(file, "utf8").trim().split("\n");
  assert.match(lines[0], /^seq,createdAt/);
  assert.ok(lines.length > 4, lines.join("\n"));
  assert.ok(lines.slice(1).every((line) => line.includes(",context,")));
  assert.ok(!lines.join().includes("canary"), "no secret in the trail");
});

test("our own command line signs in with a password from standard input and keeps a key", async () => {
  const { adminEmail, adminPassword } = platform.credentials;
  const config = join(platform.folder, "own-contexts.json");
  const text = await new Promise((done, failed) => {
    const child = spawn(resolve(process.env.SLIPWAY_BIN), ["auth", "login", "--url", platform.url, "--email", adminEmail, "--name", "mine"], {
      env: { ...platform.environment(), SLIPWAY_CONFIG: config },
    });
    let out = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (part) => (out += part));
    child.once("exit", (code) => (code === 0 ? done(out) : failed(new Error(out))));
    child.stdin.end(`${adminPassword}\n`);
  });
  assert.match(text, /Signed in as admin to account default; using context `mine`/);
  const saved = JSON.parse(readFileSync(config, "utf8"));
  assert.match(saved.contexts.mine.api_key, /^[0-9a-f]{24}\.[0-9a-f]{40}$/);
  assert.equal((statSync(config).mode & 0o777).toString(8), "600");
});

test("our own command line sees the same", async () => {
  assert.match(await platform.slipway("get", "teams"), /devs/);
  assert.match(await platform.slipway("get", "contexts", "-o", "name"), /^hidden$/m);
  assert.match(await platform.slipway("get", "usage"), /seats/);
  assert.match(await platform.slipway("describe", "team", "devs"), /name: devs/);
  assert.match(await platform.slipway("create", "user", "ada@example.com"), /\/invitation#[0-9a-f]{64}/);
  assert.match(await platform.slipway("access", "explain", "--action", "read", "--entity", "shared-configuration/hidden"), /^allowed: .*Administrator/);
  await assert.rejects(
    platform.slipway("access", "explain", "--action", "PROMOTE_TO", "--entity", "environments/prod"),
    /no access rules apply to `environments`/,
  );
  assert.match(await platform.slipway("get", "audit", "--filter", "entity=team", "-o", "wide"), /devs/);
  assert.match(await platform.slipway("secrets", "rotate"), /Rotated: \d+ data keys/);
  assert.match(await platform.slipway("audit", "verify", "--platform"), /The chain is intact/);
  const opened = await platform.api("/api/contexts/hidden?decrypt=true");
  assert.equal(opened.spec.data.TOKEN, "canary-e2e", "secrets open after a rotation");
});
