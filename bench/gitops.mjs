// The GitOps engine on one real kube-apiserver: N Applications × M ConfigMaps, beside the physical limit of the same run.
// usage: node bench/gitops.mjs SLIPWAY KUBECONFIG [APPLICATIONS=200] [OBJECTS=10]
// The limit is the same objects by raw server-side apply over 8 connections. Everything is made in namespaces of its own
// and removed at the end. Prints a table: wall time, CPU seconds and peak memory of the engine.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Api } from "./api.mjs";

const [slipway, kubeconfig, applications = "200", objects = "10"] = process.argv.slice(2);
if (!kubeconfig) {
  console.error("usage: node bench/gitops.mjs SLIPWAY KUBECONFIG [APPLICATIONS] [OBJECTS]");
  process.exit(2);
}
const [apps, each] = [Number(applications), Number(objects)];
const stamp = Date.now().toString(36);
const [control, target, plain] = [`bench-control-${stamp}`, `bench-apps-${stamp}`, `bench-limit-${stamp}`];
const folder = mkdtempSync(join(tmpdir(), "slipway-bench-"));
const repo = join(folder, "repo");
const cluster = new Api(kubeconfig, 8);
const git = (...words) =>
  execFileSync("git", ["-c", "user.name=bench", "-c", "user.email=bench@example.org", ...words], {
    cwd: repo,
    env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null" },
  })
    .toString()
    .trim();

const map = (app, index, value) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: `a${app}-m${index}`, labels: { app: `a${app}` } },
  data: { value, text: "x".repeat(200) },
});

function commit(value, only = null) {
  for (let app = 0; app < apps; app++) {
    if (only !== null && app !== only) continue;
    const at = join(repo, "apps", String(app));
    mkdirSync(at, { recursive: true });
    for (let index = 0; index < each; index++) writeFileSync(join(at, `${index}.json`), JSON.stringify(map(app, index, value)));
  }
  git("add", "--all");
  git("commit", "--quiet", "--allow-empty", "--message", `value ${value}`);
  return git("rev-parse", "HEAD");
}

// What the kernel says about the engine and the children that have ended.
function usage(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  const ticks = [11, 12, 13, 14].map((field) => Number(stat[field])).reduce((a, b) => a + b);
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1];
  return { cpu: ticks / 100, mib: Number(peak) / 1024 };
}

const applicationsPath = `/apis/argoproj.io/v1alpha1/namespaces/${control}/applications`;
const list = async () => JSON.parse(await cluster.call("GET", applicationsPath)).items;
const synced = (app, revision) =>
  app.status?.sync?.status === "Synced" && app.status?.health?.status === "Healthy" && app.status?.sync?.revision === revision;

async function until(what, holds) {
  const began = performance.now();
  while (performance.now() - began < 600_000) {
    if (await holds()) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`${what} did not happen within 600 s`);
}

async function measured(what, engine, act, holds) {
  const before = usage(engine.pid);
  const began = performance.now();
  await act();
  await until(what, holds);
  const seconds = (performance.now() - began) / 1000;
  const after = usage(engine.pid);
  rows.push([what, seconds, after.cpu - before.cpu, after.mib]);
  console.error(`${what}: ${seconds.toFixed(1)} s`);
}

const rows = [];
const namespace = (name) => cluster.call("POST", "/api/v1/namespaces", JSON.stringify({ metadata: { name } }));
const refresh = (name) =>
  cluster.call(
    "PATCH",
    `${applicationsPath}/${name}`,
    JSON.stringify({ metadata: { annotations: { "argocd.argoproj.io/refresh": "normal" } } }),
    "application/merge-patch+json",
  );
let engine;
try {
  mkdirSync(repo);
  git("init", "--quiet", "--initial-branch=main");
  for (const name of [control, target, plain]) await namespace(name);

  // The limit: nothing but the writes.
  const began = performance.now();
  await cluster.rate(apps * each, (n) => {
    const object = map(Math.floor(n / each), n % each, "1");
    const path = `/api/v1/namespaces/${plain}/configmaps/${object.metadata.name}?fieldManager=bench&force=true`;
    return cluster.call("PATCH", path, JSON.stringify(object), "application/apply-patch+yaml");
  });
  const limit = (performance.now() - began) / 1000;
  rows.push(["the limit: raw server-side apply, 8 connections", limit, null, null]);

  const first = commit("1");
  engine = spawn(
    slipway,
    ["engine", "gitops", "--kubeconfig", kubeconfig, "--namespace", control, "--data", join(folder, "data"), "--allow-local-repositories", "--alone"],
    { stdio: ["ignore", "ignore", "inherit"], env: { ...process.env, RUST_LOG: "warn" } },
  );
  await until("the definitions", () => cluster.call("GET", applicationsPath).then(() => true, () => false));
  const spec = (app) => ({
    apiVersion: "argoproj.io/v1alpha1",
    kind: "Application",
    metadata: { name: `a${app}`, namespace: control },
    spec: {
      project: "default",
      source: { repoURL: `file://${repo}`, path: `apps/${app}`, targetRevision: "main" },
      destination: { server: "https://kubernetes.default.svc", namespace: target },
      syncPolicy: { automated: { prune: true, selfHeal: true } },
    },
  });
  const all = (revision) => async () => (await list()).filter((app) => synced(app, revision)).length === apps;
  await measured(
    `first sync of ${apps} × ${each}`,
    engine,
    () => cluster.rate(apps, (n) => cluster.call("POST", applicationsPath, JSON.stringify(spec(n)))),
    all(first),
  );
  const second = commit("2");
  await measured("a commit that changes all", engine, () => cluster.rate(apps, (n) => refresh(`a${n}`)), all(second));
  const third = commit("3", 0);
  await measured("a commit that changes one", engine, () => refresh("a0"), async () => {
    const app = JSON.parse(await cluster.call("GET", `${applicationsPath}/a0`));
    return synced(app, third);
  });
  const one = `/api/v1/namespaces/${target}/configmaps/a1-m0`;
  await measured(
    "drift of one object repaired",
    engine,
    () => cluster.call("PATCH", one, JSON.stringify({ data: { value: "drift" } }), "application/merge-patch+json"),
    async () => JSON.parse(await cluster.call("GET", one)).data.value === "2",
  );
  await measured("idle for 10 s", engine, () => new Promise((done) => setTimeout(done, 10_000)), () => true);
  const live = JSON.parse(await cluster.call("GET", `/api/v1/namespaces/${target}/configmaps?labelSelector=app`)).items;
  if (live.length !== apps * each) throw new Error(`${live.length} objects are there instead of ${apps * each}: the figures are void`);

  console.log("| | wall s | × limit | CPU s | peak MiB |\n|---|---|---|---|---|");
  for (const [what, wall, cpu, mib] of rows) {
    const cells = [wall.toFixed(1), (wall / limit).toFixed(1), cpu?.toFixed(1) ?? "", mib?.toFixed(0) ?? ""];
    console.log(`| ${what} | ${cells.join(" | ")} |`);
  }
} finally {
  engine?.kill("SIGKILL");
  for (const name of [control, target, plain]) await cluster.call("DELETE", `/api/v1/namespaces/${name}`).catch(() => {});
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
