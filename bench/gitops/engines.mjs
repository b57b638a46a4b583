// The engines that bench/gitops.mjs measures: ours, and upstream Argo CD with its defaults and tuned.
// In: a cluster, a folder, a namespace for Applications. Out: {name, pids, stop}. Does not know: what is measured.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, openSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const scripts = resolve(dirname(fileURLToPath(import.meta.url)), "../../scripts");
const quiet = ["ignore", "ignore", "inherit"];

function ours({ slipway, kubeconfig, folder, control }) {
  const tools = execFileSync(join(scripts, "kube.sh"), ["tools", "helm", "kustomize"], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const words = ["engine", "gitops", "--kubeconfig", kubeconfig, "--namespace", control, "--data", join(folder, "data"), "--allow-local-repositories", "--alone"];
  for (const tool of tools.trim().split("\n")) words.push("--tools", dirname(tool));
  mkdirSync(folder, { recursive: true });
  const log = openSync(join(folder, "engine.log"), "a");
  const engine = spawn(slipway, words, { stdio: ["ignore", log, log], env: { ...process.env, RUST_LOG: "warn" } });
  const ended = new Promise((done) => engine.on("exit", done));
  return {
    pids: () => [engine.pid],
    stop: async () => {
      engine.kill("SIGKILL");
      await ended;
    },
  };
}

function upstream({ kubeconfig, folder, control }, flags, environment = {}) {
  const home = join(folder, "argocd");
  const env = { ...process.env, FLAGS: `--loglevel warn ${flags}`, REPO_FLAGS: "--loglevel warn", ...environment };
  execFileSync(join(scripts, "argocd.sh"), ["up", home, kubeconfig, control], { env, stdio: quiet });
  const pids = readdirSync(join(home, "run")).map((name) => Number(readFileSync(join(home, "run", name), "utf8").split(" ")[0]));
  return { pids: () => pids, stop: async () => execFileSync(join(scripts, "argocd.sh"), ["down", home]) };
}

// As its own documentation advises for a thousand Applications, and without its client's limit of calls.
const TUNED_FLAGS = "--status-processors 50 --operation-processors 25 --kubectl-parallelism-limit 50";
const TUNED = { ARGOCD_K8S_CLIENT_QPS: "1000", ARGOCD_K8S_CLIENT_BURST: "2000", ARGOCD_GIT_REQUEST_TIMEOUT: "60s" };

export const engines = {
  ours,
  upstream: (place) => upstream(place, ""),
  tuned: (place) => upstream(place, TUNED_FLAGS, TUNED),
};

/** What the kernel says of processes and of their children that have ended: processor time, and the sum of each one's peak. */
export function usage(pids) {
  let [cpu, mib] = [0, 0];
  for (const pid of pids) {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
    cpu += [11, 12, 13, 14].map((field) => Number(stat[field])).reduce((a, b) => a + b) / 100;
    mib += Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
  }
  return { cpu, mib };
}
