// The API of the embedded cluster beside the real kube-apiserver, in one run: the same calls, in turns.
// usage: node bench/clusters.mjs EMBEDDED_KUBECONFIG REAL_KUBECONFIG [OBJECTS=2000] [ROUNDS=3]
// Prints a table of medians and the ratio embedded/real; above 1 the embedded one is faster.
import { execFileSync } from "node:child_process";
import https from "node:https";

const [embedded, real, objects = "2000", rounds = "3"] = process.argv.slice(2);
if (!real) {
  console.error("usage: node bench/clusters.mjs EMBEDDED_KUBECONFIG REAL_KUBECONFIG [OBJECTS] [ROUNDS]");
  process.exit(2);
}
const count = Number(objects);
const connections = 16;
const payload = "x".repeat(1024);

class Cluster {
  constructor(kubeconfig) {
    const text = execFileSync("kubectl", ["--kubeconfig", kubeconfig, "config", "view", "--raw", "--minify", "--flatten", "-o", "json"]);
    const config = JSON.parse(text);
    const { server, "certificate-authority-data": ca } = config.clusters[0].cluster;
    const { "client-certificate-data": cert, "client-key-data": key, token } = config.users[0].user;
    const pem = (data) => data && Buffer.from(data, "base64");
    this.url = server;
    this.headers = token ? { authorization: `Bearer ${token}` } : {};
    this.agent = new https.Agent({ keepAlive: true, maxSockets: connections + 4, ca: pem(ca), cert: pem(cert), key: pem(key) });
  }

  // The body is read whole and counted, not parsed: the client must not be what is measured.
  call(method, path, body, type = "application/json") {
    return new Promise((done, fail) => {
      const headers = { ...this.headers, accept: "application/json" };
      if (body) Object.assign(headers, { "content-type": type, "content-length": Buffer.byteLength(body) });
      const request = https.request(this.url + path, { method, headers, agent: this.agent }, (answer) => {
        const parts = [];
        answer.on("data", (part) => parts.push(part));
        answer.on("end", () => {
          const text = Buffer.concat(parts);
          if (answer.statusCode >= 300) fail(new Error(`${method} ${path}: ${answer.statusCode} ${text}`));
          else done(text);
        });
      });
      request.on("error", fail);
      request.end(body);
    });
  }

  // Calls `seen` for each line of a watch; gives what ends it.
  watch(path, seen) {
    return new Promise((started, fail) => {
      const request = https.request(this.url + path, { headers: this.headers, agent: this.agent }, (answer) => {
        let rest = "";
        answer.on("data", (part) => {
          const lines = (rest + part).split("\n");
          rest = lines.pop();
          lines.forEach(seen);
        });
        answer.on("error", () => {});
        started(() => request.destroy());
      });
      request.on("error", fail);
      request.end();
    });
  }
}

// Runs `work(0..total)` over a fixed number of connections; gives calls per second.
async function rate(total, work) {
  let next = 0;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (next < total) await work(next++);
    }),
  );
  return total / ((performance.now() - began) / 1000);
}

const object = (number, value) =>
  JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: `c${number}`, labels: { part: `p${number % 10}` } }, data: { value, payload } });

async function round(cluster, number) {
  const namespace = `bench-${Date.now().toString(36)}-${number}`;
  await cluster.call("POST", "/api/v1/namespaces", JSON.stringify({ metadata: { name: namespace } }));
  const maps = `/api/v1/namespaces/${namespace}/configmaps`;
  const apply = (n, value) =>
    cluster.call("PATCH", `${maps}/c${n}?fieldManager=bench&force=true`, object(n, value), "application/apply-patch+yaml");
  const figures = {};
  figures["create/s"] = await rate(count, (n) => cluster.call("POST", maps, object(n, "1")));
  figures["apply, changed/s"] = await rate(count, (n) => apply(n, "2"));
  figures["apply, unchanged/s"] = await rate(count, (n) => apply(n, "2"));
  figures["get/s"] = await rate(count, (n) => cluster.call("GET", `${maps}/c${n}`));
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
  await rate(count, (n) => apply(n, "3"));
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
const clusters = { embedded: new Cluster(embedded), real: new Cluster(real) };
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
