// The two engines that are compared, each with a namespace for its Applications: upstream by scripts/argocd.sh, ours by `slipway engine gitops`.
// In: a cluster and a folder. Out: {prefix, control, stop}. Does not know: what they are asked to do.
import { execFileSync, spawn } from "node:child_process";
import { openSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const scripts = resolve(dirname(fileURLToPath(import.meta.url)), "../../scripts");

async function made(cluster, name) {
  await cluster.call("POST", "/api/v1/namespaces", JSON.stringify({ metadata: { name } })).catch((error) => {
    if (!String(error).includes(" 409 ")) throw error;
  });
}

/** Upstream: health of objects is kept in the status, as in ours, so that it can be compared. */
export async function peer(cluster, kubeconfig, folder, flags = "--persist-resource-health --loglevel warn") {
  const control = "peer-control";
  await made(cluster, control);
  const home = join(folder, "peer");
  const environment = { ...process.env, FLAGS: flags, REPO_FLAGS: "--loglevel warn" };
  execFileSync(join(scripts, "argocd.sh"), ["up", home, kubeconfig, control], { env: environment, stdio: ["ignore", "ignore", "inherit"] });
  return { prefix: "peer", control, stop: () => execFileSync(join(scripts, "argocd.sh"), ["down", home]) };
}

export async function ours(cluster, kubeconfig, folder, slipway, prefix = "ours") {
  const control = `${prefix}-control`;
  await made(cluster, control);
  const tools = execFileSync(join(scripts, "kube.sh"), ["tools", "helm", "kustomize", "jsonnet"], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const log = openSync(join(folder, `${prefix}.log`), "a");
  const words = ["engine", "gitops", "--kubeconfig", kubeconfig, "--namespace", control, "--data", join(folder, prefix), "--allow-local-repositories", "--alone"];
  for (const tool of tools.trim().split("\n")) words.push("--tools", dirname(tool));
  const process_ = spawn(slipway, words, { stdio: ["ignore", log, log], env: { RUST_LOG: "warn", ...process.env } });
  process_.on("exit", (code) => code !== null && console.error(`our engine ended with ${code}; its log is ${join(folder, `${prefix}.log`)}`));
  const end = Date.now() + 60_000;
  while (!(await cluster.call("GET", `/apis/argoproj.io/v1alpha1/namespaces/${control}/applications`).catch(() => undefined))) {
    if (Date.now() > end) throw new Error(`the definitions are not there after 60 s; see ${join(folder, `${prefix}.log`)}`);
    await new Promise((done) => setTimeout(done, 200));
  }
  return { prefix, control, stop: () => process_.kill("SIGKILL") };
}
