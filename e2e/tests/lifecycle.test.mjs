// A runtime in a cluster from the command line alone: everything that stands in the way is said at once; install, upgrade, rollback and
// uninstall are killed at every step and finished by running them again, with nothing there twice; a second real cluster is added,
// deployed to, lost, found again and removed; and at the end nothing is left but what was deployed.
// usage: SLIPWAY_BIN=… node --test e2e/tests/lifecycle.test.mjs
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { inherited, until } from "../platform.mjs";

const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const scripts = resolve(import.meta.dirname, "../../scripts");
const folder = mkdtempSync(join(tmpdir(), "slipway-lifecycle-"));
const tag = `e2e-${process.pid}`;
const home = { name: "lifecycle", env: { ...process.env, NAME: "lifecycle" } };
const other = { name: "test", env: { ...process.env, NAME: process.env.NAME ?? "test" } };
const workloads = `slipway-lifecycle-${process.pid}`;
let server, url, inside, apiKey;

const sh = (cluster, ...words) => execFileSync(join(scripts, "kube.sh"), words, { encoding: "utf8", env: cluster.env, stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n").at(-1);
const kubectl = (cluster, ...words) => execFileSync("kubectl", ["--kubeconfig", cluster.kubeconfig, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const given = (cluster, text) => execFileSync("kubectl", ["--kubeconfig", cluster.kubeconfig, "apply", "--filename", "-"], { encoding: "utf8", input: text });
const environment = () => {
  const { KUBECONFIG: _, ...rest } = inherited();
  return { ...rest, HOME: folder, SLIPWAY_CONFIG: join(folder, "contexts.json"), SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey };
};
const slipway = (...words) => {
  const done = spawnSync(binary, words, { encoding: "utf8", env: environment(), timeout: 300_000 });
  return { ...done, said: `$ slipway ${words.join(" ")}\n${done.stdout}${done.stderr}` };
};
const good = (...words) => {
  const done = slipway(...words);
  assert.equal(done.status, 0, done.said);
  return done.stdout;
};
const runtimes = () => JSON.parse(good("runtime", "list", "-o", "json"));
const clusters = () => JSON.parse(good("cluster", "list", "-o", "json"));
const at = () => ["--kubeconfig", home.kubeconfig];
const freePort = () => new Promise((done) => {
  const listening = createServer().listen(0, () => {
    const { port } = listening.address();
    listening.close(() => done(port));
  });
});

// Kills the command without a word as soon as it says that it begins this step; false: it came to its end before.
function killedAt(step, words) {
  return new Promise((done, failed) => {
    const child = spawn(binary, [...words, "--silent"], { env: environment(), stdio: ["ignore", "pipe", "pipe"] });
    let [said, killed] = ["", false];
    child.stderr.on("data", (part) => (said += part));
    createInterface({ input: child.stdout }).on("line", (line) => {
      said += `${line}\n`;
      const told = JSON.parse(line);
      if (told.step === step && told.state === "began" && !killed) killed = child.kill("SIGKILL");
    });
    child.on("close", (code) => (killed || code === 0 ? done(killed) : failed(new Error(`${words.join(" ")} ended with ${code}:\n${said}`))));
  });
}

const application = (name, destination) => `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: { name: ${name}, namespace: gitops, finalizers: [resources-finalizer.argocd.argoproj.io] }
spec:
  project: default
  source: { repoURL: "${inside}/git/shop/deploy.git", targetRevision: main, path: . }
  destination: { ${destination}, namespace: ${workloads} }
  syncPolicy: { automated: { selfHeal: true }, syncOptions: [CreateNamespace=true] }
`;

before(async () => {
  [home.kubeconfig, other.kubeconfig] = [sh(home, "up"), sh(other, "up")];
  chmodSync(folder, 0o755);
  const tree = join(folder, "root");
  execFileSync(join(scripts, "image.sh"), ["root", binary, tree], { env: home.env, stdio: ["ignore", "ignore", "inherit"] });
  sh(home, "image", tree, `localhost/slipway-lifecycle:${tag}`, "/usr/bin/slipway");
  rmSync(tree, { recursive: true, force: true });
  const host = /server: https:\/\/([^:]+):/.exec(readFileSync(home.kubeconfig, "utf8"))[1];
  const port = await freePort();
  [url, inside] = [`http://127.0.0.1:${port}`, `http://${host}:${port}`];
  server = spawn(binary, ["server", "--data", join(folder, "data"), "--listen", `0.0.0.0:${port}`, "--public-url", inside, "--output", "json"], { env: { ...inherited(), HOME: folder }, stdio: ["ignore", "pipe", "pipe"] });
  server.said = "";
  server.stderr.on("data", (part) => (server.said = (server.said + part).slice(-20_000)));
  const line = await new Promise((done) => createInterface({ input: server.stdout }).once("line", done));
  ({ apiKey } = JSON.parse(line));
});

after(() => {
  server?.kill("SIGKILL");
  spawnSync("kubectl", ["--kubeconfig", other.kubeconfig, "delete", "namespace", workloads, "--ignore-not-found", "--wait=false"], { stdio: "ignore" });
  spawnSync(join(scripts, "kube.sh"), ["down"], { env: home.env, stdio: "ignore" });
  rmSync(folder, { recursive: true, force: true });
});

const INSTALL = () => ["runtime", "install", "west", ...at(), "--namespace", "gitops", "--server", inside, "--plain-http", "--image", "localhost/slipway-lifecycle", "--version", tag, "--set", "image.pullPolicy=Never"];

test("everything that stands in the way of an installation is said at once, and nothing is made", () => {
  const wrong = slipway("runtime", "install", "West_1", ...at(), "--plain-http", "--access-mode", "ingress", "--ingress-host", "https://runtime.example.com", "--ingress-class", "nowhere");
  assert.equal(wrong.status, 1, wrong.said);
  for (const words of [/`West_1` is not a name for a runtime/, /pods cannot reach http:\/\/127\.0\.0\.1/, /no ingress class `nowhere`/, /3 of \d+ checks failed, and nothing was changed/]) assert.match(wrong.stderr, words);
  for (const [words, says] of [
    [["--context", "nothing"], /no context `nothing`/],
    [["--set", "repicas=2"], /`repicas` is no value/],
    [["--ips-allow-list", "192.0.2.0/24", "--access-mode", "url", "--ingress-host", "https://a.example"], /--ips-allow-list has no effect/],
    [["--access-mode", "ingress"], /access.url is needed/],
  ]) {
    const refused = slipway("runtime", "install", "west", ...at(), "--server", inside, "--plain-http", ...words);
    assert.equal(refused.status, 1, refused.said);
    assert.match(refused.stderr, says);
  }
  assert.deepEqual(runtimes(), []);
  assert.doesNotMatch(kubectl(home, "get", "namespaces,crds", "--output", "name"), /gitops|argoproj/);
  // What would be applied is what Helm would.
  const printed = good(...INSTALL(), "--output", "yaml");
  assert.match(printed, /kind: Deployment/);
  assert.doesNotMatch(printed, /<no value>|\{\{/);
});

test("an installation that is killed at every step is finished by running it again, and nothing is there twice", { timeout: 400_000 }, async (t) => {
  for (const step of ["checks", "namespace", "registration", "definitions", "revision", "objects", "online"]) assert.equal(await killedAt(step, INSTALL()), true, step);
  const began = Date.now();
  good(...INSTALL());
  t.diagnostic(`finished ${((Date.now() - began) / 1000).toFixed(1)} s after the last kill`);
  assert.deepEqual(runtimes().map(({ name, state }) => [name, state]), [["west", "online"]]);
  const described = JSON.parse(good("runtime", "describe", "west", ...at(), "--namespace", "gitops", "-o", "json"));
  assert.deepEqual(described.revisions.map(({ revision, state }) => [revision, state]), [[1, "deployed"]]);
  assert.equal(kubectl(home, "--namespace", "gitops", "get", "deployments", "--output", "name").trim(), "deployment.apps/slipway-runtime-west");
  assert.match(good("runtime", "doctor", "west", ...at(), "--namespace", "gitops"), /pods\s+ok/);
  assert.match(good("runtime", "logs", "west", ...at(), "--namespace", "gitops", "--tail", "50"), /\S/);
  // Once more: nothing changes.
  good(...INSTALL());
  assert.equal(JSON.parse(good("runtime", "describe", "west", ...at(), "--namespace", "gitops", "-o", "json")).revisions.length, 1);
  const twice = slipway("runtime", "install", "east", ...at(), "--namespace", "gitops", "--server", inside, "--plain-http");
  assert.match(twice.stderr, /another `slipway runtime install` uses namespace gitops/);
});

test("an upgrade and a rollback, killed in the middle, arrive", { timeout: 400_000 }, async () => {
  const upgrade = ["runtime", "upgrade", "west", ...at(), "--namespace", "gitops", "--replicas", "2"];
  for (const step of ["revision", "objects", "online"]) assert.equal(await killedAt(step, upgrade), true, step);
  good(...upgrade);
  await until("both replicas are connected", () => runtimes()[0].tunnels === 2);
  const rollback = ["runtime", "rollback", "west", ...at(), "--namespace", "gitops"];
  for (const step of ["revision", "objects", "online"]) assert.equal(await killedAt(step, rollback), true, step);
  good(...rollback);
  await until("one replica is connected", () => runtimes()[0].tunnels === 1);
  const { revisions } = JSON.parse(good("runtime", "describe", "west", ...at(), "--namespace", "gitops", "-o", "json"));
  assert.deepEqual(revisions.map(({ revision, state, cause }) => [revision, state, cause]), [[1, "superseded", "install"], [2, "superseded", "upgrade"], [3, "deployed", "rollback to 1"]]);
  assert.doesNotMatch(kubectl(home, "--namespace", "gitops", "get", "poddisruptionbudgets", "--output", "name"), /slipway/, "what the first revision has not is gone");
});

test("a second cluster is added, deployed to, lost with a reason, found again, and removed; what runs there stays", { timeout: 300_000 }, async () => {
  good("repo", "create", "shop/deploy");
  const work = join(folder, "work");
  const git = (...words) => execFileSync("git", words, { cwd: work, env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_AUTHOR_NAME: "Ada", GIT_AUTHOR_EMAIL: "ada@example.com", GIT_COMMITTER_NAME: "Ada", GIT_COMMITTER_EMAIL: "ada@example.com" }, stdio: ["ignore", "pipe", "pipe"] });
  execFileSync("git", ["init", "--quiet", "--initial-branch", "main", work]);
  writeFileSync(join(work, "map.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: shop }\ndata: { a: '1' }\n");
  git("add", ".");
  git("commit", "--quiet", "--message", "first");
  git("push", "--quiet", `${url.replace("://", `://me:${apiKey}@`)}/git/shop/deploy.git`, "main");
  given(home, `apiVersion: v1\nkind: Secret\nmetadata: { name: git-host, namespace: gitops, labels: { argocd.argoproj.io/secret-type: repo-creds } }\nstringData: { type: git, url: "${inside}/git/", username: me, password: "${apiKey}" }\n---\napiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: { name: default, namespace: gitops }\nspec: { sourceRepos: ["*"], destinations: [{ namespace: "*", server: "*" }], clusterResourceWhitelist: [{ group: "*", kind: "*" }] }\n`);

  const there = ["--kubeconfig", other.kubeconfig];
  const printed = good("cluster", "add", "west", ...there, "--name", "second", "--dry-run");
  assert.match(printed, /kind: ServiceAccount/);
  assert.doesNotMatch(kubectl(other, "--namespace", "kube-system", "get", "serviceaccounts", "--output", "name"), /slipway-manager-west/, "nothing was changed");
  for (const [words, says] of [
    [["cluster", "add", "nobody", ...there], /no runtime `nobody`: there are west/],
    [["cluster", "add", "west", ...there, "--name", "Bad_Name"], /is not a name for a cluster/],
    [["cluster", "add", "west", ...there, "--name", "second", "--server", "https://127.0.0.1:1"], /this runtime cannot use https:\/\/127\.0\.0\.1:1/],
  ]) {
    const refused = slipway(...words);
    assert.equal(refused.status, 1, refused.said);
    assert.match(refused.stderr, says);
  }
  assert.doesNotMatch(kubectl(other, "get", "clusterroles,clusterrolebindings", "--output", "name"), /slipway-manager-west/, "what was made for nothing is gone");
  good("cluster", "add", "west", ...there, "--name", "second", "--label", "stage=test");
  const second = () => clusters().find(({ name }) => name === "second");
  await until("the second cluster is reached", () => second()?.state === "Successful");
  assert.match(second().serverVersion, /^1\.\d+\./);
  given(home, application("shop", "name: second"));
  await until("the Application is deployed there", () => kubectl(other, "--namespace", workloads, "get", "configmaps", "--output", "name").includes("configmap/shop"), 90);
  await until("it counts one Application", () => second().applications === 1);
  // Drift heals over there too.
  kubectl(other, "--namespace", workloads, "patch", "configmap", "shop", "--type", "merge", "--patch", '{"data":{"a":"2"}}');
  await until("drift is healed", () => kubectl(other, "--namespace", workloads, "get", "configmap", "shop", "--output", "jsonpath={.data.a}") === "1", 90);

  // Its account is taken away behind the runtime's back: the state says so, and adding it again mends it.
  const account = kubectl(other, "get", "clusterroles", "--output", "name").split("\n").find((name) => name.includes("slipway-manager-west")).split("/")[1];
  kubectl(other, "--namespace", "kube-system", "delete", "--ignore-not-found", "serviceaccount,secret", account);
  await until("it is failed, with a reason", () => second().state === "Failed" && second().message !== "", 60);
  assert.match(good("cluster", "add", "west", ...there), /has a new token/);
  await until("it is reached again", () => second().state === "Successful", 60);

  const inUse = slipway("cluster", "remove", "second", ...there, "--yes");
  assert.match(inUse.stderr, /1 Applications go to `second`/);
  good("cluster", "remove", "second", ...there, "--yes", "--force");
  await until("it is gone from the list", () => !second());
  assert.doesNotMatch(kubectl(other, "get", "clusterroles,clusterrolebindings", "--output", "name"), /slipway-manager-west/);
  assert.match(kubectl(other, "--namespace", workloads, "get", "configmaps", "--output", "name"), /configmap\/shop/, "what runs there stays");
  const records = JSON.parse(good("get", "audit", "-o", "json"));
  const actions = records.filter(({ entity }) => entity === "cluster").map(({ action }) => action);
  assert.doesNotMatch(JSON.stringify(records), /eyJ[A-Za-z0-9]/, "no token of the cluster is recorded");
  assert.ok(actions.includes("cluster-add") && actions.includes("cluster-remove"), JSON.stringify(actions));
});

test("an uninstall that is killed at every step is finished by running it again, and leaves what was deployed", { timeout: 300_000 }, async () => {
  kubectl(home, "--namespace", "gitops", "patch", "application", "shop", "--type", "merge", "--patch", '{"spec":{"destination":{"name":null,"server":"https://kubernetes.default.svc"}}}');
  await until("the Application is deployed at home", () => spawnSync("kubectl", ["--kubeconfig", home.kubeconfig, "--namespace", workloads, "get", "configmap", "shop"]).status === 0, 90);
  const uninstall = ["runtime", "uninstall", "west", ...at(), "--namespace", "gitops", "--yes"];
  for (const step of ["objects", "git tokens", "definitions", "registration"]) await killedAt(step, uninstall);
  const said = slipway(...uninstall);
  assert.equal(said.status, 0, said.said);
  assert.deepEqual(runtimes(), []);
  // The namespace holds Applications and Secrets of people, so it stays, with nothing of the runtime in it.
  const left = kubectl(home, "--namespace", "gitops", "get", "all,secrets,configmaps,leases,serviceaccounts,networkpolicies", "--output", "name").split("\n").filter((name) => name && !/kube-root-ca|serviceaccount\/default|secret\/git-host/.test(name));
  assert.deepEqual(left, []);
  assert.match(kubectl(home, "--namespace", "gitops", "get", "applications.argoproj.io", "--output", "name"), /shop/);
  assert.match(kubectl(home, "--namespace", workloads, "get", "configmaps", "--output", "name"), /configmap\/shop/, "what was deployed stays");
  assert.doesNotMatch(kubectl(home, "get", "clusterroles,clusterrolebindings", "--output", "name"), /slipway/);

  // Without anybody's Applications everything goes, the namespace and the definitions too.
  kubectl(home, "--namespace", "gitops", "patch", "application", "shop", "--type", "merge", "--patch", '{"metadata":{"finalizers":null}}');
  kubectl(home, "--namespace", "gitops", "delete", "applications.argoproj.io,appprojects.argoproj.io", "--all");
  kubectl(home, "--namespace", "gitops", "delete", "secret", "git-host");
  good(...INSTALL());
  good(...uninstall);
  assert.doesNotMatch(kubectl(home, "get", "namespaces,crds", "--output", "name"), /namespace\/gitops|argoproj/);
});
