// A runtime without a tunnel: installed from its chart in a real cluster, behind a real controller (Traefik), as an Ingress, as a route of
// the Gateway API, and by an address of somebody's own. People use it through the controller, with TLS; its external host is for webhooks alone.
// usage: SLIPWAY_BIN=… node --test e2e/tests/ingress.test.mjs
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { inherited, until } from "../platform.mjs";

const run = promisify(execFile);
const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const scripts = resolve(import.meta.dirname, "../../scripts");
const folder = mkdtempSync(join(tmpdir(), "slipway-ingress-"));
const cluster = { ...process.env, NAME: process.env.NAME ?? "test" };
const [tag, name] = [`e2e-${process.pid}`, `slipway-ingress-${process.pid}`];
const [inner, hooks, own, nobody] = ["runtime", "hooks", "own", "nobody"].map((word) => `${word}.slipway.test`);
const [ca, hosts] = [join(folder, "ca.pem"), join(folder, "hosts")];
const secret = "hook-secret";
let kubeconfig, server, traefik, url, inside, apiKey, port;

const sh = (...words) => execFileSync(join(scripts, "kube.sh"), words, { encoding: "utf8", env: cluster, stdio: ["ignore", "pipe", "inherit"] }).trim().split("\n").at(-1);
const kubectl = (...words) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, "--namespace", name, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const given = (text) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, "--namespace", name, "apply", "--server-side", "--filename", "-"], { encoding: "utf8", input: text, stdio: ["pipe", "pipe", "pipe"] });
const freePort = () => new Promise((done) => {
  const listening = createServer().listen(0, "127.0.0.1", () => {
    const { port } = listening.address();
    listening.close(() => done(port));
  });
});

// People find the controller by name, as a DNS of the company would have it: with a file of hosts of their own.
const person = ["--mount", "sh", "-c", `mount --bind ${hosts} /etc/hosts && exec "$@"`, "sh", binary];
const environment = () => {
  const { KUBECONFIG: _, ...rest } = inherited();
  return { ...rest, HOME: folder, SLIPWAY_CONFIG: join(folder, "contexts.json"), SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey, SSL_CERT_FILE: ca };
};
const slipway = async (...words) => (await run("unshare", [...person, ...words], { env: environment(), timeout: 300_000 })).stdout;
const seen = async () => JSON.parse(await slipway("runtime", "get", "edge", "-o", "json"));
const app = async () => JSON.parse(await slipway("app", "get", "shop", "-o", "json"));

// What stands behind the controller for this host: status, headers and body.
async function ask(host, path, ...more) {
  const { stdout } = await run("curl", ["--silent", "--include", "--max-time", "10", "--cacert", ca, "--resolve", `${host}:${port}:127.0.0.1`, ...more, `https://${host}:${port}${path}`]);
  const [head, ...body] = stdout.split("\r\n\r\n");
  return { status: Number(/^HTTP\/\S+ (\d+)/.exec(head)[1]), head: head.toLowerCase(), body: body.join("\r\n\r\n") };
}

function certificates() {
  const openssl = (...words) => execFileSync("openssl", words, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=Slipway test authority", "-keyout", "ca.key", "-out", "ca.pem");
  openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", `/CN=${inner}`, "-keyout", "tls.key", "-out", "tls.csr");
  writeFileSync(join(folder, "san"), `subjectAltName=${[inner, hooks, own].map((host) => `DNS:${host}`).join(",")}\n`);
  openssl("x509", "-req", "-in", "tls.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "san", "-out", "tls.crt");
}

// The controller, beside the cluster: it watches Ingresses and routes there, and reaches pods as everything on this machine does.
async function controller() {
  let ping;
  [port, ping] = [await freePort(), await freePort()];
  const words = [
    "--global.checknewversion=false", "--global.sendanonymoususage=false", "--log.level=INFO",
    `--entrypoints.websecure.address=127.0.0.1:${port}`, "--entrypoints.websecure.http.tls=true",
    `--entrypoints.ping.address=127.0.0.1:${ping}`, "--ping=true", "--ping.entrypoint=ping",
    "--providers.kubernetesingress=true", `--providers.kubernetesingress.ingressclass=${name}`, `--providers.kubernetesingress.namespaces=${name}`,
    "--providers.kubernetesgateway=true", `--providers.kubernetesgateway.namespaces=${name}`,
  ];
  traefik = spawn(sh("tools", "traefik"), words, { env: { PATH: process.env.PATH, HOME: folder, KUBECONFIG: kubeconfig }, stdio: ["ignore", "pipe", "pipe"] });
  traefik.said = "";
  for (const stream of [traefik.stdout, traefik.stderr]) stream.on("data", (part) => (traefik.said = (traefik.said + part).slice(-20_000)));
  await until("the controller answers", () => fetch(`http://127.0.0.1:${ping}/ping`).then((answer) => answer.ok));
}

before(async () => {
  kubeconfig = sh("up");
  chmodSync(folder, 0o755);
  const tree = join(folder, "root");
  execFileSync(join(scripts, "image.sh"), ["root", binary, tree], { env: cluster, stdio: ["ignore", "ignore", "inherit"] });
  sh("image", tree, `localhost/slipway-ingress:${tag}`, "/usr/bin/slipway");
  rmSync(tree, { recursive: true, force: true });
  const host = /server: https:\/\/([^:]+):/.exec(readFileSync(kubeconfig, "utf8"))[1];
  const at = await freePort();
  [url, inside] = [`http://127.0.0.1:${at}`, `http://${host}:${at}`];
  server = spawn(binary, ["server", "--data", join(folder, "data"), "--listen", `0.0.0.0:${at}`, "--public-url", inside, "--output", "json"], { env: { ...inherited(), HOME: folder }, stdio: ["ignore", "pipe", "pipe"] });
  server.said = "";
  server.stderr.on("data", (part) => (server.said = (server.said + part).slice(-20_000)));
  ({ apiKey } = JSON.parse(await new Promise((done) => createInterface({ input: server.stdout }).once("line", done))));

  certificates();
  writeFileSync(hosts, `127.0.0.1 localhost ${[inner, hooks, own, nobody].join(" ")}\n`);
  execFileSync("kubectl", ["--kubeconfig", kubeconfig, "create", "namespace", name]);
  kubectl("create", "secret", "tls", "edge-tls", "--cert", join(folder, "tls.crt"), "--key", join(folder, "tls.key"));
  execFileSync("kubectl", ["--kubeconfig", kubeconfig, "apply", "--server-side", "--filename", sh("tools", "gateway-api")], { stdio: ["ignore", "ignore", "pipe"] });
  given(`apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: { name: ${name} }\nspec: { controller: traefik.io/ingress-controller }\n`);
  await controller();
});

after(() => {
  traefik?.kill("SIGKILL");
  server?.kill("SIGKILL");
  if (kubeconfig) {
    const remove = (...words) => spawnSync("kubectl", ["--kubeconfig", kubeconfig, "delete", "--ignore-not-found", "--wait=false", ...words], { stdio: "ignore" });
    // Nobody is left who would look after them.
    spawnSync("kubectl", ["--kubeconfig", kubeconfig, "--namespace", name, "patch", "application", "shop", "--type", "merge", "--patch", '{"metadata":{"finalizers":null}}'], { stdio: "ignore" });
    remove("namespace", name);
    for (const kind of ["ingressclass", "gatewayclass"]) remove(kind, name);
    for (const kind of ["clusterrole", "clusterrolebinding"]) remove(kind, "--selector", "app.kubernetes.io/instance=edge");
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

// What a person and a Git provider do by a way that the controller offers.
async function works(host) {
  const internal = await until("the controller leads to the runtime", async () => {
    const answer = await ask(host, "/readyz");
    return answer.status === 200 && answer;
  });
  assert.equal(internal.body.trim(), "ready");
  const now = await seen();
  assert.deepEqual([now.state, now.url, now.tunnels], ["online", `https://${host}:${port}`, 0]);
  // Who shows no pass is told so by the app-proxy itself, and the platform's pages may read it.
  const path = `/app-proxy/api/applications/${name}/shop/diff`;
  const without = await ask(host, path, "--header", `origin: ${inside}`);
  assert.equal(without.status, 401, without.body);
  assert.match(without.head, new RegExp(`access-control-allow-origin: ${inside}\\r?$`, "m"));
  assert.doesNotMatch((await ask(host, path, "--header", "origin: https://evil.test")).head, /access-control-allow-origin/);
  // The external host refuses the app-proxy, whatever is sent, and takes webhooks: believed by their signature, and by nothing else.
  for (const external of [path, "/app-proxy/", "/app-proxy/api/git/git-tokens"]) {
    const refused = await ask(hooks, external, "--header", "authorization: Bearer pass.anything", "--header", `x-forwarded-host: ${host}`);
    assert.deepEqual([refused.status, JSON.parse(refused.body).name], [403, "INTERNAL_ONLY"], refused.body);
  }
  const push = JSON.stringify({ ref: "refs/heads/main", before: "0".repeat(40), after: "1".repeat(40), repository: { html_url: `${inside}/git/shop/deploy`, clone_url: `${inside}/git/shop/deploy.git`, full_name: "shop/deploy", default_branch: "main" }, commits: [] });
  const hook = (signature) => ask(hooks, "/webhooks/git", "--request", "POST", "--header", "content-type: application/json", "--header", "x-gogs-event: push", "--header", `x-gogs-signature: ${signature}`, "--data", push);
  assert.equal((await hook(createHmac("sha256", secret).update(push).digest("hex"))).status, 200);
  const forged = await hook("0".repeat(64));
  assert.ok(forged.status >= 400 && forged.status < 500, `${forged.status} ${forged.body}`);
  // Nobody else's host leads there.
  assert.equal((await ask(nobody, "/readyz", "--insecure")).status, 404);

  // A person: plans, syncs, follows a log, runs a command.
  await slipway("app", "refresh", "shop");
  assert.match(await slipway("app", "plan", "shop"), /./);
  await slipway("app", "sync", "shop", "--wait");
  await until("the pod is reported", async () => /Pod\/talker +Synced, Healthy/.test(await slipway("app", "tree", "shop")));
  const following = spawn("unshare", [...person, "app", "logs", "shop", "--name", "talker", "--tail", "1", "-f"], { env: environment(), stdio: ["ignore", "pipe", "pipe"] });
  let heard = "";
  for (const stream of [following.stdout, following.stderr]) stream.on("data", (text) => (heard += text));
  await until("what is printed later comes", () => heard.split("tick").length > 4 || Promise.reject(new Error(heard)));
  following.kill("SIGTERM");
  assert.match(await slipway("app", "exec", "shop", "--", "sh", "-c", "echo from inside; cat /proc/1/comm"), /^from inside\nsh\n$/);
}

test("what the tests need is there: a repository, a project, an Application", { timeout: 60_000 }, async () => {
  await slipway("repo", "create", "shop/deploy");
  const work = join(folder, "work");
  const git = (...words) => execFileSync("git", words, { cwd: work, env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_AUTHOR_NAME: "Ada", GIT_AUTHOR_EMAIL: "ada@example.com", GIT_COMMITTER_NAME: "Ada", GIT_COMMITTER_EMAIL: "ada@example.com" }, stdio: ["ignore", "pipe", "pipe"] });
  execFileSync("git", ["init", "--quiet", "--initial-branch", "main", work]);
  writeFileSync(join(work, "talker.yaml"), `apiVersion: v1
kind: Pod
metadata: { name: talker }
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - { name: main, image: "localhost/slipway-test:1", imagePullPolicy: Never, command: [sh, -c, "n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.3; done"] }
`);
  git("add", ".");
  git("commit", "--quiet", "--message", "A talker");
  git("push", "--quiet", `${url.replace("://", `://me:${apiKey}@`)}/git/shop/deploy.git`, "main");
});

test("a runtime is installed with an Ingress, and people and webhooks use it through the controller", { timeout: 300_000 }, async (t) => {
  const address = `https://${inner}:${port}`;
  const install = ["runtime", "install", "edge", "--kubeconfig", kubeconfig, "--namespace", name, "--server", inside, "--plain-http", "--image", "localhost/slipway-ingress", "--version", tag, "--set", "image.pullPolicy=Never"];
  const way = ["--access-mode", "ingress", "--ingress-host", address, "--ingress-class", name, "--external-host", hooks, "--set", "access.ingress.tlsSecret=edge-tls"];
  const began = Date.now();
  await slipway(...install, ...way);
  t.diagnostic(`installed in ${((Date.now() - began) / 1000).toFixed(1)} s`);
  given(`apiVersion: v1
kind: Secret
metadata: { name: git-host, labels: { argocd.argoproj.io/secret-type: repo-creds } }
stringData: { type: git, url: "${inside}/git/", username: me, password: "${apiKey}" }
---
apiVersion: v1
kind: Secret
metadata: { name: argocd-secret, labels: { app.kubernetes.io/part-of: argocd } }
stringData: { webhook.gogs.secret: ${secret} }
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: { name: default }
spec: { sourceRepos: ["*"], destinations: [{ namespace: "*", server: "*" }] }
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: { name: shop }
spec:
  project: default
  source: { repoURL: "${inside}/git/shop/deploy.git", targetRevision: main, path: . }
  destination: { server: "https://kubernetes.default.svc", namespace: ${name} }
`);
  await until("the Application is reported", async () => (await app()).name === "shop");
  await works(inner);
});

test("the same by the Gateway API; the Ingress is gone", { timeout: 300_000 }, async () => {
  given(`apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: ${name} }
spec: { controllerName: traefik.io/gateway-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: edge }
spec:
  gatewayClassName: ${name}
  listeners:
    - { name: https, protocol: HTTPS, port: ${port}, tls: { certificateRefs: [{ name: edge-tls }] } }
`);
  await slipway("runtime", "upgrade", "edge", "--kubeconfig", kubeconfig, "--namespace", name, "--set", "access.mode=gateway", "--set", "access.gateway.name=edge", "--set", "access.gateway.sectionName=https");
  assert.equal(kubectl("get", "ingresses", "--output", "name"), "");
  await until("the Gateway has taken the route", () => /"type":"Accepted"/.test(kubectl("get", "httproutes", "--output", "json").replaceAll(/\s/g, "")));
  await works(inner);
});

test("the same by an address of somebody's own, to which nothing of the chart leads", { timeout: 300_000 }, async () => {
  const address = `https://${own}:${port}`;
  // The upgrade tells the platform where it is from now on: people need not do so besides.
  await slipway("runtime", "upgrade", "edge", "--kubeconfig", kubeconfig, "--namespace", name, "--wait-timeout", "2m", "--set", "access.mode=url", "--set", `access.url=${address}`);
  assert.equal(kubectl("get", "ingresses,httproutes", "--output", "name"), "");
  await until("nothing leads there by the old name", async () => (await ask(inner, "/readyz")).status === 404);
  const service = kubectl("get", "services", "--selector", "app.kubernetes.io/instance=edge", "--output", "jsonpath={.items[0].metadata.name}");
  const rule = (host) => `{ host: ${host}, http: { paths: [{ path: /, pathType: Prefix, backend: { service: { name: ${service}, port: { name: http } } } }] } }`;
  given(`apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { name: of-our-own }\nspec: { ingressClassName: ${name}, tls: [{ secretName: edge-tls, hosts: [${own}, ${hooks}] }], rules: [${rule(own)}, ${rule(hooks)}] }\n`);
  await works(own);
});

test("when the runtime is away the controller says so, and it is told as what it is", { timeout: 120_000 }, async () => {
  kubectl("scale", "deployment", "--selector", "app.kubernetes.io/instance=edge", "--replicas=0");
  await until("the controller has nobody to ask", async () => {
    const answer = await ask(own, "/readyz");
    return answer.status === 503 || Promise.reject(new Error(`${answer.status} ${answer.body}`));
  });
  await assert.rejects(slipway("app", "plan", "shop"), /503|own\.slipway\.test/);
});
