// A Kubernetes API over keep-alive connections, as the benchmarks use it: bodies are counted, not parsed.
import { execFileSync } from "node:child_process";
import https from "node:https";

export class Api {
  constructor(kubeconfig, connections = 16) {
    const text = execFileSync("kubectl", ["--kubeconfig", kubeconfig, "config", "view", "--raw", "--minify", "--flatten", "-o", "json"]);
    const config = JSON.parse(text);
    const { server, "certificate-authority-data": ca } = config.clusters[0].cluster;
    const { "client-certificate-data": cert, "client-key-data": key, token } = config.users[0].user;
    const pem = (data) => data && Buffer.from(data, "base64");
    this.url = server;
    this.connections = connections;
    this.calls = 0;
    this.headers = token ? { authorization: `Bearer ${token}` } : {};
    this.agent = new https.Agent({ keepAlive: true, maxSockets: connections + 4, ca: pem(ca), cert: pem(cert), key: pem(key) });
  }

  call(method, path, body, type = "application/json") {
    this.calls++;
    return new Promise((done, fail) => {
      const headers = { ...this.headers, accept: "application/json" };
      if (body) Object.assign(headers, { "content-type": type, "content-length": Buffer.byteLength(body) });
      const request = https.request(this.url + path, { method, headers, agent: this.agent }, (answer) => {
        const parts = [];
        answer.on("data", (part) => parts.push(part));
        answer.on("error", fail);
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

  // Runs `work(0..total)` over all connections; gives calls per second.
  async rate(total, work) {
    let next = 0;
    const began = performance.now();
    const worker = async () => {
      while (next < total) await work(next++);
    };
    await Promise.all(Array.from({ length: this.connections }, worker));
    return total / ((performance.now() - began) / 1000);
  }
}

const payload = "x".repeat(1024);
export const configMap = (number, value) =>
  JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: `c${number}`, labels: { part: `p${number % 10}` } }, data: { value, payload } });
