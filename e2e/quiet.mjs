// Chromium in a network of its own, where no address comes or goes: it drops whatever it is loading when one of the machine does (ERR_NETWORK_CHANGED), and containers of other tests bring and take them.
// In: the program to start. Out: what playwright launches in its place, and its arguments. All that the pages ask for leaves through one socket file, to a proxy in this process.
// Does not know: what is asked for. The proxy reaches what this machine reaches, as the browser would without it.
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PORT = 3128;
// With loopback alone a browser says that it is offline. Nothing is behind the pair, and no address of it comes late.
const NETWORK = [
  "link set lo up",
  "link add up0 type veth peer name up1",
  "link set up0 addrgenmode none",
  "link set up1 addrgenmode none",
  "addr add 192.0.2.1/24 dev up0",
  "link set up1 up",
  "link set up0 up",
];
const quote = (word) => `'${word.replaceAll("'", `'\\''`)}'`;

export async function quiet(program) {
  const folder = mkdtempSync(join(tmpdir(), "quiet-"));
  const socket = join(folder, "proxy");
  const proxy = await listen(proxyServer(), socket);
  const executablePath = join(folder, "chromium");
  const apart = ["unshare", "--net", ...(process.getuid() === 0 ? [] : ["--map-root-user"]), process.execPath, fileURLToPath(import.meta.url), socket, program];
  writeFileSync(executablePath, `#!/bin/sh\nexec ${apart.map(quote).join(" ")} "$@"\n`);
  chmodSync(executablePath, 0o700);
  // Loopback goes through the proxy too.
  const args = [`--proxy-server=http://127.0.0.1:${PORT}`, "--proxy-bypass-list=<-loopback>"];
  const close = () => {
    proxy.close();
    proxy.closeAllConnections();
    rmSync(folder, { recursive: true, force: true });
  };
  return { executablePath, args, close };
}

function listen(server, where) {
  return new Promise((done, failed) => server.once("error", failed).listen(where, () => done(server)));
}

// What one side ends or breaks, the other one hears of.
function joined(one, other) {
  one.pipe(other).pipe(one);
  for (const [side, far] of [
    [one, other],
    [other, one],
  ]) {
    side.on("error", () => far.destroy());
    side.on("close", () => far.destroy());
  }
}

function proxyServer() {
  const server = http.createServer((request, response) => {
    const { hostname, port, pathname, search } = new URL(request.url);
    const headers = { ...request.headers };
    delete headers["proxy-connection"];
    const onward = http.request({ hostname, port, path: pathname + search, method: request.method, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode, answer.statusMessage, answer.rawHeaders);
      // A stream of events begins before its first event.
      response.flushHeaders();
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    request.pipe(onward);
  });
  server.on("connect", (request, socket, head) => {
    const { hostname, port } = new URL(`http://${request.url}`);
    const onward = net.connect(Number(port || 80), hostname, () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      onward.write(head);
      joined(socket, onward);
    });
    onward.on("error", () => socket.destroy());
  });
  return server;
}

// As a program, inside: what comes to the port goes to the socket file, and Chromium runs for as long as this does.
async function inside(socket, program, words) {
  for (const line of NETWORK) {
    const done = spawnSync("ip", line.split(" "), { encoding: "utf8" });
    if (done.status !== 0) throw new Error(`ip ${line}: ${done.stderr ?? done.error}`);
  }
  const server = net.createServer((near) => joined(near, net.connect(socket)));
  await new Promise((done, failed) => server.once("error", failed).listen(PORT, "127.0.0.1", done));
  // Playwright speaks through descriptors 3 and 4.
  const child = spawn(program, words, { stdio: [0, 1, 2, 3, 4] });
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code) => process.exit(code ?? 1));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [socket, program, ...words] = process.argv.slice(2);
  await inside(socket, program, words);
}
