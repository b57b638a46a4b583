// Plays one scenario with both engines at once, on one repository, and takes down what each says and what is in the cluster.
// In: a scenario, the engines, a cluster. Out: for each step {what, peer, ours}, with facts of statuses and of objects.
// Does not know: what counts as a difference.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { defaults } from "./scenarios.mjs";
import { facts } from "./status.mjs";

const examples = join(dirname(fileURLToPath(import.meta.url)), "examples");
const PATIENCE_MS = 240_000;

class Repository {
  constructor(folder, folders) {
    this.folder = folder;
    for (const name of folders) cpSync(join(examples, name), join(folder, name), { recursive: true });
    this.git("init", "--quiet", "--initial-branch=main");
    this.commit();
  }
  git(...words) {
    const environment = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null" };
    const named = ["-c", "user.name=example", "-c", "user.email=example@example.org", ...words];
    return execFileSync("git", named, { cwd: this.folder, env: environment, encoding: "utf8" }).trim();
  }
  commit() {
    this.git("add", "--all");
    this.git("commit", "--quiet", "--message", "change");
    this.head = this.git("rev-parse", "HEAD");
  }
  change({ edit, swap, write = {}, remove = [] }) {
    const rewrite = (file, change) => {
      const before = readFileSync(join(this.folder, file), "utf8");
      const after = change(before);
      if (after === before) throw new Error(`${file} does not hold what the scenario changes`);
      writeFileSync(join(this.folder, file), after);
    };
    if (edit) rewrite(edit.file, (text) => text.replace(edit.from, edit.to));
    if (swap) {
      rewrite(swap, (text) => {
        const [head, active, preview] = text.split(/(?=apiVersion: v1\nkind: Service)/);
        return head + active.replace("colour: blue", "colour: green") + preview.replace("colour: green", "colour: blue");
      });
    }
    for (const [file, text] of Object.entries(write)) writeFileSync(join(this.folder, file), text);
    for (const file of remove) rmSync(join(this.folder, file));
    this.commit();
  }
}

export class Player {
  constructor(cluster, engines, folder) {
    Object.assign(this, { cluster, engines, folder });
  }

  path(engine, name) {
    return `/apis/argoproj.io/v1alpha1/namespaces/${engine.control}/applications${name ? `/${engine.prefix}-${name}` : ""}`;
  }

  async get(engine, name) {
    return JSON.parse(await this.cluster.call("GET", this.path(engine, name)));
  }

  patch(path, value) {
    return this.cluster.call("PATCH", path, JSON.stringify(value), "application/merge-patch+json");
  }

  /** The Application as soon as it is as hoped, or why it is not. */
  async until(engine, name, holds) {
    const end = Date.now() + PATIENCE_MS;
    let app;
    while (Date.now() < end) {
      app = await this.get(engine, name).catch(() => undefined);
      if (app && holds(app)) return { app };
      await new Promise((done) => setTimeout(done, 300));
    }
    const { sync, health, operationState, conditions } = app?.status ?? {};
    const said = { sync: sync?.status, health, phase: operationState?.phase, message: operationState?.message, conditions };
    return { app, missed: `not reached within ${PATIENCE_MS / 1000} s: ${JSON.stringify(said)}` };
  }

  async refreshed(engine, name) {
    await this.patch(this.path(engine, name), { metadata: { annotations: { "argocd.argoproj.io/refresh": "normal" } } });
    return this.until(engine, name, (app) => !app.metadata.annotations?.["argocd.argoproj.io/refresh"]);
  }

  /** Compared once more when it is as hoped, so that nothing is left from a state on the way there. */
  async settled(engine, name, holds) {
    const first = await this.until(engine, name, holds);
    if (first.missed || !first.app) return first;
    await this.refreshed(engine, name);
    return this.until(engine, name, holds);
  }

  application(scenario, engine, repository) {
    const here = (value) => JSON.parse(JSON.stringify(value ?? {}).replaceAll("X-", `${engine.prefix}-`).replaceAll("REPOSITORY", repository));
    const at = (source) => ({ repoURL: repository, targetRevision: scenario.revision ?? "main", ...here(source) });
    const { name, path = name, source, sources, policy = defaults.automated, destination, spec } = scenario;
    return {
      apiVersion: "argoproj.io/v1alpha1",
      kind: "Application",
      metadata: { name: `${engine.prefix}-${name}`, namespace: engine.control },
      spec: {
        project: "default",
        ...(sources ? { sources: sources.map(at) } : { source: { path, ...at(source) } }),
        destination: { server: "https://kubernetes.default.svc", namespace: destination ? engine.control : `${engine.prefix}-${name}` },
        syncPolicy: policy,
        ...here(spec),
      },
    };
  }

  async play(scenario) {
    const { name, path = name, folders = [], also = [] } = scenario;
    const folder = join(this.folder, "repositories", name);
    mkdirSync(folder, { recursive: true });
    const own = scenario.sources || path.includes("not-there") ? [] : [path];
    const repository = new Repository(folder, [...new Set([...own, ...folders])]);
    const url = `file://${folder}`;
    for (const engine of this.engines) await this.cluster.call("POST", this.path(engine), JSON.stringify(this.application(scenario, engine, url)));
    const steps = [await this.taken("first sync", scenario, scenario)];
    for (const step of scenario.then ?? []) {
      if (step.edit || step.swap || step.write || step.remove) repository.change(step);
      const until = step.atHead ? (app) => app.status?.sync?.revision === repository.head && step.until(app) : step.until;
      await Promise.all(this.engines.map((engine) => this.act(engine, scenario, step)));
      steps.push(await this.taken(step.what, scenario, { ...step, until }));
    }
    return { name, also, steps };
  }

  async act(engine, scenario, step) {
    const app = this.path(engine, scenario.name);
    if (step.live) await this.patch(step.live.path.replace("X-", `${engine.prefix}-`), step.live.patch);
    else if (step.rollback !== undefined) {
      const { revision, source } = (await this.get(engine, scenario.name)).status.history[step.rollback];
      await this.patch(app, { operation: { initiatedBy: { username: "somebody" }, sync: { revision, source, prune: true } } });
    } else if (step.patch?.operation) {
      // As the command line does it: what came before is not taken for the answer.
      await this.patch(app, { ...step.patch, status: { operationState: null } });
    } else if (step.patch) await this.patch(app, step.patch);
    else await this.refreshed(engine, scenario.name);
  }

  /** What each engine says after a step, and what it made of the cluster. */
  async taken(what, scenario, { until }) {
    const entry = { what, missed: {}, status: {}, objects: {} };
    await Promise.all(
      this.engines.map(async (engine) => {
        const { app, missed } = await this.settled(engine, scenario.name, until);
        if (missed) entry.missed[engine.prefix] = missed;
        entry.status[engine.prefix] = facts(app ?? {}, engine.prefix);
        for (const child of scenario.also ?? []) {
          const { app: one, missed: why } = await this.settled(engine, child, until);
          if (why) entry.missed[engine.prefix] = `${child}: ${why}`;
          for (const [path, value] of facts(one ?? {}, engine.prefix)) entry.status[engine.prefix].set(`${child}: ${path}`, value);
        }
      }),
    );
    return entry;
  }
}
