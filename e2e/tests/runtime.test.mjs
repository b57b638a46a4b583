// A runtime elsewhere: a platform without one, a cluster of its own, and between them one connection that the runtime opened.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFile, execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { inherited, until } from "../platform.mjs";

const run = promisify(execFile);
const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const folder = mkdtempSync(join(tmpdir(), "slipway-e2e-"));
const kubeconfig = join(folder, "kubeconfig");
const repo = join(folder, "repo");
const environment = {
  ...inherited(),
  HOME: folder,
  SLIPWAY_CONFIG: join(folder, "contexts.json"),
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "Ada Lovelace",
  GIT_AUTHOR_EMAIL: "ada@example.com",
  GIT_COMMITTER_NAME: "Ada Lovelace",
  GIT_COMMITTER_EMAIL: "ada@example.com",
};

/** A process that can be killed and asked what it said. */
class Program {
  constructor(args, extra = {}) {
    this.args = args;
    this.extra = extra;
    this.said = "";
  }

  start() {
    this.child = spawn(binary, this.args, { stdio: ["ignore", "pipe", "pipe"], env: { ...environment, ...this.extra } });
    this.child.stderr.on("data", (text) => {
      this.said += text;
      if (process.env.SLIPWAY_E2E_VERBOSE) process.stderr.write(text);
    });
    this.exited = new Promise((done) => this.child.once("exit", (code, signal) => done(signal ?? code)));
    this.line = new Promise((done) => createInterface({ input: this.child.stdout }).once("line", done));
    return this;
  }

  firstLine() {
    return Promise.race([
      this.line,
      this.exited.then((code) => {
        throw new Error(`slipway ${this.args[0]} ended with ${code}: ${this.said}`);
      }),
    ]);
  }

  async end(signal) {
    if (this.child && this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    return this.child && this.exited;
  }
}

let server, cluster, runtime, url, apiKey, token;
let listen = "127.0.0.1:0";
let metricsPort;

async function startServer() {
  server = new Program(["server", "--data", join(folder, "platform"), "--listen", listen, "--output", "json"]).start();
  const ready = JSON.parse(await server.firstLine());
  url = ready.url;
  listen = new URL(url).host;
  apiKey ??= ready.apiKey;
}

const startRuntime = (withToken = token) =>
  new Program(
    ["runtime", "--server", url, "--kubeconfig", kubeconfig, "--data", join(folder, "runtime"), "--allow-local-repositories", "--metrics-listen", `127.0.0.1:${metricsPort}`],
    { SLIPWAY_TOKEN: withToken },
  ).start();

const slipway = async (...args) => (await run(binary, args, { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } })).stdout;
const kubectl = async (...args) => (await run("kubectl", args, { env: { ...environment, KUBECONFIG: kubeconfig } })).stdout;
const list = async () => JSON.parse(await slipway("runtime", "list", "-o", "json"));
const seen = async (name = "east") => JSON.parse(await slipway("runtime", "get", name, "-o", "json"));
const online = (name) => until("the runtime is online by tunnel", async () => {
  const now = await seen(name);
  return now.state === "online" && now.tunnels === 1 && now;
});
// A metric without labels, of the runtime or of the platform.
const metric = async (name, of = `http://127.0.0.1:${metricsPort}`) => {
  const text = await (await fetch(`${of}/metrics`, { headers: { authorization: apiKey } })).text();
  const found = new RegExp(`^${name} (\\S+)$`, "m").exec(text);
  assert.ok(found, `${name} in ${text}`);
  return Number(found[1]);
};
const git = (...args) => execFileSync("git", ["-C", repo, ...args], { env: environment, encoding: "utf8" }).trim();
const application = async () => JSON.parse(await slipway("app", "get", "shop", "-o", "json"));

function commit(value) {
  writeFileSync(join(repo, "app/a.yaml"), `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: "${value}"}\n`);
  git("add", ".");
  git("commit", "-q", "-m", `Value ${value}`);
  return git("rev-parse", "HEAD");
}

const image = "localhost/slipway-e2e-talker:1";

function makeImage() {
  const tree = join(folder, "tree");
  mkdirSync(join(tree, "bin"), { recursive: true });
  mkdirSync(join(tree, "tmp"));
  copyFileSync(execFileSync("sh", ["-c", "command -v busybox"], { encoding: "utf8" }).trim(), join(tree, "bin/busybox"));
  for (const name of ["sh", "sleep", "cat", "echo"]) symlinkSync("busybox", join(tree, "bin", name));
  execFileSync("sh", ["-c", `tar -C ${tree} -c . | podman import -q --change 'CMD ["/bin/sh"]' - ${image}`]);
}

before(async () => {
  mkdirSync(join(repo, "app"), { recursive: true });
  git("init", "-q", "-b", "main");
  commit(1);
  await startServer();
  metricsPort = await new Promise((done) => {
    const free = createServer().listen(0, "127.0.0.1", () => {
      const { port } = free.address();
      free.close(() => done(port));
    });
  });
  cluster = new Program(["devcluster", "--data", join(folder, "cluster"), "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig]).start();
  await cluster.firstLine();
});

after(async () => {
  for (const program of [runtime, server, cluster]) await program?.end("SIGTERM");
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("a runtime is registered by the CLI, and its token is shown once", async () => {
  assert.deepEqual(await list(), []);
  token = (await slipway("runtime", "create", "east")).trim();
  assert.match(token, /^[0-9a-f]{24}\.[0-9a-f]{40}$/);
  assert.equal((await seen()).state, "never-connected");
  assert.ok(!JSON.stringify(await seen()).includes(token.split(".")[1]));
  await assert.rejects(slipway("runtime", "create", "east"), /already: choose another name/);
  await assert.rejects(slipway("runtime", "create", "East"), /38 lowercase letters/);
});

test("a runtime without a token, with a wrong one or somebody else's does not start", async () => {
  for (const [wrong, sentence] of [
    ["", /give the runtime's token/],
    [`${token.split(".")[0]}.${"0".repeat(40)}`, /refuses this token/],
    [apiKey, /refuses this token/],
  ]) {
    const refused = startRuntime(wrong);
    assert.equal(await refused.exited, 1, refused.said);
    assert.match(refused.said, sentence);
  }
  assert.equal((await seen()).state, "never-connected");
});

test("it comes online by a tunnel that it opened, and its Application is listed", { timeout: 180_000 }, async () => {
  runtime = startRuntime();
  const now = await online();
  assert.equal(now.accessMode, "tunnel");
  assert.equal(now.sessions[0].peer, "127.0.0.1");
  assert.match(await slipway("runtime", "list"), /east +online +\S+ +tunnel +1/);
  await until("the definitions are there", () => kubectl("get", "crd", "applications.argoproj.io"));
  await until("the namespace is there", () => kubectl("get", "namespace", "argocd"));
  await kubectl("create", "namespace", "shop");
  writeFileSync(join(folder, "app.yaml"), `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec: {sourceRepos: ["*"], destinations: [{namespace: "*", server: "*"}]}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: argocd}
spec:
  project: default
  source: {repoURL: "file://${repo}", path: app, targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: shop}
`);
  await kubectl("apply", "-f", join(folder, "app.yaml"));
  await until("the Application is reported", async () => /OutOfSync/.test(await slipway("app", "list")));
});

test("plan, diff and sync go through the tunnel", { timeout: 120_000 }, async () => {
  assert.match(await slipway("app", "plan", "shop"), /ConfigMap shop\/a/);
  const diff = await run(binary, ["app", "diff", "shop"], { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } }).catch((error) => error);
  assert.equal(diff.code, 1, "there is a difference");
  assert.match(diff.stdout, /key: "1"/);
  await slipway("app", "sync", "shop", "--wait");
  assert.match(await kubectl("-n", "shop", "get", "configmap", "a", "-o", "jsonpath={.data.key}"), /^1$/);
  assert.ok((await seen()).sessions[0].served >= 3);
  const record = (await slipway("get", "audit", "--filter", "entity=application", "-o", "json"));
  assert.match(record, /"action": ?"sync"/);
  // What is to be a commit, and only tried, changes nothing in the cluster.
  await assert.rejects(slipway("app", "set", "shop", "--sync-policy", "none", "--dry-run"), /this is a commit: say where it is declared/);
  await assert.rejects(slipway("app", "sync", "shop", "--resource", "ClusterRole/team:a:read"), /shop has no resource `ClusterRole\/team:a:read`/);
});

test("how the tunnel and the reports fare is counted at both ends", { timeout: 60_000 }, async () => {
  await until("everything was heard", async () => (await metric("slipway_reports_waiting")) === 0 && (await metric("slipway_reports_acknowledged_total")) > 1);
  assert.deepEqual([await metric("slipway_tunnel_open"), await metric("slipway_tunnel_opened_total"), await metric("slipway_tunnel_failures_total")], [1, 1, 0]);
  assert.deepEqual([await metric("slipway_reports_retries_total"), await metric("slipway_reports_outbox_bytes")], [0, 0]);
  const [session] = (await seen()).sessions;
  assert.ok(session.receivedBytes > 1_000 && session.sentBytes > 1_000, JSON.stringify(session));
  assert.ok((await metric("slipway_tunnel_sent_bytes_total")) >= session.receivedBytes);
  assert.ok((await metric("slipway_tunnel_received_bytes_total", url)) >= session.receivedBytes);
  const tunnel = (await seen()).components.find(({ name }) => name === "tunnel");
  assert.deepEqual([tunnel.state, tunnel.message ?? ""], ["healthy", ""]);
});

test("what its process says is shown to an Administrator, by component", { timeout: 60_000 }, async () => {
  const { stdout: said, stderr: whose } = await run(binary, ["runtime", "logs", "east", "--own"], { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } });
  assert.match(said, /INFO +tunnel: The tunnel to the platform is open\./);
  assert.match(whose, /^What process \S+ says(; \d+ earlier lines are not kept)?:\n$/);
  const lines = (await slipway("runtime", "logs", "east", "--own", "--component", "tunnel", "--tail", "1")).trim().split("\n");
  assert.equal(lines.length, 1);
  assert.match(lines[0], /^\S+Z \w+ +tunnel: /);
  assert.match(await slipway("get", "audit", "--filter", "action=runtime-logs", "-o", "json"), /"entityId": ?"east"/);
});

test("logs, commands and deletion go through the tunnel, and commands need a right of their own", { timeout: 180_000 }, async () => {
  makeImage();
  writeFileSync(
    join(repo, "app/talker.yaml"),
    `apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: ${image}
      imagePullPolicy: IfNotPresent
      command: [sh, -c, "echo hello; n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.3; done"]
`,
  );
  git("add", ".");
  git("commit", "-q", "-m", "A talker");
  await slipway("app", "refresh", "shop");
  await until("the pod is planned", async () => /Pod shop\/talker/.test(await slipway("app", "plan", "shop")));
  await slipway("app", "sync", "shop", "--wait");
  await until("the pod is reported", async () => /Pod\/talker +Synced, Healthy/.test(await slipway("app", "tree", "shop")));
  assert.match(await slipway("app", "logs", "shop"), /^\[talker\/main\] hello$/m);
  assert.match(await slipway("app", "logs", "shop", "--name", "talker", "--tail", "1"), /^tick \d+\n$/);
  await assert.rejects(slipway("app", "logs", "shop", "--name", "other"), /has no resource/);
  await assert.rejects(slipway("app", "logs", "shop", "-c", "none"), /no container is called none: there are main/);
  // Each of its objects, as Git and as the cluster has it, and what was noted about it.
  assert.match(await slipway("app", "resources", "shop"), /^Pod\/talker +shop +Synced +Healthy/m);
  assert.match(await slipway("app", "manifests", "shop"), /^kind: Pod$[^]*^ {4}imagePullPolicy: IfNotPresent$/m);
  assert.match(await slipway("app", "manifests", "shop", "--resource", "Pod/talker"), /^status:$[^]*^ {2}phase: Running$/m);
  await until("its start was noted", async () => /Normal +Started +Pod\/talker/.test(await slipway("app", "events", "shop", "--resource", "Pod/talker")));
  // Followed: it goes on until whoever reads leaves.
  const following = new Program(["app", "logs", "shop", "--name", "talker", "--tail", "1", "-f"], { SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey }).start();
  let heard = "";
  following.child.stdout.on("data", (text) => (heard += text));
  await until("what is printed later comes", () => heard.split("tick").length > 4);
  await following.end("SIGTERM");

  const said = await slipway("app", "exec", "shop", "--", "sh", "-c", "echo from inside; cat /proc/1/comm");
  assert.match(said, /^from inside\nsh\n$/);
  const failed = await run(binary, ["app", "exec", "shop", "--", "sh", "-c", "echo no >&2; exit 7"], { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } }).catch((error) => error);
  assert.deepEqual([failed.code, failed.stderr], [7, "no\n"]);
  const typing = run(binary, ["app", "exec", "shop", "-i", "--", "cat"], { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } });
  typing.child.stdin.end("typed\n");
  assert.equal((await typing).stdout, "typed\n");
  const records = JSON.parse(await slipway("get", "audit", "--filter", "entity=application", "-o", "json"));
  const of = (action) => records.filter((record) => record.action === action).map((record) => record.detail.after.session).toSorted();
  assert.equal(of("exec").length, 3);
  await until("every command's end is recorded", async () => {
    const all = JSON.parse(await slipway("get", "audit", "--filter", "action=exec-end", "-o", "json"));
    return JSON.stringify(all.map((record) => record.detail.after.session).toSorted()) === JSON.stringify(of("exec"));
  });
  // A key that only reads sees logs and runs nothing.
  const reader = (await slipway("key", "create", "reader", "--scope", "gitops:read")).trim().split("\n").pop();
  const asReader = { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: reader } };
  assert.match((await run(binary, ["app", "logs", "shop", "--tail", "1"], asReader)).stdout, /tick/);
  for (const args of [["exec", "shop", "--", "sh"], ["delete-resource", "shop", "Pod/talker"]]) {
    await assert.rejects(run(binary, ["app", ...args], asReader), /limited to other scopes/);
  }
  assert.match(await slipway("app", "delete-resource", "shop", "Pod/talker", "--force"), /Pod\/talker is deleted/);
  await until("it is gone", async () => (await kubectl("-n", "shop", "get", "pods", "-o", "name")) === "");
  git("rm", "-q", "app/talker.yaml");
  git("commit", "-q", "-m", "No talker");
});

test("a Git token is asked for, refused for hosts that nobody named, and never said again", { timeout: 60_000 }, async () => {
  assert.deepEqual(JSON.parse(await slipway("runtime", "git", "tokens", "east", "-o", "json")), []);
  const canary = "canary-git-token-0123456789";
  const wrong = { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey, SLIPWAY_GIT_TOKEN: canary } };
  const refused = await run(binary, ["runtime", "git", "register", "east", "--provider", "gitea", "--host", "http://127.0.0.1:1"], wrong).catch((error) => error);
  assert.match(refused.stderr, /does not know http:\/\/127\.0\.0\.1:1/);
  await assert.rejects(slipway("runtime", "git", "repositories", "east", "--provider", "github"), /given this runtime no token for github/);
  const records = await slipway("get", "audit", "--filter", "entity=runtime", "-o", "json");
  assert.match(records, /"action": ?"git-register"/);
  for (const said of [records, refused.stderr, server.said, runtime.said]) assert.ok(!said.includes(canary));
});

test("killed and started again it is online again, and works", { timeout: 120_000 }, async () => {
  await runtime.end("SIGKILL");
  await until("the tunnel is gone", async () => (await seen()).tunnels === 0);
  await assert.rejects(slipway("app", "plan", "shop"), /not connected/);
  runtime = startRuntime();
  await online();
  const second = commit(2);
  await until("it answers", () => slipway("app", "refresh", "shop"));
  await until("it sees the new commit", async () => (await application()).revision?.sha === second);
  await slipway("app", "sync", "shop", "--wait");
  assert.equal(await kubectl("-n", "shop", "get", "configmap", "a", "-o", "jsonpath={.data.key}"), "2");
});

test("when the platform comes back, so does the tunnel", { timeout: 120_000 }, async () => {
  await server.end("SIGKILL");
  await startServer();
  await online();
  await until("the app-proxy answers", () => slipway("app", "plan", "shop"));
  assert.equal(await metric("slipway_tunnel_opened_total"), 2);
  assert.ok((await metric("slipway_tunnel_failures_total")) > 0);
  await until("how it broke is told", async () => /^it is open; before: /.test((await seen()).components.find(({ name }) => name === "tunnel").message));
});

test("a renamed runtime goes on under its new name", { timeout: 120_000 }, async () => {
  await slipway("runtime", "rename", "east", "west");
  await online("west");
  await until("it reports under its new name", async () => (await application()).runtime === "west");
  await until("the app-proxy answers", () => slipway("app", "plan", "shop"));
  await slipway("runtime", "rename", "west", "east");
  await online();
});

test("a revoked token ends it at once, and a new one brings it back", { timeout: 120_000 }, async () => {
  await slipway("runtime", "revoke", "east");
  const now = await seen();
  assert.equal(now.state, "revoked");
  await until("the tunnel is closed", async () => (await seen()).tunnels === 0, 10);
  await until("it hears why", async () => /refuses this runtime's token|refused the tunnel/.test(runtime.said));
  await runtime.end("SIGTERM");
  const refused = startRuntime();
  assert.equal(await refused.exited, 1);
  assert.match(refused.said, /slipway runtime token NAME/);
  token = (await slipway("runtime", "token", "east")).trim();
  runtime = startRuntime();
  await online();
});

test("it ends when it is asked to, and a deleted runtime is not let in again", { timeout: 60_000 }, async () => {
  runtime.child.kill("SIGTERM");
  assert.equal(await runtime.exited, 0, runtime.said);
  await slipway("runtime", "delete", "east", "--yes");
  assert.deepEqual(await list(), []);
  const refused = startRuntime();
  assert.equal(await refused.exited, 1);
});
