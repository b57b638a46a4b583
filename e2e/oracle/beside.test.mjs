// A runtime beside upstream Argo CD: its application controller does the work, our engine is off. What people ask of our app-proxy is done by that
// controller, and what that controller writes is what the platform shows.
// usage: SLIPWAY_BIN=… KUBECONFIG=… node --test e2e/oracle/beside.test.mjs     (make oracle does it)
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { inherited, until } from "../platform.mjs";

const run = promisify(execFile);
const top = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const binary = resolve(process.env.SLIPWAY_BIN ?? join(top, "target/release/slipway"));
const folder = mkdtempSync(join(tmpdir(), "slipway-beside-"));
const repository = join(folder, "repository");
const [control, target] = [`beside-${process.pid}`, `beside-apps-${process.pid}`];
const kubeconfig = process.env.KUBECONFIG;
const image = "localhost/slipway-test:1";
const environment = { ...inherited(), HOME: folder, SLIPWAY_CONFIG: join(folder, "contexts.json") };
const upstream = (...words) => execFileSync(join(top, "scripts/argocd.sh"), words, { env: { ...process.env, FLAGS: "--loglevel warn", REPO_FLAGS: "--loglevel warn", PORT: "16420" }, stdio: ["ignore", "ignore", "inherit"] });
const kubectl = (...words) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const git = (...words) => execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", ...words], { cwd: repository, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
const programs = [];
let url, apiKey;

function program(words, extra = {}) {
  const child = spawn(binary, words, { stdio: ["ignore", "pipe", "pipe"], env: { ...environment, ...extra } });
  child.said = "";
  child.stderr.on("data", (text) => (child.said += text));
  programs.push(child);
  return child;
}
const slipway = async (...words) => (await run(binary, words, { env: { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } })).stdout;
const shown = async () => JSON.parse(await slipway("app", "get", "shop", "-o", "json"));
const resource = () => JSON.parse(kubectl("--namespace", control, "get", "applications.argoproj.io", "shop", "--output", "json"));

function commit(value) {
  const labels = { app: "web" };
  const container = { name: "web", image, imagePullPolicy: "IfNotPresent", command: ["sh", "-c", "echo it runs; sleep 3600"] };
  const objects = [
    { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { terminationGracePeriodSeconds: 0, containers: [container] } } } },
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { value } },
  ];
  mkdirSync(join(repository, "app"), { recursive: true });
  writeFileSync(join(repository, "app/all.yaml"), objects.map((object) => JSON.stringify(object)).join("\n---\n"));
  git("add", "--all");
  git("commit", "--quiet", "--message", `Value ${value}`);
  return git("rev-parse", "HEAD");
}

before(async () => {
  assert.ok(kubeconfig, "KUBECONFIG names the cluster");
  mkdirSync(repository);
  git("init", "--quiet", "--initial-branch=main");
  for (const name of [control, target]) kubectl("create", "namespace", name);
  upstream("up", join(folder, "argocd"), kubeconfig, control);
  const server = program(["server", "--data", join(folder, "platform"), "--listen", "127.0.0.1:0", "--output", "json"]);
  ({ url, apiKey } = JSON.parse(await new Promise((done) => createInterface({ input: server.stdout }).once("line", done))));
  const token = (await slipway("runtime", "create", "beside")).trim();
  const options = ["--kubeconfig", kubeconfig, "--namespace", control, "--data", join(folder, "runtime"), "--allow-local-repositories"];
  program(["runtime", "--server", url, ...options, "--without", "applications", "--without", "application-sets"], { SLIPWAY_TOKEN: token });
  await until("the runtime is online", async () => JSON.parse(await slipway("runtime", "get", "beside", "-o", "json")).tunnels === 1);
});
after(() => {
  for (const child of programs) child.kill("SIGKILL");
  spawnSync(join(top, "scripts/argocd.sh"), ["down", join(folder, "argocd")], { stdio: "ignore" });
  for (const name of [control, target]) spawnSync("kubectl", ["--kubeconfig", kubeconfig, "delete", "namespace", name, "--wait=false"], { stdio: "ignore" });
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("what is asked of our app-proxy is done by Argo CD, and what Argo CD did is shown", { timeout: 600_000 }, async (t) => {
  const first = commit("one");
  const application = {
    apiVersion: "argoproj.io/v1alpha1", kind: "Application", metadata: { name: "shop", namespace: control },
    spec: { project: "default", source: { repoURL: `file://${repository}`, path: "app", targetRevision: "main" }, destination: { server: "https://kubernetes.default.svc", namespace: target } },
  };
  execFileSync("kubectl", ["--kubeconfig", kubeconfig, "apply", "--filename", "-"], { input: JSON.stringify(application), stdio: ["pipe", "ignore", "inherit"] });
  await t.test("the state that its controller wrote is reported, and compared alike by our plan", async () => {
    await until("it is reported as Argo CD has it", async () => (await shown()).syncStatus === "OutOfSync", 120);
    assert.equal(resource().status.controllerNamespace, control, "Argo CD's controller wrote it");
    assert.match(await slipway("app", "plan", "shop"), /Deployment .*web/);
  });
  await t.test("a sync is carried out by it, in the name of who asked", async () => {
    await slipway("app", "sync", "shop", "--wait");
    const now = await until("it is healthy", async () => (await shown()).healthStatus === "Healthy" && (await shown()), 120);
    const { operationState } = resource().status;
    assert.deepEqual([operationState.phase, operationState.syncResult.revision, now.operation.phase], ["Succeeded", first, "Succeeded"]);
    assert.deepEqual([now.history.length, now.history[0].revision.sha, now.history[0].why], [1, first, "manual"]);
    assert.equal(now.history[0].initiatedBy, operationState.operation.initiatedBy.username);
    assert.deepEqual(now.history[0].images, [image]);
  });
  await t.test("a refresh makes it look again, and a second sync is a second release", async () => {
    const second = commit("two");
    await slipway("app", "refresh", "shop");
    await until("it has seen the commit", () => resource().status.sync.revision === second, 120);
    await until("so has the platform", async () => (await shown()).syncStatus === "OutOfSync");
    await slipway("app", "sync", "shop", "--wait");
    await until("the release is shown", async () => (await shown()).history.length === 2);
    assert.equal(kubectl("--namespace", target, "get", "configmap", "settings", "--output", "jsonpath={.data.value}"), "two");
  });
  await t.test("logs are read and objects deleted through our app-proxy", async () => {
    await until("the log comes", async () => (await slipway("app", "logs", "shop")).includes("it runs"), 120);
    await slipway("app", "delete-resource", "shop", "ConfigMap/settings");
    await until("Argo CD notices", () => resource().status.resources.some((one) => one.kind === "ConfigMap" && one.status === "OutOfSync"), 120);
    await until("so does the platform", async () => (await shown()).syncStatus === "OutOfSync");
  });
  await t.test("a rollback goes back to what was deployed first", async () => {
    const [oldest] = (await shown()).history.toSorted((a, b) => a.id - b.id);
    await slipway("app", "rollback", "shop", String(oldest.id));
    await until("Argo CD has done it", () => resource().status.operationState.syncResult?.revision === first && resource().status.operationState.phase === "Succeeded", 120);
    const now = await until("it is shown as a rollback", async () => (await shown()).history.length === 3 && (await shown()));
    assert.equal(now.history[0].why, "rollback");
    assert.equal(kubectl("--namespace", target, "get", "configmap", "settings", "--output", "jsonpath={.data.value}"), "one");
  });
});
