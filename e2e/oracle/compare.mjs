// Our GitOps engine beside upstream Argo CD: the same repositories, on one cluster, and every difference that users could see.
// usage: node e2e/oracle/compare.mjs SLIPWAY KUBECONFIG [SCENARIO…]
// PEER=SLIPWAY compares with another version of ours instead; KEEP=1 leaves everything there to look at.
// Prints a table of differences and succeeds when each of them is explained. What it makes are namespaces that begin with `peer-` and `ours-`, and it removes all that do.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Api } from "../../bench/api.mjs";
import { ours, peer } from "./engines.mjs";
import { whyOf } from "./explained.mjs";
import { Creations, objects } from "./objects.mjs";
import { Player } from "./play.mjs";
import { scenarios } from "./scenarios.mjs";
import { differences } from "./status.mjs";

const [slipway, kubeconfig, ...chosen] = process.argv.slice(2);
if (!kubeconfig) {
  console.error("usage: node e2e/oracle/compare.mjs SLIPWAY KUBECONFIG [SCENARIO…]");
  process.exit(2);
}
const unknown = chosen.filter((name) => !scenarios.some((one) => one.name === name));
if (unknown.length) {
  console.error(`there is no scenario ${unknown.join(", ")}; there are ${scenarios.map((one) => one.name).join(", ")}`);
  process.exit(2);
}
const AT_ONCE = 4;
const folder = mkdtempSync(join(tmpdir(), "slipway-oracle-"));
const cluster = new Api(resolve(kubeconfig), 16);
const engines = [];
const creations = new Creations();
const found = [];
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => {
    for (const engine of engines) engine.stop();
    process.exit(1);
  });
}

function note(scenario, step, list) {
  for (const difference of list) found.push({ scenario, step, ...difference, why: whyOf(scenario, difference) });
}

async function compared(player, scenario) {
  const began = Date.now();
  const { name, steps } = await player.play(scenario);
  for (const { what, missed, status } of steps) {
    for (const [who, why] of Object.entries(missed)) found.push({ scenario: name, step: what, path: "(the state that was waited for)", [who]: why });
    note(name, what, differences(status.peer, status.ours));
  }
  const space = (engine) => `${engine.prefix}-${name}`;
  const [theirs, own] = await Promise.all(engines.map((engine) => objects(cluster, space(engine), engine.prefix)));
  note(name, "the objects", differences(theirs, own));
  const [first, second] = engines.map((engine) => creations.order(space(engine), engine.prefix));
  if (first !== second) note(name, "the order", [{ path: "order of creation", peer: first, ours: second }]);
  const open = found.filter((one) => one.scenario === name && !one.why).length;
  const same = steps.reduce((sum, step) => sum + step.status.peer.size, 0) + theirs.size;
  console.error(`${name}: ${steps.length} steps, ${same} facts, ${open} unexplained differences, ${((Date.now() - began) / 1000).toFixed(0)} s`);
  return same;
}

const spaces = async () => JSON.parse(await cluster.call("GET", "/api/v1/namespaces")).items.map((one) => one.metadata.name).filter((one) => /^(peer|ours)-/.test(one));

async function released(path) {
  const { items } = JSON.parse(await cluster.call("GET", path).catch(() => '{"items": []}'));
  const bare = JSON.stringify({ metadata: { finalizers: null } });
  for (const { metadata } of items.filter((one) => one.metadata.finalizers)) {
    await cluster.call("PATCH", `${path}/${metadata.name}`, bare, "application/merge-patch+json").catch(() => {});
  }
}

// Also what a run left behind that was killed. Hooks and children hold on to themselves until an engine lets go of them.
async function removed() {
  const end = Date.now() + 120_000;
  for (let left = await spaces(); left.length; left = await spaces()) {
    if (Date.now() > end) throw new Error(`namespaces are still there after two minutes: ${left.join(", ")}`);
    for (const name of left) {
      await cluster.call("DELETE", `/api/v1/namespaces/${name}`).catch(() => {});
      await released(`/apis/argoproj.io/v1alpha1/namespaces/${name}/applications`);
      await released(`/apis/batch/v1/namespaces/${name}/jobs`);
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

const cell = (value) => (value === undefined ? "–" : String(value).replaceAll("\n", " ").replaceAll("|", "\\|").slice(0, 400));

let failed = true;
try {
  await removed();
  // Another version of ours in upstream's place; with the same one there must be no difference at all.
  const other = process.env.PEER;
  engines.push(await (other ? ours(cluster, resolve(kubeconfig), folder, resolve(other), "peer") : peer(cluster, resolve(kubeconfig), folder)));
  engines.push(await ours(cluster, resolve(kubeconfig), folder, resolve(slipway)));
  await creations.start(cluster);
  const player = new Player(cluster, engines, folder);
  const waiting = scenarios.filter((one) => !chosen.length || chosen.includes(one.name));
  const sizes = [];
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let scenario; (scenario = waiting.shift()); ) sizes.push(await compared(player, scenario));
    }),
  );
  console.log("| application | step | what | upstream | ours | why |\n|---|---|---|---|---|---|");
  for (const { scenario, step, path, peer: theirs, ours: own, why } of found) {
    console.log(`| ${[scenario, step, path, theirs, own, why ?? "**unexplained**"].map(cell).join(" | ")} |`);
  }
  const open = found.filter((one) => !one.why).length;
  const facts = sizes.reduce((sum, one) => sum + one, 0);
  console.log(`\n${facts} facts of upstream compared; ${found.length} differences, ${open} of them unexplained`);
  failed = open > 0;
} finally {
  creations.stop();
  for (const engine of engines) engine.stop();
  if (!process.env.KEEP) await removed().catch((error) => console.error(String(error)));
  if (process.env.KEEP) console.error(`logs and repositories are in ${folder}`);
  else rmSync(folder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
