// The GitOps engine on one real kube-apiserver: N Applications × M ConfigMaps, beside the physical limit of the same run and,
// when asked for, beside upstream Argo CD (its defaults, and tuned), which scripts/argocd.sh builds.
// usage: node bench/gitops.mjs SLIPWAY KUBECONFIG [APPLICATIONS=200] [OBJECTS=10] [ENGINES=ours|ours,upstream,tuned] [KINDS=plain|plain,kustomize,helm]
// The limit is the same objects by raw server-side apply over 8 connections. Everything is made in namespaces of its own
// and removed at the end. SLIPWAY_REST=10,3600 measures the ten seconds after the work, and then an hour of rest.
// Prints a table: wall time, CPU seconds, peak memory and calls of the API, for each engine.
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Api } from "./api.mjs";
import { engines, usage } from "./gitops/engines.mjs";
import { Repository, kinds, map } from "./gitops/workload.mjs";

const [slipway, kubeconfig, applications = "200", objects = "10", who = "ours", what = "plain"] = process.argv.slice(2);
const [chosen, rendered] = [who.split(","), what.split(",")];
if (!kubeconfig || !chosen.every((one) => one in engines) || !rendered.every((one) => kinds.includes(one))) {
  console.error("usage: node bench/gitops.mjs SLIPWAY KUBECONFIG [APPLICATIONS] [OBJECTS] [ENGINES=ours,upstream,tuned] [KINDS=plain,kustomize,helm]");
  process.exit(2);
}
const [apps, each] = [Number(applications), Number(objects)];
const rests = (process.env.SLIPWAY_REST ?? "10").split(",").map(Number);
const PATIENCE_MS = 1_800_000;
const stamp = Date.now().toString(36);
const folder = mkdtempSync(join(tmpdir(), "slipway-bench-"));
const cluster = new Api(resolve(kubeconfig), 8);
const spaces = [];
const rows = [];
let running;
// An engine that outlives this program would spoil the next one's figures.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => Promise.resolve(running?.engine?.stop()).finally(() => process.exit(1)));

async function namespace(name) {
  spaces.push(name);
  await cluster.call("POST", "/api/v1/namespaces", JSON.stringify({ metadata: { name } }));
}

// Calls that the API answered, without this program's own, watches, and what nodes and leaders renew all the time.
async function calls() {
  const own = cluster.calls + 1;
  const text = String(await cluster.call("GET", "/metrics"));
  let all = 0;
  for (const [, labels, value] of text.matchAll(/^apiserver_request_total\{([^}]*)\} (\S+)$/gm)) {
    const [, resource] = /resource="([^"]*)"/.exec(labels) ?? [];
    if (resource && !["leases", "nodes"].includes(resource) && !/verb="WATCH"/.test(labels)) all += Number(value);
  }
  return all - own;
}

async function until(what, holds) {
  const began = performance.now();
  while (performance.now() - began < PATIENCE_MS) {
    if (await holds()) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`${what} did not happen within ${PATIENCE_MS / 1000} s`);
}

class Run {
  constructor(kind, name) {
    Object.assign(this, { kind, name, control: `bench-control-${kind}-${name}-${stamp}`, target: `bench-apps-${kind}-${name}-${stamp}` });
    this.applications = `/apis/argoproj.io/v1alpha1/namespaces/${this.control}/applications`;
    this.place = join(folder, `${kind}-${name}`);
  }

  async measured(what, act, holds) {
    const [before, asked, began] = [usage(this.engine.pids()), await calls(), performance.now()];
    await act();
    await until(what, holds);
    const wall = (performance.now() - began) / 1000;
    const after = usage(this.engine.pids());
    const [cpu, made] = [after.cpu - before.cpu, (await calls()) - asked];
    rows.push({ kind: this.kind, who: this.name, what, wall, cpu, mib: after.mib, calls: made });
    // Also when the rest is cut short.
    console.error(`${this.kind}, ${this.name}: ${what}: ${wall.toFixed(1)} s, ${cpu.toFixed(1)} CPU s, ${after.mib.toFixed(0)} MiB, ${made} calls`);
  }

  spec(app) {
    return {
      apiVersion: "argoproj.io/v1alpha1",
      kind: "Application",
      metadata: { name: `a${app}`, namespace: this.control },
      spec: {
        project: "default",
        source: { repoURL: `file://${this.repository.folder}`, path: `apps/${app}`, targetRevision: "main" },
        destination: { server: "https://kubernetes.default.svc", namespace: this.target },
        syncPolicy: { automated: { prune: true, selfHeal: true } },
      },
    };
  }

  // What a webhook causes, for every engine in the same way.
  refresh(app) {
    const annotations = { "argocd.argoproj.io/refresh": "normal" };
    return cluster.call("PATCH", `${this.applications}/a${app}`, JSON.stringify({ metadata: { annotations } }), "application/merge-patch+json");
  }

  synced(app, revision) {
    return app.status?.sync?.status === "Synced" && app.status?.health?.status === "Healthy" && app.status?.sync?.revision === revision;
  }

  all(revision) {
    return async () => JSON.parse(await cluster.call("GET", this.applications)).items.filter((app) => this.synced(app, revision)).length === apps;
  }

  async play() {
    this.repository = new Repository(join(this.place, "repo"), this.kind, apps, each);
    for (const name of [this.control, this.target]) await namespace(name);
    const first = this.repository.commit("1");
    this.engine = engines[this.name]({ slipway: resolve(slipway), kubeconfig: resolve(kubeconfig), folder: this.place, control: this.control });
    await until("the definitions", () => cluster.call("GET", this.applications).then(() => true, () => false));
    await this.measured("first sync", () => cluster.rate(apps, (n) => cluster.call("POST", this.applications, JSON.stringify(this.spec(n)))), this.all(first));
    const second = this.repository.commit("2");
    await this.measured("a commit that changes all", () => cluster.rate(apps, (n) => this.refresh(n)), this.all(second));
    const third = this.repository.commit("3", 0);
    await this.measured("a commit that changes one", () => this.refresh(0), async () =>
      this.synced(JSON.parse(await cluster.call("GET", `${this.applications}/a0`)), third),
    );
    const one = `/api/v1/namespaces/${this.target}/configmaps/a1-m0`;
    const drifted = JSON.stringify({ data: { value: "drift" } });
    await this.measured("drift of one object repaired", () => cluster.call("PATCH", one, drifted, "application/merge-patch+json"), async () =>
      JSON.parse(await cluster.call("GET", one)).data.value === "2",
    );
    for (const seconds of rests) await this.measured(`rest for ${seconds} s`, () => new Promise((done) => setTimeout(done, seconds * 1000)), () => true);
    const live = JSON.parse(await cluster.call("GET", `/api/v1/namespaces/${this.target}/configmaps?labelSelector=app`)).items;
    if (live.length !== apps * each) throw new Error(`${live.length} objects are there instead of ${apps * each}: the figures are void`);
  }

  // All of it is gone before the next engine starts: it must not find work of this one.
  async end() {
    await this.engine?.stop();
    await cluster.call("DELETE", this.applications).catch(() => {});
    for (const name of [this.control, this.target]) await cluster.call("DELETE", `/api/v1/namespaces/${name}`).catch(() => {});
    await until("the end of a namespace", () => cluster.call("GET", `/api/v1/namespaces/${this.target}`).then(() => false, () => true));
    rmSync(this.place, { recursive: true, force: true });
  }
}

// Nothing but the writes.
async function limit() {
  const plain = `bench-limit-${stamp}`;
  await namespace(plain);
  const began = performance.now();
  await cluster.rate(apps * each, (n) => {
    const object = map(Math.floor(n / each), n % each, "1");
    const path = `/api/v1/namespaces/${plain}/configmaps/${object.metadata.name}?fieldManager=bench&force=true`;
    return cluster.call("PATCH", path, JSON.stringify(object), "application/apply-patch+yaml");
  });
  return (performance.now() - began) / 1000;
}

try {
  const floor = await limit();
  console.error(`the limit: ${floor.toFixed(1)} s`);
  for (const kind of rendered) {
    for (const name of chosen) {
      const run = (running = new Run(kind, name));
      const busy = loadavg()[0];
      try {
        await run.play();
      } finally {
        await run.end();
      }
      console.error(`load before ${busy.toFixed(1)}, after ${loadavg()[0].toFixed(1)}`);
    }
  }
  console.log(`${apps} × ${each} objects; raw server-side apply over 8 connections takes ${floor.toFixed(1)} s\n`);
  console.log("| rendering | engine | | wall s | × limit | CPU s | peak MiB | API calls |\n|---|---|---|---|---|---|---|---|");
  for (const { kind, who: engine, what: step, wall, cpu, mib, calls: asked } of rows) {
    console.log(`| ${kind} | ${engine} | ${step} | ${wall.toFixed(1)} | ${(wall / floor).toFixed(1)} | ${cpu.toFixed(1)} | ${mib.toFixed(0)} | ${asked} |`);
  }
} finally {
  for (const name of spaces) await cluster.call("DELETE", `/api/v1/namespaces/${name}`).catch(() => {});
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
