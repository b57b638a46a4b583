// The published `argocd` CLI in --core mode against our engine, which runs in a pod as deploy/gitops-engine.yaml has it.
// usage: SLIPWAY_BIN=… KUBECONFIG=… node --test e2e/oracle/core.test.mjs     (make oracle does it)
// The engine's program, git and the repository come from this machine's disk, because no image with them is published.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const top = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const binary = resolve(process.env.SLIPWAY_BIN ?? join(top, "target/release/slipway"));
const folder = mkdtempSync(join(tmpdir(), "slipway-core-"));
const control = `core-${process.pid}`;
const target = `core-apps-${process.pid}`;
const kubeconfig = join(folder, "kubeconfig");
const repository = join(folder, "repository");
const cli = join(execFileSync(join(top, "scripts/argocd.sh"), ["build"], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n").at(-1), "argocd");

const kubectl = (...words) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const apply = (...objects) =>
  execFileSync("kubectl", ["--kubeconfig", kubeconfig, "apply", "--filename", "-"], { input: JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }), stdio: ["pipe", "ignore", "inherit"] });
const git = (...words) => execFileSync("git", ["-c", "user.name=example", "-c", "user.email=example@example.org", ...words], { cwd: repository, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();

// What it printed, whatever it thought of it.
function argocd(...words) {
  const environment = { ...process.env, KUBECONFIG: kubeconfig, HOME: folder, ARGOCD_CONFIG_DIR: folder };
  const said = spawnSync(cli, ["--core", ...words], { encoding: "utf8", env: environment, timeout: 180_000 });
  return { code: said.status, out: said.stdout, all: `argocd ${words.join(" ")}\n${said.stdout}${said.stderr}` };
}
function holds(...words) {
  const said = argocd(...words);
  assert.equal(said.code, 0, said.all);
  return said.out;
}

function commit(value) {
  const labels = { app: "web" };
  const pod = { metadata: { labels }, spec: { terminationGracePeriodSeconds: 0, containers: [{ name: "web", image: "localhost/slipway-test:1", command: ["sh", "-c", "echo it runs; sleep 3600"] }] } };
  const objects = [
    { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, spec: { selector: { matchLabels: labels }, template: pod } },
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { value } },
    { apiVersion: "v1", kind: "Secret", metadata: { name: "key" }, stringData: { key: `secret-of-${value}` } },
  ];
  mkdirSync(join(repository, "web"), { recursive: true });
  for (const object of objects) writeFileSync(join(repository, "web", `${object.kind.toLowerCase()}.yaml`), JSON.stringify(object));
  git("add", "--all");
  git("commit", "--quiet", "--message", `value ${value}`);
  return git("rev-parse", "HEAD");
}

// What people would install, in a namespace of its own, with this machine's disk in the place of an image.
function install() {
  const place = join(folder, "install");
  mkdirSync(place);
  cpSync(join(top, "deploy/gitops-engine.yaml"), join(place, "engine.yaml"));
  const words = ["engine", "gitops", "--namespace", control, "--data", join(folder, "data"), "--listen", "0.0.0.0:8082", "--argocd-core", "--allow-local-repositories", "--alone"];
  // Inside of the other root the pod's account is not where clients look for it.
  const account = "/var/run/secrets/kubernetes.io/serviceaccount";
  const script = `cat >/host${folder}/inside <<END
{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "clusters": [{"name": "c", "cluster": {"server": "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT", "certificate-authority-data": "$(base64 ${account}/ca.crt | tr -d '\n')"}}],
 "users": [{"name": "u", "user": {"token": "$(cat ${account}/token)"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
END
exec chroot /host ${binary} ${words.join(" ")} --kubeconfig ${folder}/inside`;
  const container = "/spec/template/spec/containers/0";
  const patch = [
    { op: "replace", path: `${container}/image`, value: "localhost/slipway-test:1" },
    { op: "replace", path: `${container}/args`, value: ["sh", "-c", script] },
    { op: "replace", path: `${container}/securityContext`, value: { privileged: true } },
    { op: "add", path: `${container}/volumeMounts/-`, value: { name: "disk", mountPath: "/host" } },
    { op: "add", path: "/spec/template/spec/volumes/-", value: { name: "disk", hostPath: { path: "/" } } },
  ];
  const bound = [{ op: "replace", path: "/subjects/0/name", value: `slipway-gitops-engine-${process.pid}` }, { op: "replace", path: "/subjects/0/namespace", value: control }];
  const kustomization = { namespace: control, nameSuffix: `-${process.pid}`, resources: ["engine.yaml"], patches: [{ target: { kind: "Deployment" }, patch: JSON.stringify(patch) }, { target: { kind: "ClusterRoleBinding" }, patch: JSON.stringify(bound) }] };
  writeFileSync(join(place, "kustomization.yaml"), JSON.stringify(kustomization));
  kubectl("apply", "--kustomize", place);
  const name = `deployment/slipway-gitops-engine-${process.pid}`;
  const waited = spawnSync("kubectl", ["--kubeconfig", kubeconfig, "rollout", "status", name, "--timeout=120s"], { encoding: "utf8" });
  assert.equal(waited.status, 0, `${waited.stdout}${waited.stderr}${spawnSync("kubectl", ["--kubeconfig", kubeconfig, "logs", name], { encoding: "utf8" }).stdout}`);
}

before(() => {
  assert.ok(process.env.KUBECONFIG, "KUBECONFIG names the cluster");
  writeFileSync(kubeconfig, readFileSync(process.env.KUBECONFIG));
  mkdirSync(repository);
  git("init", "--quiet", "--initial-branch=main");
  commit("one");
  for (const name of [control, target]) kubectl("create", "namespace", name);
  // In core mode the namespace of the context is the one of the installation.
  kubectl("config", "set-context", "--current", "--namespace", control);
  const labels = { "app.kubernetes.io/part-of": "argocd" };
  apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "argocd-cm", namespace: control, labels } }, { apiVersion: "v1", kind: "Secret", metadata: { name: "argocd-secret", namespace: control, labels }, stringData: { "server.secretkey": "only-for-tests" } });
  install();
});
after(() => {
  spawnSync("kubectl", ["--kubeconfig", kubeconfig, "delete", "--kustomize", join(folder, "install"), "--wait=false"], { stdio: "ignore" });
  for (const name of [control, target]) spawnSync("kubectl", ["--kubeconfig", kubeconfig, "delete", "namespace", name, "--wait=false"], { stdio: "ignore" });
  rmSync(folder, { recursive: true, force: true });
});

test("the argocd CLI works in core mode as if Argo CD were there", { timeout: 900_000 }, async (t) => {
  const app = `${target}-web`;
  const first = git("rev-parse", "HEAD");
  await t.test("create asks whether the source can be rendered, and refuses what cannot", () => {
    const where = ["--repo", `file://${repository}`, "--dest-server", "https://kubernetes.default.svc", "--dest-namespace", target];
    const refused = argocd("app", "create", app, ...where, "--path", "not-there");
    assert.notEqual(refused.code, 0, refused.all);
    assert.match(refused.all, /not-there/);
    holds("app", "create", app, ...where, "--path", "web");
    assert.match(holds("app", "list"), new RegExp(app));
  });
  await t.test("diff shows what a sync would make, and no secret", () => {
    const said = argocd("app", "diff", app, "--refresh");
    assert.equal(said.code, 1, said.all);
    assert.match(said.out, /value: one/);
    assert.doesNotMatch(said.all, /secret-of-one|c2VjcmV0LW9mLW9uZQ/);
  });
  await t.test("sync waits until it is done, and everything is healthy", () => {
    holds("app", "sync", app, "--timeout", "120");
    holds("app", "wait", app, "--sync", "--health", "--timeout", "120");
    const shown = holds("app", "get", app);
    assert.match(shown, /Sync Status:\s+Synced/);
    assert.match(shown, /Health Status:\s+Healthy/);
    assert.match(shown, /apps\s+Deployment\s+\S+\s+web\s+Synced\s+Healthy/);
    holds("app", "diff", app);
  });
  await t.test("the tree has the pods, and their logs can be read", () => {
    assert.match(holds("app", "resources", app), /Deployment/);
    const tree = holds("app", "get", app, "--output", "tree");
    assert.match(tree, /Pod\/web-/);
    assert.match(holds("app", "logs", app, "--kind", "Deployment", "--name", "web"), /it runs/);
    assert.match(holds("app", "manifests", app, "--source", "live"), /kind: ConfigMap/);
  });
  await t.test("manifests of Git and the difference to a revision come from the repository", () => {
    const second = commit("two");
    assert.match(holds("app", "manifests", app, "--revision", second), /value: two/);
    const said = argocd("app", "diff", app, "--revision", second);
    assert.equal(said.code, 1, said.all);
    assert.match(said.out, /value: two/);
    holds("app", "get", app, "--hard-refresh");
    holds("app", "sync", app, "--revision", "main", "--timeout", "120");
    assert.equal(kubectl("get", "configmap", "settings", "--namespace", target, "--output", "jsonpath={.data.value}"), "two");
  });
  await t.test("files that are not committed are compared, rendered by the engine", () => {
    const local = join(folder, "local", "web");
    cpSync(join(repository, "web"), local, { recursive: true });
    writeFileSync(join(local, "configmap.yaml"), JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { value: "local" } }));
    // What it sends is the folder that is named; the path of the source is looked for in it, so it is the repository's root.
    const said = argocd("app", "diff", app, "--local", join(folder, "local"), "--server-side-generate");
    assert.equal(said.code, 1, said.all);
    assert.match(said.out, /value: local/);
    assert.doesNotMatch(said.all, /secret-of-two/);
  });
  await t.test("history and rollback", () => {
    const history = holds("app", "history", app);
    assert.match(history, new RegExp(first.slice(0, 7)));
    const [id] = /^(\d+) .*$/m.exec(history) ?? assert.fail(history);
    holds("app", "rollback", app, id.split(" ")[0], "--timeout", "120");
    assert.equal(kubectl("get", "configmap", "settings", "--namespace", target, "--output", "jsonpath={.data.value}"), "one");
  });
  await t.test("a cluster and a project are shown", () => {
    assert.match(holds("cluster", "list"), /https:\/\/kubernetes\.default\.svc\s+in-cluster\s+\S+\s+Successful/);
    assert.match(holds("proj", "list"), /default/);
  });
  await t.test("delete takes what it deployed along", () => {
    holds("app", "delete", app, "--yes", "--wait");
    assert.equal(kubectl("get", "deployments,configmaps,secrets", "--namespace", target, "--output", "name").split("\n").filter((name) => name && !name.includes("kube-root-ca")).join(), "");
  });
});

test("nobody else in the cluster reaches the two ports, and the cache wants its password", () => {
  const address = kubectl("get", "pods", "--selector", "app.kubernetes.io/name=argocd-redis", "--output", "jsonpath={.items[0].status.podIP}");
  const pod = ["run", "stranger", "--namespace", target, "--image=localhost/slipway-test:1", "--restart=Never", "--rm", "--attach", "--quiet", "--command", "--"];
  for (const [port, open] of [[6379, false], [8081, false], [8082, true]]) {
    const said = spawnSync("kubectl", ["--kubeconfig", kubeconfig, ...pod, "sh", "-c", `nc -w 3 ${address} ${port} </dev/null && echo open || echo closed`], { encoding: "utf8" });
    assert.match(said.stdout, open ? /open/ : /closed/, `${port}: ${said.stdout}${said.stderr}`);
  }
});
