// Two networks: the platform in one, with --egress none; the customer's cluster (a real Kubernetes), runtime, runner and Git host (a real Gitea) in
// the other, behind a firewall that lets nothing in. Both are namespaces of this machine's network, so this needs root; a rule counts every connection that the platform opens.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { inherited, until } from "../platform.mjs";

const run = promisify(execFile);
const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const folder = mkdtempSync(join(tmpdir(), "slipway-e2e-"));
// Names of links have fifteen letters at most, and other runs may be under way.
const id = process.pid.toString(36).slice(-5) + Math.floor(Math.random() * 1296).toString(36).padStart(2, "0");
const [outside, inside] = [`sp-${id}`, `sc-${id}`];
const net = `10.${100 + Math.floor(Math.random() * 100)}.${Math.floor(Math.random() * 250)}`;
const [platformIp, customerIp] = [`${net}.1`, `${net}.2`];
const scripts = resolve(import.meta.dirname, "../../scripts");
const forgeFolder = join(folder, "gitea");
// On loopback of a network that nobody else is in.
const forgeUrl = "http://127.0.0.1:3000";
// A cluster of this test's own: its API, its node and its pods are in the customer's network.
const kubeName = `${(process.env.NAME ?? "e2e").slice(0, 16)}-fw-${id}`;
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

// Not `ip netns exec`, which hides the cgroups that a node needs.
const kube = (...args) =>
  execFileSync("nsenter", [`--net=/run/netns/${inside}`, join(scripts, "kube.sh"), ...args], { encoding: "utf8", env: { ...process.env, NAME: kubeName }, stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n").at(-1);
const ip = (...args) => execFileSync("ip", args, { encoding: "utf8" });
const within = (namespace, program, ...args) => ip("netns", "exec", namespace, program, ...args);

class Program {
  constructor(namespace, args, extra = {}) {
    this.said = "";
    this.child = spawn("ip", ["netns", "exec", namespace, binary, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...environment, ...extra },
    });
    this.child.stderr.on("data", (text) => {
      this.said += text;
      if (process.env.SLIPWAY_E2E_VERBOSE) process.stderr.write(text);
    });
    this.exited = new Promise((done) => this.child.once("exit", (code, signal) => done(signal ?? code)));
    this.line = new Promise((done) => createInterface({ input: this.child.stdout }).once("line", done));
    this.name = args[0];
  }

  firstLine() {
    return Promise.race([
      this.line,
      this.exited.then((code) => {
        throw new Error(`slipway ${this.name} ended with ${code}: ${this.said}`);
      }),
    ]);
  }

  async end() {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill("SIGTERM");
    return this.exited;
  }
}

let server, kubeconfig, runtime, runner, url, apiKey, token, owner, password;

// People sit where the platform is.
const slipway = async (...args) =>
  (await run("ip", ["netns", "exec", outside, binary, ...args], { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } })).stdout;
const kubectl = async (...args) =>
  (await run("ip", ["netns", "exec", inside, "kubectl", ...args], { env: { ...environment, KUBECONFIG: kubeconfig } })).stdout;
// Asked where the Git host is: nobody else reaches it.
const curl = async (...args) => JSON.parse((await run("ip", ["netns", "exec", inside, "curl", "-fsS", ...args])).stdout);
const forge = (method, path, body) =>
  curl("-u", `${owner}:${password}`, "-X", method, "-H", "content-type: application/json", ...(body ? ["-d", JSON.stringify(body)] : []), `${forgeUrl}/api/v1${path}`);
const platform = async (method, path, body) => {
  const said = ["-fsS", "-X", method, "-H", `authorization: ${apiKey}`, "-H", "content-type: application/json", ...(body ? ["-d", JSON.stringify(body)] : [])];
  return JSON.parse((await run("ip", ["netns", "exec", outside, "curl", ...said, `${url}${path}`])).stdout);
};
const base64 = (text) => Buffer.from(text).toString("base64");
const git = (...args) => execFileSync("git", ["-C", repo, ...args], { env: environment, encoding: "utf8" }).trim();

// Connections that processes of the platform's network opened to other networks, as the kernel counts them: packets that begin one.
function opened() {
  const rules = within(outside, "iptables", "-L", "OUTPUT", "-v", "-n", "-x");
  const line = rules.split("\n").find((text) => text.includes("ctstate NEW"));
  return Number(line.trim().split(/\s+/)[0]);
}

before(async () => {
  for (const namespace of [outside, inside]) ip("netns", "add", namespace);
  ip("link", "add", `${outside}v`, "netns", outside, "type", "veth", "peer", "name", `${inside}v`, "netns", inside);
  for (const [namespace, address] of [[outside, platformIp], [inside, customerIp]]) {
    ip("-n", namespace, "addr", "add", `${address}/24`, "dev", `${namespace}v`);
    ip("-n", namespace, "link", "set", `${namespace}v`, "up");
    ip("-n", namespace, "link", "set", "lo", "up");
  }
  // Out is free, in is answers alone.
  within(inside, "iptables", "-A", "INPUT", "-i", "lo", "-j", "ACCEPT");
  // The customer's own node and pods are at the other end of the cluster's link.
  within(inside, "iptables", "-A", "INPUT", "-i", "slipway+", "-j", "ACCEPT");
  within(inside, "iptables", "-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT");
  within(inside, "iptables", "-A", "INPUT", "-j", "DROP");
  within(outside, "iptables", "-A", "OUTPUT", "!", "-o", "lo", "-m", "conntrack", "--ctstate", "NEW", "-j", "ACCEPT");
  mkdirSync(join(repo, "app"), { recursive: true });
  git("init", "-q", "-b", "main");
  writeFileSync(join(repo, "app/a.yaml"), 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: "1"}\n');
  git("add", ".");
  git("commit", "-q", "-m", "A value");
  server = new Program(outside, ["server", "--data", join(folder, "platform"), "--listen", `${platformIp}:8080`, "--egress", "none", "--output", "json"]);
  execFileSync(join(scripts, "gitea.sh"), ["build"], { stdio: ["ignore", "ignore", "inherit"] });
  execFileSync("ip", ["netns", "exec", inside, join(scripts, "gitea.sh"), "start", forgeFolder, "3000"], { stdio: ["ignore", "ignore", "inherit"] });
  [owner, password] = readFileSync(join(forgeFolder, "administrator"), "utf8").trim().split(" ");
  const ready = JSON.parse(await server.firstLine());
  [url, apiKey] = [ready.url, ready.apiKey];
  kubeconfig = kube("up");
});

after(async () => {
  for (const program of [runner, runtime, server]) await program?.end();
  kube("down");
  if (kubeconfig) rmSync(`${dirname(kubeconfig)}.lock`, { force: true });
  execFileSync(join(scripts, "gitea.sh"), ["stop", forgeFolder]);
  for (const namespace of [outside, inside]) {
    try {
      ip("netns", "del", namespace);
    } catch {
      // It was not made.
    }
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("a runtime behind the firewall comes online by a tunnel that it opened", { timeout: 180_000 }, async () => {
  token = (await slipway("runtime", "create", "prod")).trim();
  runtime = new Program(
    inside,
    ["runtime", "--server", url, "--plain-http", "--kubeconfig", kubeconfig, "--data", join(folder, "runtime"), "--allow-local-repositories"],
    { SLIPWAY_TOKEN: token },
  );
  const now = await until("online", async () => {
    const seen = JSON.parse(await slipway("runtime", "get", "prod", "-o", "json"));
    return seen.state === "online" && seen.tunnels === 1 && seen;
  });
  assert.equal(now.sessions[0].peer, customerIp);
  // Nobody gets in by another way, not even to a port that is open there.
  const api = /server: (\S+)/.exec(readFileSync(kubeconfig, "utf8"))[1];
  const knock = await run("ip", ["netns", "exec", inside, "curl", "-sk", "-m", "2", `${api}/version`]).catch((error) => error);
  assert.notEqual(knock.code, 28, "it is open inside");
  assert.match(await kubectl("get", "nodes"), / Ready /, "a node that pods run on");
});

test("an Application is listed, planned and synced through the tunnel", { timeout: 180_000 }, async () => {
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
  assert.match(await slipway("app", "plan", "shop"), /ConfigMap shop\/a/);
  await slipway("app", "sync", "shop", "--wait");
  assert.equal(await kubectl("-n", "shop", "get", "configmap", "a", "-o", "jsonpath={.data.key}"), "1");
  await until("it is shown", async () => JSON.parse(await slipway("app", "get", "shop", "-o", "json")).syncStatus === "Synced");
});

test("a push to the Git host is deployed by a webhook that comes back through the tunnel", { timeout: 300_000 }, async () => {
  const secret = "hook-secret";
  // Nothing is polled: whatever arrives, the webhook brought it.
  for (const [kind, name, key, value] of [
    ["ConfigMap", "argocd-cm", "timeout.reconciliation", "0s"],
    ["Secret", "argocd-secret", "webhook.gogs.secret", secret],
  ]) {
    const object = { apiVersion: "v1", kind, metadata: { name, namespace: "argocd" }, data: { [key]: kind === "Secret" ? base64(value) : value } };
    writeFileSync(join(folder, `${kind}.json`), JSON.stringify(object));
    await kubectl("apply", "-f", join(folder, `${kind}.json`));
  }
  await forge("POST", "/user/repos", { name: "deploy", auto_init: true, default_branch: "main" });
  const manifest = (value) => base64(`apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pushed}\ndata: {value: "${value}"}\n`);
  const first = await forge("POST", `/repos/${owner}/deploy/contents/app/map.yaml`, { content: manifest("one"), message: "The first", branch: "main" });
  writeFileSync(join(folder, "pushed.json"), JSON.stringify({
    apiVersion: "argoproj.io/v1alpha1",
    kind: "Application",
    metadata: { name: "pushed", namespace: "argocd" },
    spec: {
      project: "default",
      source: { repoURL: `${forgeUrl}/${owner}/deploy.git`, targetRevision: "main", path: "app" },
      destination: { server: "https://kubernetes.default.svc", namespace: "shop" },
      syncPolicy: { automated: {} },
    },
  }));
  await kubectl("apply", "-f", join(folder, "pushed.json"));
  const deployed = (value) => until(`the value is ${value}`, async () => (await kubectl("-n", "shop", "get", "configmap", "pushed", "-o", "jsonpath={.data.value}")) === value);
  await deployed("one");
  const { url: path } = JSON.parse(await slipway("runtime", "get", "prod", "-o", "json"));
  const hook = { type: "gitea", active: true, events: ["push"], config: { url: `${url}${path}/webhooks/git`, content_type: "json", secret } };
  await forge("POST", `/repos/${owner}/deploy/hooks`, hook);
  await forge("PUT", `/repos/${owner}/deploy/contents/app/map.yaml`, { content: manifest("two"), message: "The second", branch: "main", sha: first.content.sha });
  await deployed("two");
});

test("an Application is created through the tunnel by a commit of its author, and its pods are seen, read and entered", { timeout: 300_000 }, async () => {
  const { sha1: own } = await forge("POST", `/users/${owner}/tokens`, { name: "own", scopes: ["write:repository", "read:user", "read:organization"] });
  const repository = { apiVersion: "v1", kind: "Secret", metadata: { name: "forge", namespace: "argocd", labels: { "argocd.argoproj.io/secret-type": "repo-creds" } }, data: { type: base64("git"), url: base64(forgeUrl), username: base64(owner), password: base64(own) } };
  const root = { apiVersion: "argoproj.io/v1alpha1", kind: "Application", metadata: { name: "apps", namespace: "argocd" }, spec: {
    project: "default",
    source: { repoURL: `${forgeUrl}/${owner}/deploy.git`, targetRevision: "main", path: "apps" },
    destination: { server: "https://kubernetes.default.svc", namespace: "argocd" },
    syncPolicy: { automated: {} },
  } };
  const image = "localhost/slipway-test:1";
  const container = { name: "main", image, imagePullPolicy: "IfNotPresent", command: ["sh", "-c", "echo hello from inside; while true; do sleep 1; done"] };
  const talker = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "talker" }, spec: {
    selector: { matchLabels: { app: "talker" } },
    template: { metadata: { labels: { app: "talker" } }, spec: { terminationGracePeriodSeconds: 0, containers: [container] } },
  } };
  await forge("POST", `/repos/${owner}/deploy/contents/talker/all.json`, { content: base64(JSON.stringify(talker)), message: "A talker", branch: "main" });
  await forge("POST", `/repos/${owner}/deploy/contents/apps/README.md`, { content: base64("Applications"), message: "A folder", branch: "main" });
  writeFileSync(join(folder, "root.json"), JSON.stringify({ apiVersion: "v1", kind: "List", items: [repository, root] }));
  await kubectl("apply", "-f", join(folder, "root.json"));
  await until("the repository is read", async () => JSON.parse(await slipway("app", "get", "apps", "-o", "json")).syncStatus === "Synced");

  const host = ["--provider", "gitea", "--host", forgeUrl];
  const giving = run("ip", ["netns", "exec", outside, binary, "runtime", "git", "register", "prod", ...host], { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey, SLIPWAY_GIT_TOKEN: own } });
  assert.match((await giving).stdout, new RegExp(owner));
  await slipway("app", "create", "talker", "--runtime", "prod", ...host, "--in", `${owner}/deploy`, "--file", "apps/talker.json", "-m", "An Application of mine",
    "--repo", `${forgeUrl}/${owner}/deploy.git`, "--path", "talker", "--revision", "main", "--dest-namespace", "shop", "--dest-server", "https://kubernetes.default.svc");
  const [commit] = await forge("GET", `/repos/${owner}/deploy/commits?path=apps/talker.json&limit=1`);
  assert.deepEqual([commit.commit.message.trim(), commit.author?.login, commit.committer?.login], ["An Application of mine", owner, owner]);

  const talking = async () => JSON.parse(await slipway("app", "get", "talker", "-o", "json"));
  await until("it is visible", async () => (await talking()).syncStatus === "OutOfSync");
  await slipway("app", "sync", "talker", "--wait");
  const now = await until("its pods run", async () => {
    const now = await talking();
    return now.healthStatus === "Healthy" && now;
  }, 120);
  const [release] = now.history;
  assert.deepEqual([release.why, release.automated ?? false, release.images, release.imageChanges], ["manual", false, [image], [{ image: "localhost/slipway-test", before: [], after: ["1"] }]]);
  assert.match(release.revision.message, /An Application of mine|A folder|A talker/);
  assert.match(await slipway("app", "history", "talker"), /localhost\/slipway-test 1/);
  await until("its log comes", async () => (await slipway("app", "logs", "talker")).includes("hello from inside"));
  assert.equal(await slipway("app", "exec", "talker", "--", "sh", "-c", "echo entered"), "entered\n");
});

test("a runner behind the firewall builds", { timeout: 180_000 }, async () => {
  const key = (await slipway("runner", "token", "box")).trim().split("\n").at(-1);
  runner = new Program(inside, ["runner", "--server", url, "--plain-http", "--token", key, "--executor", "host", "--data", join(folder, "runner")]);
  writeFileSync(join(folder, "pipeline.json"), JSON.stringify({
    metadata: { name: "first/hello" },
    spec: { steps: { hello: { image: "alpine:3.20", commands: ["echo hello from inside"] } } },
  }));
  await run("ip", ["netns", "exec", outside, "curl", "-fsS", "-H", `Authorization: ${apiKey}`, "-H", "Content-Type: application/json",
    "-d", `@${join(folder, "pipeline.json")}`, `${url}/api/pipelines`]);
  assert.match(await slipway("run", "first/hello"), /hello from inside/);
});

test("a push to a Git host that the platform cannot reach is built, and its commit has a status, by the runner", { timeout: 300_000 }, async () => {
  await forge("POST", "/user/repos", { name: "app", auto_init: true, default_branch: "main" });
  const { sha1: key } = await forge("POST", `/users/${owner}/tokens`, { name: "slipway", scopes: ["write:repository", "read:user"] });
  const data = { behindFirewall: true, auth: { type: "basic", password: key, apiHost: forgeUrl } };
  await platform("POST", "/api/contexts", { metadata: { name: "forge" }, spec: { type: "git.gitea", data } });
  const tested = await platform("POST", "/api/contexts/forge/test", {});
  assert.equal(tested.ok, true, tested.message);
  const trigger = { name: "push", type: "git", repo: `${owner}/app`, context: "forge", events: ["push.heads"], commitStatusTitle: "slipway/inside" };
  const steps = { say: { image: "alpine:3.20", commands: ["echo built inside"] } };
  await platform("POST", "/api/pipelines", { version: "1.0", kind: "pipeline", metadata: { name: "inside/build" }, spec: { triggers: [trigger], steps } });
  await until("the webhook is registered", async () => (await platform("GET", "/api/hooks"))[0]?.registered);
  const made = await forge("POST", `/repos/${owner}/app/contents/a.txt`, { content: base64("a"), message: "A file", branch: "main" });
  await until("the commit has its status", async () => {
    const all = await forge("GET", `/repos/${owner}/app/commits/${made.commit.sha}/statuses`);
    const states = all.filter(({ context }) => context === "slipway/inside").map(({ status }) => status);
    assert.ok(states.includes("success"), `${states}`);
    return true;
  });
});

test("the platform has opened no connection, and says what it does not do", { timeout: 60_000 }, async () => {
  const health = await run("ip", ["netns", "exec", outside, "curl", "-fsS", "-H", `Authorization: ${apiKey}`, `${url}/api/admin/health`]);
  assert.ok(JSON.parse(health.stdout).withoutEgress.some((what) => /commit statuses/.test(what)));
  assert.equal(opened(), 0, "connections that the platform's network opened");
  // The rule counts: somebody who tries is seen, and does not get in.
  const tried = await run("ip", ["netns", "exec", outside, "curl", "-s", "-m", "2", `http://${customerIp}:1/`]).catch((error) => error);
  assert.equal(tried.code, 28, "the firewall swallows it");
  assert.ok(opened() > 0);
});
