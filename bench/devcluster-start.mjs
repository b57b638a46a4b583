// What the embedded cluster costs: time to the first answer, memory, and a restart with many objects.
// usage: node bench/devcluster-start.mjs BINARY [OBJECTS=5000] [STARTS=5]     (BINARY is slipway)
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Api, configMap } from "./api.mjs";

const [binary, objects = "5000", starts = "5"] = process.argv.slice(2);
if (!binary) {
  console.error("usage: node bench/devcluster-start.mjs BINARY [OBJECTS] [STARTS]");
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), "slipway-bench-"));
const kubeconfig = join(folder, "kubeconfig");
const MAPS = "/api/v1/namespaces/default/configmaps";
let child, api;

// Gives the milliseconds from the start of the process to the first successful answer on `path`.
async function start(path) {
  const began = performance.now();
  child = spawn(binary, ["devcluster", "--data", join(folder, "data"), "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig], { stdio: "ignore" });
  // The client is made once the file is there; making it takes a process of its own, which is not the cluster's time.
  while (!existsSync(kubeconfig)) await new Promise((done) => setTimeout(done, 2));
  let aside = performance.now();
  api ??= new Api(kubeconfig);
  aside = performance.now() - aside;
  for (;;) {
    try {
      await api.call("GET", path);
      return performance.now() - began - aside;
    } catch {
      await new Promise((done) => setTimeout(done, 2));
    }
  }
}

async function kill() {
  child.kill("SIGKILL");
  await new Promise((done) => child.once("exit", done));
  api.agent.destroy();
}

const mebibytes = () => Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))[1]) / 1024);
const rest = (ms) => new Promise((done) => setTimeout(done, ms));
const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

const first = await start("/api/v1/namespaces");
await rest(3000);
const idle = mebibytes();
await api.rate(Number(objects), (n) => api.call("POST", MAPS, configMap(n, "1")));
await rest(1000);
const full = mebibytes();
const again = [];
for (let number = 0; number < Number(starts); number++) {
  await kill();
  again.push(await start(`${MAPS}?limit=1`));
}
await rest(1000);
console.log(`| new folder, start → first answer | ${Math.round(first)} ms |`);
console.log(`| idle RSS | ${idle} MiB |`);
console.log(`| RSS with ${objects} ConfigMaps of 1 KiB, as written | ${full} MiB |`);
console.log(`| kill -9, start with ${objects} objects → first list (median of ${starts}) | ${Math.round(median(again))} ms |`);
console.log(`| RSS after that start | ${mebibytes()} MiB |`);
await kill();
rmSync(folder, { recursive: true, force: true });
process.exit(0);
