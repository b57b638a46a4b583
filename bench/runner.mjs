// From a queued build to its first line of log with an idle runner on the host executor; and, with a kubeconfig, what a
// step costs on Kubernetes beside a bare pod of the same image in the same run.
// usage: node bench/runner.mjs SLIPWAY [KUBECONFIG] [--builds N] [--image IMAGE]
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Api } from "./api.mjs";

const [slipway, kubeconfig] = process.argv.slice(2).filter((word, at, all) => !word.startsWith("--") && !all[at - 1]?.startsWith("--"));
const option = (name, usual) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? usual : process.argv[at + 1];
};
const builds = Number(option("--builds", 50));
const image = option("--image", "localhost/slipway-test:1");
const folder = mkdtempSync(join(tmpdir(), "slipway-bench-"));
const processes = [];

const start = (words, env = {}) => {
  const child = spawn(slipway, words, { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, SLIPWAY_CONFIG: join(folder, "config.json"), ...env } });
  processes.push(child);
  return child;
};
const percentile = (times, share) => times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))];
const shown = (times) => `p50 ${percentile(times, 0.5).toFixed(0)} ms, p90 ${percentile(times, 0.9).toFixed(0)} ms, ${times.length} times`;

async function ready() {
  const child = start(["up", "--no-demo", "--executor", "host", "--listen", "127.0.0.1:0", "--data", join(folder, "up"), "--output", "json"]);
  for await (const part of child.stdout) {
    const line = String(part).split("\n").find((text) => text.startsWith("{"));
    if (line) return JSON.parse(line);
  }
  throw new Error("slipway up ended before it was ready");
}

const { url, apiKey } = await ready();
const call = async (method, path, body) => {
  const answer = await fetch(url + path, { method, headers: { authorization: apiKey, "content-type": "application/json" }, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
};
const pipeline = (name, steps) =>
  call("POST", "/api/pipelines", { version: "1.0", kind: "pipeline", metadata: { name }, spec: { steps } });
const run = (name) => call("POST", `/api/pipelines/run/${encodeURIComponent(name)}`, {});

// The moment at which a viewer has the first line that a step of the build printed.
async function firstLine(id, step) {
  const answer = await fetch(`${url}/api/builds/${id}/logs/stream`, { headers: { authorization: apiKey } });
  let text = "";
  for await (const part of answer.body) {
    text += Buffer.from(part).toString();
    if (text.includes("first-line-of-the-step")) return performance.now();
  }
  throw new Error(`build ${id} ended without its first line: ${text.slice(-500)} (${step})`);
}
async function ended(id) {
  for (;;) {
    const build = await call("GET", `/api/builds/${id}`);
    if (["success", "error", "terminated"].includes(build.status)) return build;
    await new Promise((done) => setTimeout(done, 50));
  }
}

try {
  await pipeline("bench/first", { say: { image, commands: ["echo first-line-of-the-step"] } });
  const times = [];
  for (let number = 0; number < builds + 3; number++) {
    const began = performance.now();
    const id = await run("bench/first");
    const at = await firstLine(id, "say");
    if (number >= 3) times.push(at - began);
    await ended(id);
  }
  console.log(`run asked for -> first line of its step at the viewer, idle host runner: ${shown(times)}`);

  if (kubeconfig) {
    const token = execFileSync(slipway, ["runner", "token", "bench"], { env: { ...process.env, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey } }).toString().trim();
    const namespace = "slipway-bench";
    const kubectl = (...words) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, ...words]).toString();
    try { kubectl("create", "namespace", namespace); } catch { /* it is there */ }
    // The runner of `up` may take a build too; its steps are skipped there and counted nowhere.
    start(["runner", "--server", url, "--token", token, "--data", join(folder, "runner"), "--executor", "kubernetes", "--kubeconfig", kubeconfig, "--namespace", namespace, "--capacity", "1"]);
    const api = new Api(kubeconfig);
    // One bare pod between each two steps' worth of builds: the machine is as loaded for one as for the other.
    const bare = [];
    const bareOnce = async () => {
      const name = `bare-${process.pid}-${bare.length}`;
      const pod = { apiVersion: "v1", kind: "Pod", metadata: { name }, spec: { restartPolicy: "Never", automountServiceAccountToken: false, containers: [{ name: "c", image, imagePullPolicy: "IfNotPresent", command: ["true"] }] } };
      const began = performance.now();
      await api.call("POST", `/api/v1/namespaces/${namespace}/pods`, JSON.stringify(pod));
      for (;;) {
        const phase = JSON.parse(await api.call("GET", `/api/v1/namespaces/${namespace}/pods/${name}`)).status.phase;
        if (phase === "Succeeded") break;
        await new Promise((done) => setTimeout(done, 20));
      }
      bare.push(performance.now() - began);
      await api.call("DELETE", `/api/v1/namespaces/${namespace}/pods/${name}`);
    };
    const steps = Object.fromEntries(Array.from({ length: 4 }, (_, at) => [`s${at}`, { image, commands: ["true"], when: { condition: { all: { here: '"${{SLIPWAY_EXECUTOR}}" == "kubernetes"' } } } }]));
    await pipeline("bench/steps", steps);
    const each = [];
    while (each.length < 24) {
      for (let number = 0; number < 4; number++) await bareOnce();
      const build = await ended(await run("bench/steps"));
      for (const step of build.steps ?? []) {
        if (step.status === "success" && step.started && step.finished && step.name.startsWith("s")) each.push(Date.parse(step.finished) - Date.parse(step.started));
      }
    }
    console.log(`a bare pod, from its creation to its end: ${shown(bare)}`);
    console.log(`a step on Kubernetes, from its start to its end: ${shown(each)}`);
    console.log(`overhead of a step beside a bare pod: ${(percentile(each, 0.5) - percentile(bare, 0.5)).toFixed(0)} ms, ${(percentile(each, 0.5) / percentile(bare, 0.5)).toFixed(2)} times`);
  }
} finally {
  for (const child of processes) child.kill("SIGTERM");
  await new Promise((done) => setTimeout(done, 1500));
  rmSync(folder, { recursive: true, force: true });
}
