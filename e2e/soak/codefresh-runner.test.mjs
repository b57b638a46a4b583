// A Codefresh runner's agent on a real cluster: it makes the pods that the server describes, and builds run in them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFileSync, spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { createServer } from "node:net";
import { until } from "../platform.mjs";
import { makeImage } from "../image.mjs";
import { Site } from "../site.mjs";
import { Venona } from "../venona.mjs";

const scripts = resolve(dirname(new URL(import.meta.url).pathname), "../../scripts/kube.sh");
const cluster = { ...process.env, NAME: process.env.NAME ?? "test" };
const namespace = `slipway-venona-${process.pid}`;
const runtime = `test/${namespace}`;
const image = `localhost/slipway-venona-e2e:${process.pid}`;
// What the server waits for a runner that is not heard.
const SILENCE_SECONDS = 20;
const site = new Site();
let kubeconfig, agent;

const kubectl = (...words) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const apply = (...objects) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, "apply", "--filename", "-"], { encoding: "utf8", input: JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }) });
const pods = () => kubectl("--namespace", namespace, "get", "pods", "-o", "wide");

// What the published chart makes, with the rules that docs/runners.md says to add to `runtime.rbac.rules`.
const meta = { name: "codefresh-engine", namespace };
const rules = [
  { apiGroups: [""], resources: ["pods"], verbs: ["create", "get", "list", "delete"] },
  { apiGroups: [""], resources: ["pods/log"], verbs: ["get"] },
  { apiGroups: [""], resources: ["pods/exec"], verbs: ["create", "get"] },
  { apiGroups: [""], resources: ["secrets"], verbs: ["create", "list", "delete"] },
  { apiGroups: [""], resources: ["events"], verbs: ["list"] },
];
const role = { apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", metadata: meta, rules };
const binding = {
  apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", metadata: meta,
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: meta.name },
  subjects: [{ kind: "ServiceAccount", ...meta }],
};

const freePort = () => new Promise((done) => {
  const listener = createServer().listen(0, "127.0.0.1", () => {
    const { port } = listener.address();
    listener.close(() => done(port));
  });
});

before(async () => {
  kubeconfig = execFileSync(scripts, ["up"], { encoding: "utf8", env: cluster, stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n").at(-1);
  makeImage(image, cluster);
  const port = await freePort();
  site.listen = `0.0.0.0:${port}`;
  site.extra = ["--public-url", `http://host.slipway.test:${port}`, "--runner-image", image, "--runner-silence", `${SILENCE_SECONDS}`];
  await site.start();
  Object.assign(site, { url: `http://127.0.0.1:${port}`, listen: `0.0.0.0:${port}` });
  apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } }, { apiVersion: "v1", kind: "ServiceAccount", metadata: meta });
  const made = await site.call("POST", "/api/agents", { name: `test_${namespace}`, runtimes: [runtime] });
  agent = new Venona({ url: () => site.url, name: made.name, token: made.token, kubeconfig, runtimes: [runtime] });
  const step = (...commands) => ({ image: "localhost/slipway-test:1", commands });
  const pipeline = (name, steps) => site.call("POST", "/api/pipelines", { version: "1.0", kind: "pipeline", metadata: { name }, spec: { runtimeEnvironment: { name: runtime }, steps } });
  await pipeline("cf/short", { writes: step("echo kept > file", "id -u"), reads: step("cat file", "test ! -e /var/run/secrets/kubernetes.io") });
  await pipeline("cf/long", { long: step("echo begun", "i=0; while [ $i -lt 45 ]; do i=$((i+1)); sleep 1; done", "echo ended") });
});
after(async () => {
  await agent?.stop();
  if (kubeconfig) spawnSync("kubectl", ["--kubeconfig", kubeconfig, "delete", "namespace", namespace, "--ignore-not-found", "--wait=false"], { stdio: "ignore" });
  await site.remove();
  rmSync(site.folder, { recursive: true, force: true });
});

const run = (name) => site.call("POST", `/api/pipelines/run/${encodeURIComponent(name)}`, {});
const state = (id) => site.call("GET", `/api/builds/${id}`);
const ended = (id, seconds = 240) =>
  until(`build ${id} ends`, async () => {
    const now = await state(id);
    if (["success", "error", "terminated"].includes(now.status)) return now;
    const tasks = await site.call("GET", `/api/builds/${id}/tasks`);
    throw new Error(`${JSON.stringify(now)}\n${JSON.stringify(tasks)}\n${agent.trouble}\n${pods()}\n${kubectl("--namespace", namespace, "get", "events", "--sort-by=.lastTimestamp").split("\n").slice(-8).join("\n")}`);
  }, seconds);
const running = (id) => until("its step runs", async () => (await site.log(id)).long?.includes("begun") && true, 180);

// Nothing of a build: neither the pods of its runners, nor its claim, nor pods and secrets of its steps.
const cleared = (id) =>
  until(`nothing of build ${id} is left`, () => {
    const left = kubectl("--namespace", namespace, "get", "pods,persistentvolumeclaims,secrets", "-o", "json");
    const names = JSON.parse(left).items.filter((item) => JSON.stringify(item).includes(id)).map((item) => `${item.kind}/${item.metadata.name}`);
    if (names.length) throw new Error(names.join(", "));
    return true;
  }, 180);

test("a service account that may not make pods: the build says what is missing", { timeout: 400_000 }, async () => {
  agent.start();
  const build = await ended(await run("cf/short"));
  assert.equal(build.status, "error");
  assert.match(build.message, /steps cannot run as pods of namespace .*forbidden/s);
  await cleared(build.id);
  apply(role, binding);
});

test("a build runs in a pod of the agent's making, and nothing is left of it", { timeout: 400_000 }, async () => {
  const id = await run("cf/short");
  const build = await ended(id);
  const log = await site.log(id);
  assert.equal(build.status, "success", JSON.stringify([build, log]));
  assert.deepEqual([build.executor, build.runner], ["kubernetes", `${runtime}@${id}`]);
  assert.match(log.reads, /\nkept\n/);
  await cleared(id);
  const tasks = await until("all is reported", async () => {
    const all = await site.call("GET", `/api/builds/${id}/tasks`);
    return all.every((task) => task.status) && all;
  });
  assert.deepEqual(tasks.map((task) => task.type), ["CreatePvc", "CreatePod", "DeletePod", "DeletePvc"]);
});

test("an agent that dies before it says what it did, and a server that dies: the build runs once", { timeout: 400_000 }, async () => {
  await agent.stop();
  agent.did = [];
  agent.start({ reports: false });
  const id = await run("cf/long");
  await until("it made the pod and was asked again", () => agent.did.filter(([type]) => type === "CreatePod").length > 1, 120);
  await agent.stop();
  agent.start();
  await running(id);
  await site.killServer();
  await site.start();
  site.url = `http://127.0.0.1:${new URL(site.url).port}`;
  site.listen = `0.0.0.0:${new URL(site.url).port}`;
  const build = await ended(id);
  const log = await site.log(id);
  assert.equal(build.status, "success", JSON.stringify([build, log]));
  assert.equal(log.long.match(/^begun$/gm).length, 1, log.long);
  assert.ok(agent.did.some(([type, , how]) => type === "CreatePod" && how.includes("already exists")), JSON.stringify(agent.did));
  await cleared(id);
});

test("a pod that is lost is followed by another one, which brings the build to its end", { timeout: 500_000 }, async () => {
  const id = await run("cf/long");
  await running(id);
  kubectl("--namespace", namespace, "delete", "pod", `slipway-${id}-1`, "--force", "--grace-period=0");
  const build = await ended(id, 300);
  const log = await site.log(id);
  assert.equal(build.status, "success", JSON.stringify([build, log]));
  const tasks = await site.call("GET", `/api/builds/${id}/tasks`);
  assert.ok(tasks.some((task) => task.type === "CreatePod" && task.attempt === 2), JSON.stringify(tasks));
  await cleared(id);
});

test("a build that is terminated while its step runs takes everything with it", { timeout: 400_000 }, async () => {
  const id = await run("cf/long");
  await running(id);
  await site.call("DELETE", `/api/progress/${id}`);
  assert.equal((await ended(id)).status, "terminated");
  await cleared(id);
});
