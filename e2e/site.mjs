// A control plane and runners as processes of their own, each of which can be killed, started again, or cut off.
import { spawn, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { inherited, until } from "./platform.mjs";

const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");

// Everything that a runner and the server say to each other goes through here. It can be cut; `onUpstream` hears what
// the runner says.
export class Wire {
  constructor(target) {
    this.target = target;
    this.sockets = new Set();
    this.isCut = false;
  }

  async open() {
    this.listener = createServer((near) => {
      if (this.isCut) return near.destroy();
      const far = connect(this.target.port, this.target.hostname);
      for (const [from, to] of [[near, far], [far, near]]) {
        this.sockets.add(from);
        from.on("data", (part) => {
          // A cut wire carries nothing and says nothing: both ends wait, as behind a firewall that drops packets.
          if (this.isCut) return;
          if (from === near) this.onUpstream?.(part);
          to.write(part);
        });
        from.on("error", () => to.destroy());
        from.on("close", () => {
          this.sockets.delete(from);
          if (!this.isCut) to.end();
        });
      }
    });
    await new Promise((done) => this.listener.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${this.listener.address().port}`;
    return this.url;
  }

  cut() {
    this.isCut = true;
  }

  mend() {
    this.isCut = false;
    for (const socket of this.sockets) socket.destroy();
  }

  close() {
    this.isCut = false;
    for (const socket of this.sockets) socket.destroy();
    this.listener.close();
  }
}

export class Site {
  // Without `database` it has its own, a file of SQLite.
  constructor(extra = [], database = undefined) {
    this.database = database;
    this.folder = mkdtempSync(join(tmpdir(), "slipway-site-"));
    this.extra = extra;
    this.listen = "127.0.0.1:0";
    this.runners = new Map();
    this.stderr = "";
  }

  spawn(words, env = {}) {
    const { KUBECONFIG: _, ...rest } = inherited();
    const child = spawn(binary, words, { stdio: ["ignore", "pipe", "pipe"], env: { ...rest, HOME: this.folder, SLIPWAY_CONFIG: join(this.folder, "contexts.json"), ...env } });
    child.stderr.on("data", (text) => {
      this.stderr = (this.stderr + text).slice(-200_000);
      if (process.env.SLIPWAY_E2E_VERBOSE) process.stderr.write(text);
    });
    child.exited = new Promise((done) => child.once("exit", done));
    return child;
  }

  async start() {
    const data = join(this.folder, "server");
    mkdirSync(data, { recursive: true });
    this.server = this.spawn(["server", "--database", this.database ?? `sqlite:${data}`, "--data", data, "--listen", this.listen, "--output", "json", ...this.extra]);
    const line = await Promise.race([
      new Promise((done) => createInterface({ input: this.server.stdout }).once("line", done)),
      this.server.exited.then((code) => {
        throw new Error(`slipway server ended with ${code}: ${this.stderr}`);
      }),
    ]);
    const ready = JSON.parse(line);
    this.url = ready.url;
    this.listen = new URL(ready.url).host;
    this.credentials ??= ready;
    return ready;
  }

  // A runner of this name; `through` is the address that it dials.
  async runner(name, { through = this.url, capacity = 4, executor = "host", flags = [] } = {}) {
    const data = join(this.folder, `runner-${name}`);
    const known = this.runners.get(name);
    const token = known ? [] : ["--token", (await this.call("POST", "/api/runners", { name })).token];
    const child = this.spawn(["runner", "--server", through, ...token, "--data", data, "--executor", executor, "--capacity", `${capacity}`, ...flags]);
    this.runners.set(name, { child, data, options: { through, capacity, executor, flags } });
    return data;
  }

  // kill -9 of a runner; what it started goes on.
  async killRunner(name) {
    const { child } = this.runners.get(name);
    child.kill("SIGKILL");
    await child.exited;
  }

  async killServer() {
    this.server.kill("SIGKILL");
    await this.server.exited;
  }

  // Supervisors of steps that this site's runners have started.
  supervisors() {
    const found = [];
    for (const entry of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      try {
        const words = readFileSync(`/proc/${entry}/cmdline`, "utf8").split("\0");
        if (words.includes("supervise") && words.some((word) => word.startsWith(this.folder))) found.push(Number(entry));
      } catch {
        // It has ended meanwhile.
      }
    }
    return found;
  }

  async call(method, path, body) {
    const answer = await fetch(this.url + path, { method, headers: { authorization: this.credentials.apiKey, "content-type": "application/json" }, body: body && JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  // The same, while the server comes and goes.
  patiently(method, path, body) {
    return until(`${method} ${path}`, () => this.call(method, path, body), 120);
  }

  async log(build) {
    const { steps } = await this.patiently("GET", `/api/builds/${build}/logs`);
    return Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, Object.keys(step.logs).sort().map((key) => step.logs[key]).join("")]));
  }

  async remove() {
    for (const { child } of this.runners.values()) if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
    await Promise.all([...this.runners.values()].map(({ child }) => child.exited));
    for (const pid of this.supervisors()) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended meanwhile.
      }
    }
    if (this.server?.exitCode === null && this.server.signalCode === null) {
      this.server.kill("SIGTERM");
      await this.server.exited;
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

// Counts what steps say about themselves, from outside of everything that is killed: one line an attempt.
export class Witness {
  constructor() {
    this.lines = [];
  }

  async open() {
    this.listener = createServer((socket) => {
      socket.on("error", () => {});
      const said = createInterface({ input: socket });
      // A step that is killed cuts its line off, and the reader of lines tells that once more.
      said.on("error", () => {});
      said.on("line", (line) => {
        this.lines.push(line);
        // Only now does the step go on.
        socket.write("noted\n");
      });
    });
    await new Promise((done) => this.listener.listen(0, "127.0.0.1", done));
    this.port = this.listener.address().port;
  }

  // For a step's commands (shell: bash).
  command() {
    return `exec 3<>/dev/tcp/127.0.0.1/${this.port}; echo "$CF_BUILD_ID $CF_STEP_NAME $CF_CURRENT_ATTEMPT" >&3; read -r noted <&3; exec 3>&-`;
  }

  twice() {
    const seen = new Map();
    for (const line of this.lines) seen.set(line, (seen.get(line) ?? 0) + 1);
    return [...seen].filter(([, count]) => count > 1);
  }

  close() {
    this.listener.close();
  }
}

export const sh = (program, ...words) => execFileSync(program, words, { encoding: "utf8" });
