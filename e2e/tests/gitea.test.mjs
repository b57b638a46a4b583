// A push to a real Gitea, built on a real Kubernetes by a runner in a network of its own that nobody can dial: webhook,
// image in a registry, status of the commit in Gitea, and the log followed by the published CLI. And the other half of the
// way: a push to a repository of manifests in Gitea is deployed by the runtime at once, without any polling; and a person
// declares an Application there on the page.
// usage: SLIPWAY_BIN=… node --test e2e/tests/gitea.test.mjs     (NAME=… for another cluster than `test`)
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openBrowser, signIn } from "../browser.mjs";
import { Platform, until } from "../platform.mjs";
import { Site } from "../site.mjs";

const scripts = resolve(import.meta.dirname, "../../scripts");
const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const published = resolve(import.meta.dirname, "../node_modules/codefresh/lib/interface/cli/codefresh");
const cluster = { ...process.env, NAME: process.env.NAME ?? "test" };
const folder = mkdtempSync(join(tmpdir(), "slipway-gitea-"));
const builder = "localhost/slipway-runner-buildah:1";
const namespace = `slipway-gitea-${process.pid}`;
// A network for the runner: one wire to this machine, which is `host` on it.
const slot = 1 + (process.pid % 250);
const [net, link, host, inside] = [`slipway-walk-${process.pid}`, `slw${process.pid % 10_000_000}`, `10.247.${slot}.1`, `10.247.${slot}.2`];
const site = new Site(["--egress-allow", host]);
let kubeconfig, registry, gitea, owner, runner;

const sh = (command, options = {}) => execFileSync("sh", ["-ec", command], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], ...options });
const last = (text) => text.trim().split("\n").at(-1);
const kubectl = (...words) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

async function forge(method, path, body) {
  const authorization = `Basic ${Buffer.from(owner).toString("base64")}`;
  const answer = await fetch(`${gitea}/api/v1${path}`, { method, headers: { authorization, "content-type": "application/json" }, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
}

const freePort = () =>
  new Promise((done) => {
    const server = createServer().listen(0, () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

// Out of it everything may be dialled, into it nothing.
function makeNetwork() {
  sh(`
    ip netns add ${net}
    ip link add ${link} type veth peer name up0 netns ${net}
    ip address add ${host}/24 dev ${link}
    ip link set ${link} up
    nsenter --net=/run/netns/${net} sh -ec '
      ip link set lo up; ip address add ${inside}/24 dev up0; ip link set up0 up; ip route add default via ${host}
      iptables -A INPUT -i lo -j ACCEPT
      iptables -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
      iptables -P INPUT DROP'
  `);
}

async function startGitea() {
  const place = join(folder, "gitea");
  const port = await freePort();
  execFileSync(join(scripts, "gitea.sh"), ["build"], { stdio: ["ignore", "ignore", "inherit"] });
  execFileSync(join(scripts, "gitea.sh"), ["configure", place, `${port}`]);
  gitea = `http://${host}:${port}`;
  const settings = readFileSync(join(place, "app.ini"), "utf8");
  writeFileSync(join(place, "app.ini"), settings.replace(/^HTTP_ADDR = .*$/m, "HTTP_ADDR = 0.0.0.0").replace(/^ROOT_URL = .*$/m, `ROOT_URL = ${gitea}/`));
  execFileSync(join(scripts, "gitea.sh"), ["start", place, `${port}`], { stdio: ["ignore", "ignore", "inherit"] });
  owner = readFileSync(join(place, "administrator"), "utf8").trim().replace(" ", ":");
}

// buildah of this machine, so that no registry is needed for it.
function makeBuilder() {
  const root = join(folder, "builder");
  mkdirSync(root);
  const program = `
    mkdir -p bin etc/containers tmp proc dev sys root var/tmp run usr/bin
    for program in buildah busybox newuidmap newgidmap; do
      path=$(command -v $program) || continue
      cp -L "$path" "bin/$program"
      { ldd "$path" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
        mkdir -p ".$(dirname "$library")" && cp -L "$library" ".$library"
      done
    done
    for applet in sh mkdir cat echo test rm ls id; do ln -s busybox bin/$applet; done
    cp /etc/containers/policy.json etc/containers/
    echo 'unqualified-search-registries = []' > etc/containers/registries.conf
    echo 'root:x:0:0:root:/root:/bin/sh' > etc/passwd; echo 'root:x:0:' > etc/group
    echo 'root:1:65535' > etc/subuid; echo 'root:1:65535' > etc/subgid
    echo 'hosts: files dns' > etc/nsswitch.conf
    chmod 1777 tmp var/tmp`;
  sh(program, { cwd: root });
  execFileSync(join(scripts, "kube.sh"), ["image", root, builder, "/bin/sh"], { env: cluster, stdio: ["ignore", "ignore", "inherit"] });
}

// The published command line, in a home of its own.
function codefresh(...words) {
  const { CF_URL: _, CF_API_KEY: __, ...rest } = process.env;
  const env = { ...rest, HOME: join(folder, "home"), DISABLE_VERSION_CHECK: "true", NO_COLOR: "1" };
  mkdirSync(env.HOME, { recursive: true });
  return new Promise((done, failed) => {
    const child = spawn(process.execPath, [published, ...words], { env, cwd: env.HOME, stdio: ["ignore", "pipe", "pipe"], timeout: 300_000 });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (part) => (text += part));
    child.on("close", (code) => (code === 0 ? done(text) : failed(new Error(`codefresh ${words.join(" ")}: ${code}\n${text}`))));
  });
}

before(async () => {
  kubeconfig = last(execFileSync(join(scripts, "kube.sh"), ["up"], { encoding: "utf8", env: cluster, stdio: ["ignore", "pipe", "inherit"] }));
  registry = last(execFileSync(join(scripts, "kube.sh"), ["registry"], { encoding: "utf8", env: cluster, stdio: ["ignore", "pipe", "inherit"] }));
  kubectl("create", "namespace", namespace);
  makeBuilder();
  makeNetwork();
  await startGitea();
  site.listen = "0.0.0.0:0";
  await site.start();
  const { port } = new URL(site.url);
  site.url = `http://127.0.0.1:${port}`;
  const { token } = await site.call("POST", "/api/runners", { name: "behind" });
  const words = ["runner", "--server", `http://${host}:${port}`, "--plain-http", "--token", token, "--data", join(folder, "runner"), "--executor", "kubernetes", "--kubeconfig", kubeconfig];
  words.push("--namespace", namespace, "--builder-image", builder, "--registry", registry, "--insecure-registry", registry);
  runner = spawn("nsenter", [`--net=/run/netns/${net}`, binary, ...words], { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, HOME: folder } });
  runner.said = "";
  runner.stderr.on("data", (part) => (runner.said = (runner.said + part).slice(-20_000)));
});

after(async () => {
  runner?.kill("SIGKILL");
  spawnSync(join(scripts, "gitea.sh"), ["stop", join(folder, "gitea")]);
  spawnSync("ip", ["netns", "delete", net]);
  spawnSync("ip", ["link", "delete", link]);
  if (kubeconfig) spawnSync("kubectl", ["--kubeconfig", kubeconfig, "delete", "namespace", namespace, "--wait=false"], { stdio: "ignore" });
  await site.remove();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

test("nobody dials the runner's network", async () => {
  const listener = spawn("nsenter", [`--net=/run/netns/${net}`, process.execPath, "-e", 'require("node:net").createServer((s) => s.end()).listen(9000, "0.0.0.0", () => console.log("listens"))'], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    await new Promise((done) => listener.stdout.once("data", done));
    const reached = await new Promise((done) => {
      const socket = connect({ host: inside, port: 9000, timeout: 3_000 });
      socket.on("connect", () => done(true)).on("timeout", () => done(false)).on("error", () => done(false));
    });
    assert.equal(reached, false);
    const from = spawnSync("nsenter", [`--net=/run/netns/${net}`, "curl", "-fsS", "-o", "/dev/null", "-w", "%{http_code}", `${gitea}/api/healthz`], { encoding: "utf8" });
    assert.equal(from.stdout, "200", from.stderr);
  } finally {
    listener.kill("SIGKILL");
  }
});

test("a push to Gitea becomes an image in the registry, and Gitea and the published CLI hear of it", { timeout: 600_000 }, async () => {
  const [name] = owner.split(":");
  await forge("POST", "/user/repos", { name: "app", auto_init: true, default_branch: "main" });
  const { sha1: token } = await forge("POST", `/users/${name}/tokens`, { name: "slipway", scopes: ["write:repository", "read:user"] });
  const data = { auth: { type: "basic", password: token, apiHost: gitea } };
  await site.call("POST", "/api/contexts", { metadata: { name: "forge" }, spec: { type: "git.gitea", data } });
  const trigger = { name: "push", type: "git", repo: `${name}/app`, context: "forge", events: ["push.heads"], commitStatusTitle: "slipway/walk" };
  const steps = {
    main_clone: { type: "git-clone", repo: `${name}/app`, git: "forge", revision: "${{CF_REVISION}}" },
    tool: { image: "localhost/slipway-test:1", working_directory: "${{main_clone}}", commands: ["cp /bin/busybox ."] },
    build: { type: "build", image_name: "walk/app", tag: "${{CF_SHORT_REVISION}}", working_directory: "${{main_clone}}" },
    use: { image: "localhost:5000/walk/app:${{CF_SHORT_REVISION}}" },
  };
  await site.call("POST", "/api/pipelines", { version: "1.0", kind: "pipeline", metadata: { name: "walk/build" }, spec: { triggers: [trigger], steps } });
  await until("the webhook is registered", async () => {
    const [hook] = await site.call("GET", "/api/hooks");
    assert.ok(hook?.registered, JSON.stringify(hook));
    return true;
  }, 60);

  const dockerfile = 'FROM scratch\nCOPY busybox /bin/busybox\nRUN ["/bin/busybox", "sh", "-c", "/bin/busybox echo pushed to Gitea > /made"]\nENTRYPOINT ["/bin/busybox", "cat", "/made"]\n';
  const made = await forge("POST", `/repos/${name}/app/contents/Dockerfile`, { content: Buffer.from(dockerfile).toString("base64"), message: "An image", branch: "main" });
  const { sha } = made.commit;
  const build = await until("the build", async () => {
    const { workflows } = await site.call("GET", `/api/workflow?limit=1&revision=${sha}`);
    assert.ok(workflows.docs.length, "it is not there yet");
    return workflows.docs[0].id;
  }, 60);

  await codefresh("auth", "create-context", "here", "--api-key", site.credentials.apiKey, "--url", site.url);
  const followed = await codefresh("logs", build, "-f");
  const explain = async () => `${followed}\n${JSON.stringify(await site.log(build), null, 1)}\n${runner.said}`;
  assert.match(followed, /pushed to Gitea/, await explain());
  const ended = await until("its end", async () => {
    const seen = await site.call("GET", `/api/builds/${build}`);
    assert.ok(["success", "error", "terminated"].includes(seen.status), seen.status);
    return seen;
  }, 120);
  assert.deepEqual([ended.status, ended.executor, ended.runner], ["success", "kubernetes", "behind"], await explain());

  const { tags } = await (await fetch(`http://${registry}/v2/walk/app/tags/list`)).json();
  assert.deepEqual(tags.filter((tag) => sha.startsWith(tag)).length, 1, `${tags}`);
  await until("Gitea knows", async () => {
    const all = await forge("GET", `/repos/${name}/app/commits/${sha}/statuses`);
    const states = all.filter(({ context }) => context === "slipway/walk").map(({ status }) => status);
    assert.ok(states.includes("success"), `${states}`);
    return true;
  }, 60);
});

test("a push of manifests to Gitea is deployed without polling, until it is Healthy", { timeout: 300_000 }, async () => {
  const [name] = owner.split(":");
  const platform = new Platform(["--egress-allow", host]);
  try {
    await platform.start();
    const call = async (path, body) => {
      const answer = await fetch(platform.url + path, { method: "POST", headers: { authorization: platform.credentials.apiKey, "content-type": "application/json" }, body: JSON.stringify(body) });
      assert.ok(answer.ok, `POST ${path}: ${answer.status} ${await answer.clone().text()}`);
      return answer.json();
    };
    const apply = async (object) => {
      const file = join(folder, `${object.kind}.json`);
      writeFileSync(file, JSON.stringify(object));
      await platform.kubectl("apply", "-f", file);
    };
    // Nothing is polled: whatever arrives, the webhook brought it.
    await apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "argocd-cm", namespace: "argocd" }, data: { "timeout.reconciliation": "0s" } });
    await forge("POST", "/user/repos", { name: "deploy", auto_init: true, default_branch: "main" });
    const { sha1: token } = await forge("POST", `/users/${name}/tokens`, { name: "deploy", scopes: ["write:repository", "read:user"] });
    const data = { auth: { type: "basic", password: token, apiHost: gitea } };
    await call("/api/contexts", { metadata: { name: "forge" }, spec: { type: "git.gitea", data } });
    const trigger = { name: "push", type: "git", repo: `${name}/deploy`, context: "forge", events: ["push.heads"], branchRegex: "/^never$/" };
    await call("/api/pipelines", { version: "1.0", kind: "pipeline", metadata: { name: "walk/deploy" }, spec: { triggers: [trigger], steps: { say: { image: "busybox", commands: ["true"] } } } });
    await until("the webhook is registered", async () => (await platform.api("/api/hooks"))[0]?.registered, 60);

    const manifest = (value) => Buffer.from(`apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-gitea}\ndata: {value: "${value}"}\n`).toString("base64");
    const first = await forge("POST", `/repos/${name}/deploy/contents/app/map.yaml`, { content: manifest("one"), message: "The first", branch: "main" });
    await apply({
      apiVersion: "argoproj.io/v1alpha1",
      kind: "Application",
      metadata: { name: "from-gitea", namespace: "argocd" },
      spec: {
        project: "default",
        source: { repoURL: `${gitea}/${name}/deploy.git`, targetRevision: "main", path: "app" },
        destination: { server: "https://kubernetes.default.svc", namespace: "from-gitea" },
        syncPolicy: { automated: {}, syncOptions: ["CreateNamespace=true"] },
      },
    });
    const healthy = (sha) =>
      until(`Healthy at ${sha}`, async () => {
        const app = await platform.application("from-gitea");
        assert.deepEqual([app?.syncStatus, app?.healthStatus, app?.revision?.sha], ["Synced", "Healthy", sha], app?.summary);
        return true;
      }, 90);
    await healthy(first.commit.sha);
    const second = await forge("PUT", `/repos/${name}/deploy/contents/app/map.yaml`, { content: manifest("two"), message: "The second", branch: "main", sha: first.content.sha });
    await healthy(second.commit.sha);
    assert.equal((await platform.kubectl("-n", "from-gitea", "get", "configmap", "from-gitea", "-o", "jsonpath={.data.value}")).trim(), "two");
    await declareOnThePage(platform, apply, token);
  } finally {
    await platform.remove();
  }
});

// A person writes an Application on the page: looked at by the runtime, committed as they are, synced because an Application syncs the folder.
async function declareOnThePage(platform, apply, token) {
  const [name] = owner.split(":");
  const repoURL = `${gitea}/${name}/deploy.git`;
  const labels = { "argocd.argoproj.io/secret-type": "repository" };
  await apply({ apiVersion: "v1", kind: "Secret", metadata: { name: "deploy", namespace: "argocd", labels }, stringData: { url: repoURL } });
  await forge("POST", `/repos/${name}/deploy/contents/apps/README.md`, { content: Buffer.from("Applications\n").toString("base64"), message: "A folder", branch: "main" });
  await apply({
    apiVersion: "argoproj.io/v1alpha1",
    kind: "Application",
    metadata: { name: "apps", namespace: "argocd" },
    spec: {
      project: "default",
      source: { repoURL, targetRevision: "main", path: "apps" },
      destination: { server: "https://kubernetes.default.svc", namespace: "argocd" },
      syncPolicy: { automated: { prune: true, allowEmpty: true } },
    },
  });
  const { browser, page, errors } = await openBrowser();
  try {
    await signIn(page, platform);
    const field = (label) => page.getByRole("textbox", { name: label, exact: true }).or(page.getByRole("combobox", { name: label, exact: true }));
    const [{ name: runtime }] = await platform.api("/api/runtimes");
    await page.goto(`${platform.url}/runtimes/${runtime}/git`);
    await page.getByRole("button", { name: "Give a token" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Git provider").selectOption("gitea");
    await dialog.getByLabel("Address").fill(gitea);
    await dialog.getByLabel("Token", { exact: true }).fill(token);
    await dialog.getByRole("button", { name: "Give", exact: true }).click();
    await page.getByRole("cell", { name: `Gitea at ${gitea}` }).waitFor();

    await page.goto(`${platform.url}/applications`);
    await page.getByRole("link", { name: "New application" }).first().click();
    await field("Name").fill("by-hand");
    await field("Repository URL").fill(repoURL);
    await field("Path").fill("nowhere");
    await field("Namespace").fill("by-hand");
    // The list is what the token sees; a choice fills the field.
    await field("Repository").click();
    await page.getByRole("option", { name: `${name}/deploy` }).click();
    const commits = async () => (await forge("GET", `/repos/${name}/deploy/commits?sha=main`)).length;
    const before = await commits();
    await page.getByRole("button", { name: "Commit", exact: true }).click();
    await page.getByText("Nothing was committed:").waitFor();
    await page.getByText("is not in the repository").first().waitFor();
    assert.equal(await commits(), before);
    await field("Path").fill("app");
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.getByText("Nothing is wrong with it; nothing was committed.").waitFor();
    assert.equal(await commits(), before);
    await page.getByRole("button", { name: "Commit", exact: true }).click();
    await page.getByText("argocd/apps was asked to look at it at once.").waitFor();
    await page.getByRole("link", { name: "by-hand", exact: true }).click();
    await page.getByRole("heading", { name: "by-hand", level: 1 }).waitFor();
    await until("it is deployed", async () => (await platform.application("by-hand"))?.healthStatus === "Healthy", 90);
    assert.equal((await platform.kubectl("-n", "by-hand", "get", "configmap", "from-gitea", "-o", "jsonpath={.data.value}")).trim(), "two");
    const [last] = await forge("GET", `/repos/${name}/deploy/commits?sha=main&path=apps/by-hand.yaml`);
    assert.equal(last.author.login, name);

    await page.getByRole("button", { name: "Delete from Git" }).click();
    await dialog.getByRole("combobox", { name: "Repository", exact: true }).fill(`${name}/deploy`);
    await dialog.getByRole("button", { name: "Check", exact: true }).click();
    await dialog.getByText("What it deployed stays: it has no resources-finalizer.").waitFor();
    await dialog.getByRole("button", { name: "Delete", exact: true }).click();
    await dialog.getByText("Deleted by").waitFor();
    await until("it is gone", async () => !(await platform.application("by-hand")), 90);
    assert.equal((await platform.kubectl("-n", "by-hand", "get", "configmap", "from-gitea", "-o", "jsonpath={.data.value}")).trim(), "two");
    assert.deepEqual(errors, []);
  } finally {
    await browser.close();
  }
}
