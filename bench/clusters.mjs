// The API of the embedded cluster beside the real kube-apiserver, in one run: the same calls, in turns.
// usage: node bench/clusters.mjs EMBEDDED_KUBECONFIG REAL_KUBECONFIG [OBJECTS=2000] [ROUNDS=3]
// Prints a table of medians and the ratio embedded/real; above 1 the embedded one is faster.
import { Api, configMap } from "./api.mjs";

const [embedded, real, objects = "2000", rounds = "3"] = process.argv.slice(2);
if (!real) {
  console.error("usage: node bench/clusters.mjs EMBEDDED_KUBECONFIG REAL_KUBECONFIG [OBJECTS] [ROUNDS]");
  process.exit(2);
}
const count = Number(objects);
const connections = 16;

async function round(cluster, number) {
  const namespace = `bench-${Date.now().toString(36)}-${number}`;
  await cluster.call("POST", "/api/v1/namespaces", JSON.stringify({ metadata: { name: namespace } }));
  const maps = `/api/v1/namespaces/${namespace}/configmaps`;
  const apply = (n, value) =>
    cluster.call("PATCH", `${maps}/c${n}?fieldManager=bench&force=true`, configMap(n, value), "application/apply-patch+yaml");
  const figures = {};
  figures["create/s"] = await cluster.rate(count, (n) => cluster.call("POST", maps, configMap(n, "1")));
  figures["apply, changed/s"] = await cluster.rate(count, (n) => apply(n, "2"));
  figures["apply, unchanged/s"] = await cluster.rate(count, (n) => apply(n, "2"));
  figures["get/s"] = await cluster.rate(count, (n) => cluster.call("GET", `${maps}/c${n}`));
  let began = performance.now();
  for (let list = 0; list < 10; list++) await cluster.call("GET", maps);
  figures["list, objects/s"] = (10 * count) / ((performance.now() - began) / 1000);
  began = performance.now();
  for (let list = 0; list < 10; list++) await cluster.call("GET", `${maps}?labelSelector=part%3Dp3`);
  figures["list by label, lists/s"] = 10 / ((performance.now() - began) / 1000);

  const { metadata } = JSON.parse(await cluster.call("GET", `${maps}?limit=1`));
  let events = 0;
  let arrived;
  const all = new Promise((done) => (arrived = done));
  const end = await cluster.watch(`${maps}?watch=true&resourceVersion=${metadata.resourceVersion}`, (line) => {
    if (line && ++events === count) arrived();
  });
  began = performance.now();
  await cluster.rate(count, (n) => apply(n, "3"));
  await all;
  figures["watched changes/s"] = count / ((performance.now() - began) / 1000);
  end();
  began = performance.now();
  await cluster.call("DELETE", maps);
  figures["delete collection, objects/s"] = count / ((performance.now() - began) / 1000);
  await cluster.call("DELETE", `/api/v1/namespaces/${namespace}`);
  return figures;
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const clusters = { embedded: new Api(embedded, connections), real: new Api(real, connections) };
const seen = { embedded: {}, real: {} };
for (let number = 0; number < Number(rounds); number++) {
  for (const [name, cluster] of Object.entries(clusters)) {
    for (const [what, figure] of Object.entries(await round(cluster, number))) (seen[name][what] ??= []).push(figure);
  }
}
console.log(`${count} ConfigMaps of 1 KiB, ${connections} connections, median of ${rounds} rounds\n`);
console.log("| | embedded | kube-apiserver | ratio |\n|---|---|---|---|");
for (const what of Object.keys(seen.real)) {
  const [ours, theirs] = [median(seen.embedded[what]), median(seen.real[what])];
  console.log(`| ${what} | ${Math.round(ours)} | ${Math.round(theirs)} | ${(ours / theirs).toFixed(2)} |`);
}
process.exit(0);
