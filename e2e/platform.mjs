// A platform in a folder of its own: started from the binary, killed without mercy, started again.
import { spawn, execFile } from "node:child_process";
import { readFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { createInterface } from "node:readline";

const run = promisify(execFile);

// Nothing of the person whose machine this is: no address, key, port or folder of a platform of their own.
export function inherited() {
  const kept = new Set(["SLIPWAY_CACHE", "SLIPWAY_LOG", "SLIPWAY_TOOLS_SEE_THIS_MACHINE"]);
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SLIPWAY_") || kept.has(name)));
}
const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");

export async function until(what, check, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  let last;
  for (;;) {
    try {
      last = await check();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s; last seen: ${last?.stack ?? JSON.stringify(last)}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

export class Platform {
  constructor(extra = []) {
    this.folder = mkdtempSync(join(tmpdir(), "slipway-e2e-"));
    this.extra = extra;
    this.listen = "127.0.0.1:0";
    this.stderr = "";
  }

  // Resolves when the platform says that it is ready.
  async start() {
    const started = Date.now();
    this.child = spawn(
      binary,
      ["up", "--data", join(this.folder, "data"), "--listen", this.listen, "--output", "json", ...this.extra],
      { stdio: ["ignore", "pipe", "pipe"], env: this.environment() },
    );
    this.child.stderr.on("data", (text) => {
      this.stderr += text;
      if (process.env.SLIPWAY_E2E_VERBOSE) process.stderr.write(text);
    });
    this.exited = new Promise((done) => this.child.once("exit", done));
    const line = await Promise.race([
      new Promise((done) => createInterface({ input: this.child.stdout }).once("line", done)),
      this.exited.then((code) => {
        throw new Error(`slipway up ended with ${code}: ${this.stderr}`);
      }),
    ]);
    const ready = JSON.parse(line);
    this.url = ready.url;
    this.listen = new URL(ready.url).host;
    this.kubeconfig = ready.kubeconfig;
    // Credentials come with the first start only.
    this.credentials ??= ready;
    this.readyMs = Date.now() - started;
    return ready;
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.exited;
  }

  async stop() {
    if (this.child?.exitCode === null && this.child.signalCode === null) {
      this.child.kill("SIGTERM");
      await this.exited;
    }
  }

  async remove() {
    await this.stop();
    // Pods outlive their cluster on purpose; here nobody comes back for them.
    await this.slipway("down", "--data", join(this.folder, "data"));
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  environment() {
    return {
      ...inherited(),
      HOME: this.folder,
      SLIPWAY_CONFIG: join(this.folder, "contexts.json"),
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_TERMINAL_PROMPT: "0",
      GIT_AUTHOR_NAME: "Ada Lovelace",
      GIT_AUTHOR_EMAIL: "ada@example.com",
      GIT_COMMITTER_NAME: "Ada Lovelace",
      GIT_COMMITTER_EMAIL: "ada@example.com",
      KUBECONFIG: this.kubeconfig ?? "",
    };
  }

  async api(path) {
    const answer = await fetch(this.url + path, { headers: { authorization: this.credentials.apiKey } });
    if (!answer.ok) throw new Error(`GET ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  async command(program, args, options = {}) {
    const { stdout, stderr } = await run(program, args, { env: this.environment(), maxBuffer: 64 << 20, ...options });
    return stdout + stderr;
  }

  slipway(...args) {
    return this.command(binary, args);
  }

  kubectl(...args) {
    return this.command("kubectl", args);
  }

  async clone(repo) {
    const target = join(this.folder, `${repo.split("/")[1]}-${Date.now()}`);
    const address = this.url.replace("://", `://me:${this.credentials.apiKey}@`);
    await this.command("git", ["clone", "-q", `${address}/git/${repo}.git`, target]);
    return target;
  }

  async push(folder, message) {
    await this.command("git", ["-C", folder, "commit", "-q", "-am", message]);
    await this.command("git", ["-C", folder, "push", "-q"]);
    return (await this.command("git", ["-C", folder, "rev-parse", "HEAD"])).trim();
  }

  async builds() {
    return (await this.api("/api/workflow?limit=100")).workflows.docs;
  }

  async application(name = "demo") {
    const [row] = (await this.api(`/api/applications?name=${name}`)).applications;
    return row && this.api(`/api/applications/${row.runtime}/${row.namespace}/${row.name}`);
  }

  /** Reports Applications as the runtime does, with its key: numbers follow the clock in microseconds, of which this machine has one. */
  async report({ applications = [], removed = [] }) {
    const [{ name, version, cluster, ingressUrl }] = await this.api("/api/runtimes");
    const key = JSON.parse(readFileSync(join(this.folder, "data/agents.json"), "utf8")).runtime;
    const named = ({ namespace, name }) => ({ kind: "argoproj.io/Application", namespace, name });
    const sequence = Math.floor((performance.timeOrigin + performance.now()) * 1000);
    const entities = applications.map((app) => ({ ...named(app), body: app }));
    const answer = await fetch(`${this.url}/2.0/api/events`, {
      method: "POST",
      headers: { authorization: key, "content-type": "application/json" },
      body: JSON.stringify({ runtime: name, version, cluster, ingressUrl, sequence, entities, removed: removed.map(named) }),
    });
    if (answer.status !== 200) throw new Error(`the report was answered with ${answer.status}: ${await answer.text()}`);
  }

  async log(build) {
    const { steps } = await this.api(`/api/builds/${build}/logs`);
    return Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, Object.keys(step.logs).sort().map((key) => step.logs[key]).join("")]));
  }
}
