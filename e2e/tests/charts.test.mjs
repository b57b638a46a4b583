// The charts as a platform engineer uses them: linted, rendered over a matrix of values, believed by the real API server, and installed:
// the platform, a runtime and a runner in one cluster, a build and an Application through them, an upgrade, a rollback, and nothing left.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { inherited, until } from "../platform.mjs";

const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const root = resolve(import.meta.dirname, "../..");
const cluster = { ...process.env, NAME: process.env.NAME ?? "test" };
const folder = mkdtempSync(join(tmpdir(), "slipway-charts-"));
const namespace = `slipway-charts-${process.pid}`;
const tag = `e2e-${process.pid}`;
const chart = (name) => join(root, "deploy/charts", name);
let kubeconfig, helmProgram;

const helm = (...words) => execFileSync(helmProgram, words, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, KUBECONFIG: kubeconfig, HOME: folder } });
const refused = (...words) => spawnSync(helmProgram, words, { encoding: "utf8", env: { ...process.env, HOME: folder } }).stderr;
const kubectl = (...words) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, "--namespace", namespace, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 26 });
const given = (text) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, "--namespace", namespace, "apply", "--filename", "-"], { encoding: "utf8", input: text });
const sets = (values) => Object.entries(values).flatMap(([name, value]) => ["--set", `${name}=${value}`]);
const image = { "image.repository": "localhost/slipway-charts", "image.tag": tag, "image.pullPolicy": "Never" };
// What the pods said, for whoever has to find out why something does not come.
const said = () => spawnSync("sh", ["-c", `kubectl --kubeconfig ${kubeconfig} -n ${namespace} get pods,pvc,events; for p in $(kubectl --kubeconfig ${kubeconfig} -n ${namespace} get pods -o name); do kubectl --kubeconfig ${kubeconfig} -n ${namespace} logs $p --tail=30; done`], { encoding: "utf8" }).stdout;

const MATRIX = {
  slipway: [
    { publicUrl: "https://slipway.example.com" },
    { publicUrl: "http://slipway.example.com:8080", "ingress.enabled": true, "ingress.className": "traefik", "ingress.tlsSecret": "tls", tunnelDomain: "tunnels.example.net" },
    { publicUrl: "https://slipway.example.com", "tls.secretName": "own", "admin.existingSecret": "first", "service.type": "LoadBalancer", "trustedProxies[0]": "10.0.0.1", "egressAllow[0]": "10.0.0.0/8" },
    { publicUrl: "https://slipway.example.com", replicas: 3, "database.existingSecret": "stores", "bus.existingSecret": "stores", "cache.existingSecret": "stores", "persistence.accessModes[0]": "ReadWriteMany", "metrics.dashboard.enabled": true },
    { publicUrl: "https://slipway.example.com", "database.url": "postgres://u:p@db/x", "bus.url": "amqps://u:p@mq/x", "cache.url": "rediss://c", "persistence.existingClaim": "shared", "workloads[0].name": "api", "workloads[0].roles": "{pipelines-api,gitops-api,broadcaster}", "workloads[0].replicas": 2, "workloads[1].name": "rest", "workloads[1].roles": "{runtime-manager,api-events,tunnel-server,pipeline-manager,event-handler,cron-executor}" },
  ],
  "slipway-runtime": [
    { "server.url": "https://slipway.example.com", "token.existingSecret": "token" },
    { "server.url": "https://slipway.example.com", "token.value": "a.b", clusterWide: false, replicas: 2, "without[0]": "applications", "proxy.https": "http://proxy:3128", "proxy.exclude": ".local" },
    { "server.url": "http://slipway", "server.plainHttp": true, "token.value": "a.b", "access.mode": "ingress", "access.url": "https://runtime.example.com", "access.externalHost": "hooks.example.com", "metrics.enabled": false },
    { "server.url": "https://slipway.example.com", "token.value": "a.b", "access.mode": "ingress", "access.url": "https://runtime.example.com:8443", "access.externalHost": "hooks.example.com", "access.ingress.className": "inside", "access.ingress.tlsSecret": "tls", "access.ingress.externalClassName": "outside" },
    { "server.url": "https://slipway.example.com", "token.value": "a.b", "access.mode": "gateway", "access.url": "https://runtime.example.com", "access.externalHost": "hooks.example.com", "access.gateway.name": "edge", "access.gateway.namespace": "routing", "access.gateway.sectionName": "https" },
    { "server.url": "https://slipway.example.com", "token.value": "a.b", "access.mode": "gateway", "access.url": "https://runtime.example.com", "access.externalHost": "hooks.example.com", "access.gateway.name": "inside", "access.gateway.externalName": "outside" },
    { "server.url": "https://slipway.example.com", "token.value": "a.b", "access.mode": "url", "access.url": "https://runtime.example.com", argocdCore: true, "egress.publicOnly": true },
  ],
  "slipway-runner": [
    { "server.url": "https://slipway.example.com", "token.existingSecret": "token" },
    { "server.url": "http://slipway", "server.plainHttp": true, "token.value": "a.b", name: "box", "steps.cpu": "2", "steps.memory": "4Gi", "builds.registry": "registry.example.com/team", "imagePullSecrets[0]": "pull", "trustConfigMap": "keys" },
  ],
};

before(async () => {
  kubeconfig = execFileSync(join(root, "scripts/kube.sh"), ["up"], { encoding: "utf8", env: cluster, stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n").at(-1);
  helmProgram = execFileSync(join(root, "scripts/kube.sh"), ["tools", "helm"], { encoding: "utf8", env: cluster, stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n").at(-1);
  const definitions = execFileSync(join(root, "scripts/kube.sh"), ["tools", "gateway-api"], { encoding: "utf8", env: cluster, stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n").at(-1);
  execFileSync("kubectl", ["--kubeconfig", kubeconfig, "apply", "--server-side", "--filename", definitions], { stdio: ["ignore", "ignore", "pipe"] });
  execFileSync("kubectl", ["--kubeconfig", kubeconfig, "create", "namespace", namespace]);
  // What the charts promise: pods of the platform and of runtimes are restricted.
  kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/warn=restricted", "pod-security.kubernetes.io/enforce=baseline");
});
after(() => {
  if (kubeconfig) spawnSync("kubectl", ["--kubeconfig", kubeconfig, "delete", "namespace", namespace, "--ignore-not-found", "--wait=false"], { stdio: "ignore" });
  rmSync(folder, { recursive: true, force: true });
});

for (const [name, rows] of Object.entries(MATRIX)) {
  test(`${name} is linted and rendered, and the API server takes what comes out`, () => {
    for (const row of rows) {
      helm("lint", "--strict", chart(name), ...sets(row));
      const text = helm("template", "matrix", chart(name), "--kube-version", "1.34.4", "--namespace", namespace, ...sets(row));
      // Legends of the dashboard are templates of Grafana.
      assert.doesNotMatch(text.replace(/^  slipway.json: .*$/m, ""), /\{\{|<no value>|%!/, `${name} ${JSON.stringify(row)}`);
      writeFileSync(join(folder, "rendered.yaml"), text);
      const tried = spawnSync("kubectl", ["--kubeconfig", kubeconfig, "--namespace", namespace, "apply", "--dry-run=server", "--filename", join(folder, "rendered.yaml")], { encoding: "utf8" });
      assert.equal(tried.status, 0, `${name} ${JSON.stringify(row)}\n${tried.stderr}`);
      // Steps of builds write as any user, so a runner's pod is held to the baseline alone.
      if (name !== "slipway-runner") assert.doesNotMatch(tried.stderr, /would violate PodSecurity/, name);
    }
  });
}

test("the command line renders the runtime's chart as Helm does", () => {
  const env = { ...inherited(), HOME: folder, SLIPWAY_URL: "https://slipway.example.com", SLIPWAY_API_KEY: "acacacacacacacacacacacac.00" };
  for (const row of MATRIX["slipway-runtime"]) {
    const values = { token: { existingSecret: "slipway-runtime-matrix-token" } };
    for (const [path, value] of Object.entries(row)) {
      if (path === "token.value" || path === "token.existingSecret") continue;
      const [list, name] = [path.endsWith("[0]"), path.replace("[0]", "")];
      const [last, ...rest] = name.split(".").reverse();
      const place = rest.reverse().reduce((at, part) => (at[part] ??= {}), values);
      place[last] = list ? [value] : value;
    }
    const file = join(folder, "values.json");
    writeFileSync(file, JSON.stringify(values));
    const ours = JSON.parse(execFileSync(binary, ["runtime", "install", "matrix", "--namespace", namespace, "--server", row["server.url"], "--values", file, "--output", "json"], { encoding: "utf8", env })).items;
    const text = helm("template", "matrix", chart("slipway-runtime"), "--kube-version", "1.34.4", "--namespace", namespace, "--skip-tests", "--values", file);
    writeFileSync(join(folder, "rendered.yaml"), text);
    const theirs = JSON.parse(execFileSync("kubectl", ["--kubeconfig", kubeconfig, "create", "--dry-run=client", "--validate=false", "--output", "json", "--filename", join(folder, "rendered.yaml")], { encoding: "utf8" }).replaceAll(/^\}\n\{$/gm, "},{").replace(/^/, "[").concat("]")).flatMap((one) => one.items ?? [one]);
    const plain = (objects) => Object.fromEntries(objects.map((object) => [`${object.kind} ${object.metadata.name}`, JSON.parse(JSON.stringify(object).replaceAll('"app.kubernetes.io/managed-by":"Helm"', '"app.kubernetes.io/managed-by":"slipway"'))]));
    assert.deepEqual(plain(ours), plain(theirs), JSON.stringify(row));
  }
});

test("everything that is wrong with the values is said at once, and a name that is no value is refused", () => {
  const several = refused("template", "x", chart("slipway"), "--kube-version", "1.34.4", "--set", "replicas=3", "--set", "gateway.enabled=true", "--set", "ingress.enabled=true", "--set", "ca=nothing");
  for (const words of [/publicUrl is needed/, /needs PostgreSQL/, /storage that all can mount/, /choose one/, /gateway.name is needed/, /ca holds no certificate/]) assert.match(several, words);
  const runtime = refused("template", "x", chart("slipway-runtime"), "--kube-version", "1.34.4", "--set", "server.url=http://a", "--set", "access.mode=ingress", "--set", "access.ingress.externalClassName=outside");
  for (const words of [/server.plainHttp/, /slipway runtime create NAME/, /access.url is needed/, /access.externalHost is needed/]) assert.match(runtime, words);
  for (const name of Object.keys(MATRIX)) assert.match(refused("template", "x", chart(name), "--kube-version", "1.34.4", "--set", "repicas=3"), /additional properties 'repicas' not allowed|Additional property repicas is not allowed/i, name);
});

test("metrics that the dashboard shows are metrics of the platform", () => {
  const text = readFileSync(join(chart("slipway"), "dashboards/slipway.json"), "utf8");
  const named = [...new Set(JSON.parse(text).panels.flatMap((panel) => panel.targets.flatMap((target) => target.expr.match(/slipway_[a-z_]+/g))))];
  const source = execFileSync("grep", ["-rhoE", "slipway_[a-z_]+", join(root, "crates/server/src")], { encoding: "utf8" }).split("\n");
  const known = new Set(source);
  for (const metric of named) assert.ok(known.has(metric) || known.has(metric.replace(/_bucket$/, "")), metric);
});

test("platform, runtime and runner are installed, used, upgraded, rolled back and removed without a trace", { timeout: 600_000 }, async (t) => {
  const tree = join(folder, "root");
  execFileSync(join(root, "scripts/image.sh"), ["root", binary, tree], { env: cluster, stdio: ["ignore", "ignore", "inherit"] });
  execFileSync(join(root, "scripts/kube.sh"), ["image", tree, `localhost/slipway-charts:${tag}`, "/usr/bin/slipway"], { env: cluster, stdio: ["ignore", "ignore", "inherit"] });
  const before = kubectl("get", "all,secrets,configmaps,leases,pvc,serviceaccounts,roles,rolebindings,networkpolicies,ingresses", "--output", "name");
  const globals = () => kubectl("get", "clusterroles,clusterrolebindings", "--output", "name").split("\n").filter((name) => name.includes("slipway-charts"));

  // The platform.
  given(`apiVersion: v1\nkind: Secret\nmetadata: { name: first }\nstringData: { password: a passphrase of words }\n`);
  // Storage that a user who is not root may write to: the folders of this cluster's own class are root's alone, and Kubernetes gives no group to folders of a node.
  const volume = join(folder, "volume");
  mkdirSync(volume);
  chmodSync(folder, 0o755);
  chmodSync(volume, 0o777);
  given(`apiVersion: v1\nkind: PersistentVolume\nmetadata: { name: ${namespace} }\nspec: { storageClassName: ${namespace}, capacity: { storage: 1Gi }, accessModes: [ReadWriteOnce], hostPath: { path: ${volume} } }\n`);
  t.after(() => kubectl("delete", "persistentvolume", namespace, "--wait=false"));
  const url = `http://platform-slipway`;
  const platform = { ...image, publicUrl: url, "admin.existingSecret": "first", "persistence.className": namespace, "persistence.size": "1Gi", "persistence.keep": false };
  const began = Date.now();
  try {
    helm("install", "platform", chart("slipway"), "--namespace", namespace, "--wait", "--timeout", "90s", ...sets(platform));
  } catch (error) {
    assert.fail(`${error.stderr}\n${said()}`);
  }
  t.diagnostic(`platform ready after ${((Date.now() - began) / 1000).toFixed(1)} s`);
  helm("test", "platform", "--namespace", namespace, "--timeout", "60s");
  const forward = spawn("kubectl", ["--kubeconfig", kubeconfig, "--namespace", namespace, "port-forward", "service/platform-slipway", ":80"], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => forward.kill());
  const line = await new Promise((done) => createInterface({ input: forward.stdout }).once("line", done));
  const address = `http://127.0.0.1:${/:(\d+) ->/.exec(line)[1]}`;
  const { KUBECONFIG: _, ...rest } = inherited();
  const env = { ...rest, HOME: folder, SLIPWAY_CONFIG: join(folder, "contexts.json") };
  const slipway = (words, input) => execFileSync(binary, words, { encoding: "utf8", env, input, stdio: ["pipe", "pipe", "pipe"] });
  slipway(["auth", "login", "--url", address, "--email", "admin@slipway.local", "--password-stdin"], "a passphrase of words");
  const list = (noun) => JSON.parse(slipway([noun, "list", "-o", "json"]));

  // A runtime, through the tunnel that it opens.
  const token = slipway(["runtime", "create", "inside"]).trim().split("\n").at(-1);
  given(`apiVersion: v1\nkind: Secret\nmetadata: { name: runtime-token }\nstringData: { token: "${token}" }\n`);
  const runtime = { ...image, "server.url": url, "server.plainHttp": true, "token.existingSecret": "runtime-token" };
  const runtimeBegan = Date.now();
  try {
    helm("install", "gitops", chart("slipway-runtime"), "--namespace", namespace, "--wait", "--timeout", "120s", ...sets(runtime));
    await until("the runtime is online", () => list("runtime").some((one) => one.name === "inside" && one.online && one.tunnels > 0), 60);
  } catch (error) {
    assert.fail(`${error.stderr ?? error}\n${said()}`);
  }
  t.diagnostic(`runtime online after ${((Date.now() - runtimeBegan) / 1000).toFixed(1)} s`);
  helm("test", "gitops", "--namespace", namespace, "--timeout", "60s");

  // A runner, and a build that it runs as pods.
  const runnerToken = slipway(["runner", "token", "box"]).trim().split("\n").at(-1);
  const runner = { ...image, "server.url": url, "server.plainHttp": true, "token.value": runnerToken, name: "box", "storage.className": "standard", "storage.size": "1Gi" };
  helm("install", "builds", chart("slipway-runner"), "--namespace", namespace, ...sets(runner));
  await until("the runner is online", () => list("runners").some((one) => one.name === "box" && one.online), 90).catch((error) => assert.fail(`${error}\n${said()}`));
  writeFileSync(join(folder, "hello.yaml"), "version: '1.0'\nkind: pipeline\nmetadata: { name: first/hello }\nspec:\n  steps:\n    hello: { image: localhost/slipway-test:1, commands: [echo hello from a pod] }\n");
  slipway(["pipeline", "create", "-f", join(folder, "hello.yaml")]);
  assert.match(slipway(["run", "first/hello"]), /hello from a pod/);

  // An upgrade and a rollback: the settings change and change back; nothing is lost.
  helm("upgrade", "gitops", chart("slipway-runtime"), "--namespace", namespace, "--wait", "--timeout", "120s", ...sets({ ...runtime, replicas: 2 }));
  await until("both replicas are connected", () => list("runtime").some((one) => one.name === "inside" && one.tunnels === 2), 60);
  helm("rollback", "gitops", "1", "--namespace", namespace, "--wait", "--timeout", "120s");
  await until("one replica is connected", () => list("runtime").some((one) => one.name === "inside" && one.online && one.tunnels === 1), 60);

  // A lost pod of the platform: its data stays.
  kubectl("delete", "pod", "--selector", "app.kubernetes.io/component=server", "--wait=true");
  kubectl("rollout", "status", "deployment/platform-slipway", "--timeout=90s");

  // Nothing is left but what was there, what the claims of a StatefulSet keep by design, and the definitions.
  for (const release of ["builds", "gitops", "platform"]) helm("uninstall", release, "--namespace", namespace, "--wait");
  kubectl("delete", "secret", "first", "runtime-token");
  kubectl("delete", "pvc", "data-slipway-runner-box-0", "--wait=true");
  const left = () => kubectl("get", "all,secrets,configmaps,leases,pvc,serviceaccounts,roles,rolebindings,networkpolicies,ingresses", "--output", "name").split("\n").filter((name) => name && !before.includes(name));
  await until("nothing is left", () => left().length === 0 || Promise.reject(new Error(left().join(" "))), 60);
  assert.deepEqual(globals(), []);
});
