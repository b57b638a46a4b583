// What the platform costs while nothing happens: time to ready, memory at rest, size of the binary; targets beside. With KUBECONFIG, of a real
// Kubernetes, also what a runtime costs that is connected to a platform and looks after that cluster.
// usage: [KUBECONFIG=…] node bench/idle.mjs BINARY [SECONDS_AT_REST=20]     (BINARY is slipway, a release build for figures that count)
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [binary, seconds = "20"] = process.argv.slice(2);
if (!binary) {
  console.error("usage: node bench/idle.mjs BINARY [SECONDS_AT_REST]");
  process.exit(2);
}
const READY_MS = 2000;
const RESIDENT_MIB = 60;
const RUNTIME_RESIDENT_MIB = 60;
const RUNTIME_CORE_PERCENT = 0.5;

/** Starts `slipway up`; gives the process and the milliseconds until it said that it is ready. */
function start(data, options) {
  return new Promise((done, fail) => {
    const began = performance.now();
    const listen = ["--listen", "127.0.0.1:0", "--output", "json"];
    const child = spawn(binary, ["up", "--data", data, ...listen, ...options], { stdio: ["ignore", "pipe", "inherit"] });
    child.once("exit", (code) => fail(new Error(`slipway up ended with ${code}`)));
    child.stdout.once("data", (line) => done({ child, readyMs: performance.now() - began, url: JSON.parse(line).url }));
  });
}

function stop(child) {
  child.removeAllListeners("exit");
  child.kill("SIGTERM");
  return new Promise((done) => child.once("exit", done));
}

function memory(child) {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  const kib = (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1]);
  const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1].split(" ");
  return { resident: kib("VmRSS") / 1024, peak: kib("VmHWM") / 1024, anonymous: kib("RssAnon") / 1024, ticks: Number(stat[11]) + Number(stat[12]) };
}

const rest = (ms) => new Promise((done) => setTimeout(done, ms));
let missed = 0;
function row(what, value, unit, most) {
  const held = most === undefined || value <= most;
  if (!held) missed += 1;
  const target = most === undefined ? "" : `≤ ${most} ${unit}${held ? "" : ", missed"}`;
  console.log(`| ${what} | ${Math.round(value * 10) / 10} ${unit} | ${target} |`);
}

/** A platform and a runtime of its own beside a cluster; both processes, when the runtime's tunnel is open. */
async function connected(folder, kubeconfig) {
  const listen = ["--listen", "127.0.0.1:0", "--output", "json"];
  const environment = { PATH: process.env.PATH, HOME: folder, SLIPWAY_CONFIG: join(folder, "contexts.json") };
  const server = spawn(binary, ["server", "--data", join(folder, "platform"), ...listen], { stdio: ["ignore", "pipe", "ignore"], env: environment });
  const { url, apiKey } = JSON.parse(await new Promise((done) => server.stdout.once("data", done)));
  const asked = { ...environment, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey };
  const slipway = (...words) => execFileSync(binary, words, { env: asked, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const token = slipway("runtime", "create", "idle").trim();
  const began = performance.now();
  const options = ["--server", url, "--kubeconfig", kubeconfig, "--namespace", `idle-${process.pid}`, "--data", join(folder, "runtime")];
  const runtime = spawn(binary, ["runtime", ...options], { stdio: ["ignore", "ignore", "ignore"], env: { ...environment, SLIPWAY_TOKEN: token } });
  const end = Date.now() + 60_000;
  while (JSON.parse(slipway("runtime", "get", "idle", "-o", "json")).tunnels !== 1) {
    if (Date.now() > end) throw new Error("the runtime is not online after 60 s");
    await rest(100);
  }
  return { server, runtime, onlineMs: performance.now() - began };
}

console.log("| what | seen | target |\n|---|---|---|");
const folder = mkdtempSync(join(tmpdir(), "slipway-idle-"));
try {
  const data = join(folder, "data");
  const first = await start(data, ["--no-demo"]);
  row("first start → ready", first.readyMs, "ms", READY_MS);
  await rest(Number(seconds) * 1000);
  const before = memory(first.child);
  await rest(5000);
  const after = memory(first.child);
  row(`resident after ${Number(seconds) + 5} s at rest`, after.resident, "MiB", RESIDENT_MIB);
  row("of it private to the process", after.anonymous, "MiB");
  row("most it ever was", after.peak, "MiB");
  row("processor time while at rest", (after.ticks - before.ticks) / 5, "% of a core");
  await stop(first.child);
  const second = await start(data, ["--no-demo"]);
  row("second start → ready", second.readyMs, "ms", READY_MS);
  await stop(second.child);
  if (process.env.KUBECONFIG) {
    const { server, runtime, onlineMs } = await connected(folder, process.env.KUBECONFIG);
    row("a runtime beside a real Kubernetes: start → online by its tunnel", onlineMs, "ms");
    await rest(Number(seconds) * 1000);
    const early = memory(runtime);
    // Half a percent is three ticks in six seconds: it takes a while to see.
    await rest(30_000);
    const late = memory(runtime);
    row(`its resident memory after ${Number(seconds) + 30} s at rest`, late.resident, "MiB", RUNTIME_RESIDENT_MIB);
    row("of it private to the process", late.anonymous, "MiB");
    row("its processor time while at rest", (late.ticks - early.ticks) / 30, "% of a core", RUNTIME_CORE_PERCENT);
    await stop(runtime);
    await stop(server);
    const cluster = ["--kubeconfig", process.env.KUBECONFIG, "delete", "namespace", `idle-${process.pid}`, "--wait=false", "--ignore-not-found"];
    execFileSync("kubectl", cluster, { stdio: "ignore" });
  }
  row("size of the binary", statSync(binary).size / 2 ** 20, "MiB");
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(missed === 0 ? 0 : 1);
