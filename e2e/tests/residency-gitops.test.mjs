// What stays in a cluster and what leaves it: a marker in each place that a secret may be in, a runtime with its engines on over a
// wire that is recorded, and a look into everything that the control plane has: database, folders, its own log, the bodies of requests and
// answers, what came through the tunnel; and into the file in which reports wait.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFile, execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, request as ask } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { inherited, until } from "../platform.mjs";

const run = promisify(execFile);
const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const folder = mkdtempSync(join(tmpdir(), "slipway-residency-"));
const [kubeconfig, repo, image] = [join(folder, "kubeconfig"), join(folder, "repo"), "localhost/slipway-e2e-residency:1"];
const environment = {
  ...inherited(),
  HOME: folder,
  SLIPWAY_CONFIG: join(folder, "contexts.json"),
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "Ada",
  GIT_AUTHOR_EMAIL: "ada@example.com",
  GIT_COMMITTER_NAME: "Ada",
  GIT_COMMITTER_EMAIL: "ada@example.com",
};
const canary = (what) => `${what}-canary-5d`;
const STAY = ["secret-in-git", "config-in-git", "live-secret", "repository-secret", "pod-env", "url-password", "url-token", "hook-log", "drifted"].map(canary);
const LEAVE = ["commit-message", "allowed-name"].map(canary);

/** What two ends say to each other by HTTP, unpacked: bodies of requests and answers, and every byte of a connection that became something else. */
class Recorder {
  constructor(target) {
    this.heard = [];
    this.sockets = new Set();
    this.server = createServer((request, answer) => {
      const forward = ask({ host: target.hostname, port: target.port, method: request.method, path: request.url, headers: request.headers }, (reply) => {
        answer.writeHead(reply.statusCode, reply.headers);
        this.keep(reply);
        reply.pipe(answer);
        reply.on("error", () => answer.destroy());
      });
      forward.on("error", () => answer.destroy());
      request.on("error", () => forward.destroy());
      answer.on("close", () => forward.destroy());
      this.keep(request);
      request.pipe(forward);
    });
    this.server.on("upgrade", (request, near, head) => {
      const far = connect(target.port, target.hostname, () => {
        const headers = request.rawHeaders.reduce((text, word, at) => text + word + (at % 2 ? "\r\n" : ": "), "");
        far.write(`${request.method} ${request.url} HTTP/1.1\r\n${headers}\r\n`);
        far.write(head);
        near.pipe(far).pipe(near);
      });
      for (const socket of [near, far]) {
        this.sockets.add(socket);
        socket.on("data", (part) => this.heard.push(part));
        socket.on("error", () => [near, far].forEach((one) => one.destroy()));
      }
    });
  }

  keep(message) {
    const parts = [];
    message.on("data", (part) => parts.push(part));
    message.on("end", () => {
      const body = Buffer.concat(parts);
      this.heard.push(message.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body);
    });
  }

  async open() {
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  close() {
    for (const socket of this.sockets) socket.destroy();
    this.server.closeAllConnections();
    this.server.close();
  }
}

class Program {
  constructor(args, extra = {}) {
    this.said = "";
    this.child = spawn(binary, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...environment, ...extra } });
    this.child.stderr.on("data", (text) => {
      this.said += text;
      if (process.env.SLIPWAY_E2E_VERBOSE) process.stderr.write(text);
    });
    this.exited = new Promise((done) => this.child.once("exit", done));
    this.line = new Promise((done) => createInterface({ input: this.child.stdout }).once("line", done));
    this.name = args[0];
  }

  firstLine() {
    const ended = () => this.exited.then((code) => Promise.reject(new Error(`slipway ${this.name} ended with ${code}: ${this.said}`)));
    return Promise.race([this.line, ended()]);
  }

  async end(signal = "SIGTERM") {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    return this.exited;
  }
}

let server, cluster, runtime, recorder, url, apiKey;
let listen = "127.0.0.1:0";
let serverLog = "";

async function startServer() {
  serverLog += server?.said ?? "";
  server = new Program(["server", "--data", join(folder, "platform"), "--listen", listen, "--output", "json"], { SLIPWAY_LOG: "debug" });
  const ready = JSON.parse(await server.firstLine());
  url = ready.url;
  listen = new URL(url).host;
  apiKey ??= ready.apiKey;
}
const slipway = async (...args) => (await run(binary, args, { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } })).stdout;
const kubectl = async (...args) => (await run("kubectl", args, { env: { ...environment, KUBECONFIG: kubeconfig } })).stdout;
const git = (...args) => execFileSync("git", ["-C", repo, ...args], { env: environment, encoding: "utf8" }).trim();
const application = async (name) => JSON.parse(await slipway("app", "get", name, "-o", "json"));
async function apply(...objects) {
  writeFileSync(join(folder, "objects.json"), JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
  await kubectl("apply", "-f", join(folder, "objects.json"));
}
const app = (name, repoURL, more = {}) => ({
  apiVersion: "argoproj.io/v1alpha1",
  kind: "Application",
  metadata: { name, namespace: "argocd" },
  spec: { project: "default", source: { repoURL, path: "app", targetRevision: "main" }, destination: { server: "https://kubernetes.default.svc", namespace: "shop" }, ...more },
});
const secret = (name, namespace, data, labels = {}) => ({ apiVersion: "v1", kind: "Secret", metadata: { name, namespace, labels }, stringData: data });

function makeImage() {
  const tree = join(folder, "tree");
  mkdirSync(join(tree, "bin"), { recursive: true });
  copyFileSync(execFileSync("sh", ["-c", "command -v busybox"], { encoding: "utf8" }).trim(), join(tree, "bin/busybox"));
  for (const name of ["sh", "sleep", "echo"]) symlinkSync("busybox", join(tree, "bin", name));
  execFileSync("sh", ["-c", `tar -C ${tree} -c . | podman import -q --change 'CMD ["/bin/sh"]' - ${image}`]);
}

const files = (path) => readdirSync(path, { recursive: true }).map((name) => join(path, name)).filter((name) => statSync(name, { throwIfNoEntry: false })?.isFile());
/** Where a marker is, in any of the ways in which it would be readable. */
function found(marker, places) {
  const forms = [marker, Buffer.from(marker).toString("base64").replace(/=+$/, ""), Buffer.from(marker).toString("hex")];
  return Object.entries(places).filter(([, bytes]) => forms.some((form) => bytes.includes(form))).map(([name]) => name);
}
const everywhere = () => ({
  ...Object.fromEntries(files(join(folder, "platform")).map((name) => [name.slice(folder.length), readFileSync(name)])),
  "the platform's log": Buffer.from(serverLog + server.said),
  "the wire": Buffer.concat(recorder.heard),
});

before(async () => {
  mkdirSync(join(repo, "app"), { recursive: true });
  git("init", "-q", "-b", "main");
  makeImage();
  const pod = (name, annotations, restartPolicy, command, env = []) => ({
    apiVersion: "v1", kind: "Pod", metadata: { name, annotations },
    spec: { terminationGracePeriodSeconds: 0, restartPolicy, containers: [{ name: "main", image, imagePullPolicy: "IfNotPresent", command: ["sh", "-c", command], env }] },
  });
  const from = { name: "TOKEN", valueFrom: { secretKeyRef: { name: "live", key: "token" } } };
  const manifests = [
    secret(canary("allowed-name"), "shop", { key: canary("secret-in-git") }),
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { key: canary("config-in-git") } },
    pod("talker", {}, "Always", "echo started; sleep 600", [from]),
    pod("hook", { "argocd.argoproj.io/hook": "PostSync" }, "Never", `echo hook-log-$(echo canary)-5d`, [from]),
  ];
  writeFileSync(join(repo, "app/all.json"), JSON.stringify({ apiVersion: "v1", kind: "List", items: manifests }));
  git("add", ".");
  git("commit", "-q", "-m", `The ${canary("commit-message")}`);
  await startServer();
  recorder = new Recorder(new URL(url));
  const through = await recorder.open();
  cluster = new Program(["devcluster", "--data", join(folder, "cluster"), "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig]);
  await cluster.firstLine();
  const token = (await slipway("runtime", "create", "east")).trim();
  const options = ["--kubeconfig", kubeconfig, "--data", join(folder, "runtime"), "--allow-local-repositories", "--raw-tunnel"];
  runtime = new Program(["runtime", "--server", through, ...options], { SLIPWAY_TOKEN: token });
  await until("the runtime is online", async () => JSON.parse(await slipway("runtime", "get", "east", "-o", "json")).tunnels === 1);
  await until("the namespace is there", () => kubectl("get", "namespace", "argocd"));
  await until("the definitions are there", () => kubectl("get", "crd", "applications.argoproj.io"));
  await kubectl("create", "namespace", "shop");
});
after(async () => {
  recorder?.close();
  for (const program of [runtime, server, cluster]) await program?.end();
  // Pods outlive their cluster on purpose; here nobody comes back for them.
  execFileSync(binary, ["down", "--data", folder], { stdio: "ignore" });
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("secrets of Git, of the cluster and of addresses stay; names, states and commits leave", { timeout: 300_000 }, async () => {
  const project = { apiVersion: "argoproj.io/v1alpha1", kind: "AppProject", metadata: { name: "default", namespace: "argocd" }, spec: { sourceRepos: ["*"], destinations: [{ namespace: "*", server: "*" }] } };
  const repository = secret("repository", "argocd", { type: "git", url: "http://127.0.0.1:1/team", username: "me", password: canary("repository-secret") }, { "argocd.argoproj.io/secret-type": "repo-creds" });
  await apply(project, repository, secret("live", "shop", { token: canary("pod-env"), other: canary("live-secret") }));
  await apply(
    app("shop", `file://${repo}`, { syncPolicy: { automated: {} } }),
    app("password", `http://me:${canary("url-password")}@127.0.0.1:1/team/app.git`),
    app("token", `http://${canary("url-token")}@127.0.0.1:1/team/app.git`),
    app("refused", "http://127.0.0.1:1/team/app.git"),
  );
  await until("it is synced, hook and all", async () => {
    const now = await application("shop");
    if (now.syncStatus !== "Synced" || now.operation?.phase !== "Succeeded" || now.healthStatus !== "Healthy") throw new Error(now.summary);
    return true;
  }, 120);
  // What nobody can read is said with a reason, and each reason names the address.
  for (const name of ["password", "token", "refused"]) {
    const now = await until(`${name} says why it cannot be compared`, async () => {
      const now = await application(name);
      return now.conditions.length > 0 && now;
    });
    assert.match(now.repoUrl, /^http:\/\/127\.0\.0\.1:1\/team\/app\.git$/, name);
  }
  // A live Secret that differs: it is OutOfSync, and by which value stays.
  await kubectl("-n", "shop", "patch", "secret", canary("allowed-name"), "-p", JSON.stringify({ stringData: { key: canary("drifted") } }));
  await until("the drift is reported", async () => (await application("shop")).syncStatus === "OutOfSync");
  const places = everywhere();
  for (const word of STAY) assert.deepEqual(found(word, places), [], `${word} left the cluster`);
  // A test that finds nothing anywhere would prove nothing: these may leave, and did.
  for (const word of LEAVE) {
    const named = found(word, places).join(", ");
    assert.match(named, /the wire/, word);
    assert.match(named, /slipway\.db/, word);
  }
  // And the markers were where they belong.
  const live = await kubectl("-n", "shop", "get", "pods,secrets", "-o", "json");
  for (const word of ["live-secret", "pod-env", "drifted"]) assert.ok(live.includes(Buffer.from(canary(word)).toString("base64")), word);
});

test("what somebody asks for with a pass goes to them, secrets masked, and is kept nowhere", { timeout: 120_000 }, async () => {
  const difference = await run(binary, ["app", "diff", "shop"], { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } }).catch((error) => error);
  assert.equal(difference.code, 1, difference.stderr);
  const wanted = { operation: "manifests", namespace: "argocd", name: "shop" };
  const asked = await fetch(`${url}/api/runtimes/east/pass`, { method: "POST", headers: { authorization: apiKey, "content-type": "application/json" }, body: JSON.stringify(wanted) });
  const pass = await asked.json();
  const shown = await fetch(`${new URL(pass.url, url)}/app-proxy/api/applications/argocd/shop/manifests`, { headers: { authorization: `Bearer ${pass.token}` } });
  const manifests = await shown.text();
  assert.match(manifests, new RegExp(canary("config-in-git")));
  await until("the log is there", async () => (await slipway("app", "logs", "shop", "--name", "talker")).includes("started"));
  const { "the wire": wire, ...kept } = everywhere();
  assert.deepEqual(found(canary("config-in-git"), { wire }), ["wire"], "the recorder hears what comes through the tunnel");
  for (const word of STAY) assert.deepEqual(found(word, kept), [], `${word} is kept by the platform`);
  for (const word of STAY.filter((word) => word !== canary("config-in-git"))) assert.deepEqual(found(word, { wire }), [], `${word} left the cluster`);
  for (const said of [difference.stdout, manifests]) for (const word of ["secret-in-git", "drifted"]) assert.ok(!said.includes(canary(word)), word);
});

test("what waits in the runtime's file for a platform that is away has no secret in it", { timeout: 180_000 }, async () => {
  await server.end("SIGKILL");
  await apply(app("waiting", `http://me:${canary("url-password")}@127.0.0.1:1/team/${canary("allowed-name")}.git`));
  await until("it waits in the file", () => {
    const waiting = files(join(folder, "runtime")).filter((name) => name.endsWith("reports.outbox")).map((name) => readFileSync(name));
    return waiting.some((bytes) => bytes.includes(canary("allowed-name")) && bytes.includes("ComparisonError"));
  });
  const file = Object.fromEntries(files(join(folder, "runtime")).filter((name) => name.endsWith("outbox")).map((name) => [name, readFileSync(name)]));
  for (const word of STAY) assert.deepEqual(found(word, file), [], `${word} waits to leave`);
  await startServer();
  await until("it is heard", async () => (await application("waiting")).conditions.length > 0, 90);
  const places = everywhere();
  for (const word of STAY.filter((word) => word !== canary("config-in-git"))) assert.deepEqual(found(word, places), [], `${word} left the cluster`);
});
