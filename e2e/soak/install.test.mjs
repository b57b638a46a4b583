// `slipway runner install` in a real cluster: the claim, the role, the pods of a build, and nothing left behind.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { makeImage } from "../image.mjs";
import { until } from "../platform.mjs";
import { Site } from "../site.mjs";

const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const scripts = resolve(dirname(new URL(import.meta.url).pathname), "../../scripts/kube.sh");
const folder = mkdtempSync(join(tmpdir(), "slipway-install-"));
// A cluster of this name (scripts/kube.sh); the tests' own unless another is given.
const cluster = { ...process.env, NAME: process.env.NAME ?? "test" };
const namespace = `slipway-install-${process.pid}`;
const image = `localhost/slipway-runner-e2e:${process.pid}`;
const site = new Site();
let kubeconfig;

const kubectl = (...words) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const slipway = (...words) =>
  execFileSync(binary, words, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, HOME: site.folder, KUBECONFIG: kubeconfig, SLIPWAY_CONFIG: join(site.folder, "contexts.json"), SLIPWAY_URL: site.url, SLIPWAY_API_KEY: site.credentials?.apiKey } });

// What the runner's pod said last, for whoever has to find out why it does not come.
const said = () => {
  const logs = spawnSync("kubectl", ["--kubeconfig", kubeconfig, "--namespace", namespace, "logs", "slipway-runner-in-cluster-0", "--tail=20"], { encoding: "utf8" });
  return logs.stdout + logs.stderr;
};

before(async () => {
  kubeconfig = execFileSync(scripts, ["up"], { encoding: "utf8", env: cluster, stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n").at(-1);
  makeImage(image, cluster);
  site.listen = "0.0.0.0:0";
  await site.start();
  const port = new URL(site.url).port;
  site.url = `http://127.0.0.1:${port}`;
  site.forPods = `http://host.slipway.test:${port}`;
});
after(async () => {
  if (kubeconfig) spawnSync("kubectl", ["--kubeconfig", kubeconfig, "delete", "namespace", namespace, "--ignore-not-found", "--wait=false"], { stdio: "ignore" });
  await site.remove();
  rmSync(folder, { recursive: true, force: true });
});

test("a key does not travel in clear unless somebody says so", () => {
  for (const server of ["http://192.0.2.7:8080", "ftp://127.0.0.1", "http://slipway.example"]) {
    const tried = spawnSync(binary, ["runner", "--server", server, "--token", "x.y", "--data", join(folder, "never")], { encoding: "utf8", timeout: 60_000 });
    assert.equal(tried.status, 1, server);
    assert.match(tried.stderr, /--plain-http/, server);
  }
});

test("the authority of a server with a private one goes with the runner", () => {
  const file = join(folder, "ca.pem");
  const words = ["runner", "install", "in-cluster", "--namespace", namespace, "--server", "https://slipway.example", "-o", "json", "--ca", file];
  writeFileSync(file, "nothing");
  assert.match(spawnSync(binary, words, { encoding: "utf8" }).stderr, /holds no certificate/);
  const pem = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
  writeFileSync(file, pem);
  const { items } = JSON.parse(slipway(...words));
  const of = (kind) => items.find((item) => item.kind === kind);
  assert.equal(of("ConfigMap").data["ca.pem"], pem);
  const { containers, volumes } = of("StatefulSet").spec.template.spec;
  assert.ok(containers[0].args.includes("--ca=/ca/ca.pem"), containers[0].args.join(" "));
  assert.deepEqual(volumes.find((volume) => volume.name === "ca").configMap, { name: of("ConfigMap").metadata.name });
  assert.equal(containers[0].volumeMounts.find((mount) => mount.name === "ca").mountPath, "/ca");
});

test("a runner is installed, runs a build with its volume on a claim, and is removed without a trace", { timeout: 600_000 }, async () => {
  const where = ["--namespace", namespace];
  const flags = ["--server", site.forPods, "--plain-http", "--image", image, "--storage-class", "standard", "--storage", "1Gi"];
  slipway("runner", "install", "in-cluster", ...where, ...flags);
  await until("it has registered", async () => {
    const seen = JSON.stringify(await site.call("GET", "/api/runners"));
    if (!seen.includes('"in-cluster"')) throw new Error(`${seen}\n${kubectl("--namespace", namespace, "get", "pods,pvc,events")}\n${said()}`);
    return true;
  }, 180);
  const step = (...commands) => ({ image: "localhost/slipway-test:1", commands });
  const steps = { writes: step("echo kept > file", "id -u"), reads: step("cat file", "test ! -e /var/run/secrets/kubernetes.io") };
  await site.call("POST", "/api/pipelines", { version: "1.0", kind: "pipeline", metadata: { name: "kube/claim" }, spec: { steps } });
  const id = await site.call("POST", "/api/pipelines/run/kube%2Fclaim", {});
  const build = await until("the build ends", async () => {
    const now = await site.call("GET", `/api/builds/${id}`);
    if (!["success", "error", "terminated"].includes(now.status)) throw new Error(`${JSON.stringify(now)}\n${kubectl("--namespace", namespace, "get", "pods,events")}`);
    return now;
  }, 240);
  const log = await site.log(id);
  assert.equal(build.status, "success", JSON.stringify([build, log]));
  assert.deepEqual([build.executor, build.runner], ["kubernetes", "in-cluster"]);
  assert.match(log.reads, /\nkept\n/);
  slipway("runner", "uninstall", "in-cluster", ...where, "--delete-storage");
  // Nothing of it, and nothing of its builds: what is left is what every namespace has.
  await until("nothing is left", async () => {
    const kinds = "statefulsets,pods,persistentvolumeclaims,secrets,serviceaccounts,roles.rbac.authorization.k8s.io,rolebindings.rbac.authorization.k8s.io,networkpolicies.networking.k8s.io";
    const left = kubectl("--namespace", namespace, "get", kinds, "-o", "name").split("\n").filter((name) => name && name !== "serviceaccount/default");
    if (left.length) throw new Error(left.join(", "));
    return true;
  }, 180);
  assert.ok(!JSON.stringify(await site.call("GET", "/api/runners")).includes('"in-cluster"'), "the server has forgotten it");
});
