// What stays with a runner and what leaves it: a marker in each kind of thing, a build by a real runner over a wire that
// is recorded, and a look into everything that the control plane has: database, folders, its own log, the wire.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createServer as createTcp } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../platform.mjs";
import { Site, Wire } from "../site.mjs";

const folder = mkdtempSync(join(tmpdir(), "slipway-residency-"));
const site = new Site();
// Each end has its own: what the server gives (variables, inline text) is its own already.
let wire;
let git;
let database;

// A Git provider that the control plane cannot even reach: it knows the address and nothing more.
function gitServer(root) {
  return createHttp((request, answer) => {
    const url = new URL(request.url, "http://git");
    const cgi = spawn("git", ["http-backend"], {
      env: { ...process.env, GIT_PROJECT_ROOT: root, GIT_HTTP_EXPORT_ALL: "1", PATH_INFO: url.pathname, QUERY_STRING: url.search.slice(1), REQUEST_METHOD: request.method, CONTENT_TYPE: request.headers["content-type"] ?? "", HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "", GIT_PROTOCOL: request.headers["git-protocol"] ?? "" },
      stdio: ["pipe", "pipe", "ignore"],
    });
    request.pipe(cgi.stdin);
    cgi.stdin.on("error", () => {});
    const parts = [];
    cgi.stdout.on("data", (part) => parts.push(part));
    cgi.on("close", () => {
      const all = Buffer.concat(parts);
      const split = all.indexOf("\r\n\r\n");
      for (const line of all.subarray(0, split).toString().split("\r\n")) {
        const [name, value] = line.split(": ");
        if (name === "Status") answer.statusCode = Number.parseInt(value);
        else if (value) answer.setHeader(name, value);
      }
      answer.end(all.subarray(split + 4));
    });
  });
}
const listening = async (server) => {
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return server.address().port;
};
const run = (cwd, ...words) =>
  execFileSync(words[0], words.slice(1), { cwd, env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_AUTHOR_NAME: "Ada", GIT_AUTHOR_EMAIL: "ada@example.com", GIT_COMMITTER_NAME: "Ada", GIT_COMMITTER_EMAIL: "ada@example.com" } });

function files(path) {
  return readdirSync(path, { recursive: true }).map((name) => join(path, name)).filter((name) => statSync(name, { throwIfNoEntry: false })?.isFile());
}
// Where the control plane has a marker, in any of the ways in which it would be readable.
function found(marker) {
  const forms = [marker, Buffer.from(marker).toString("base64").replace(/=+$/, ""), Buffer.from(marker).toString("hex")];
  const places = [];
  const look = (name, bytes) => {
    if (forms.some((form) => bytes.includes(form))) places.push(name);
  };
  for (const name of files(join(site.folder, "server"))) look(`file ${name.slice(site.folder.length)}`, readFileSync(name));
  look("the server's log", Buffer.from(site.serverLog));
  look("the wire", Buffer.concat(wire.upstream));
  return places;
}

before(async () => {
  database = createTcp((socket) => socket.on("error", () => {}).end("row-canary-7f\n"));
  const port = await listening(database);
  const work = join(folder, "work");
  mkdirSync(work);
  const files = {
    "source.txt": "source-canary-7f\n",
    "deploy/manifest.yaml": "kind: ConfigMap # manifest-canary-7f\n",
    "chart/Chart.yaml": "name: chart-canary-7f\n",
    "main.tf": "# terraform-canary-7f\n",
    Dockerfile: "FROM scratch\nCOPY layer.txt /layer.txt\nLABEL x=dockerfile-canary-7f\n",
    "layer.txt": "image-canary-7f\n",
    "report.xml": '<testsuite><testcase name="allowed-case-canary-7f"><failure message="failure-canary-7f">trace-canary-7f</failure></testcase></testsuite>\n',
    "pipeline.yml": `# yaml-canary-7f
version: '1.0'
steps:
  main_clone: {type: git-clone, repo: 'REPO', revision: main, working_directory: /codefresh/volume}
  work:
    title: allowed-title-canary-7f
    image: none
    shell: bash
    working_directory: \${{main_clone}}
    environment: ['OWN=environment-canary-7f', 'SLIPWAY_JUNIT=out.xml']
    commands:
      - cat source.txt > artifact.txt; echo artifact-$(printf canary-7f) > built.bin; cp report.xml out.xml
      - 'exec 3<>/dev/tcp/127.0.0.1/${port}; cat <&3 > rows.txt; test -s rows.txt'
      - 'echo volume-$(printf canary-7f) > /codefresh/volume/kept.txt'
      - 'cf_export EXPORTED=exported-$(printf canary-7f)'
      - 'echo "printed $SECRET"; echo allowed-log-$(printf canary-7f)'
`,
  };
  run(work, "git", "init", "-q", "-b", "main", ".");
  const bare = join(folder, "git/team/app.git");
  mkdirSync(bare, { recursive: true });
  run(bare, "git", "init", "-q", "--bare", "-b", "main", ".");
  git = gitServer(join(folder, "git"));
  const address = `http://127.0.0.1:${await listening(git)}/team/app.git`;
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(work, name, ".."), { recursive: true });
    writeFileSync(join(work, name), text.replaceAll("REPO", address));
  }
  run(work, "git", "add", "-A");
  run(work, "git", "commit", "-qm", "First");
  run(work, "git", "push", "-q", bare, "main");
  site.address = address;
  site.serverLog = "";
  const { url } = await site.start();
  site.server.stderr.on("data", (text) => (site.serverLog += text));
  wire = new Wire({ hostname: "127.0.0.1", port: new URL(url).port });
  wire.upstream = [];
  wire.onUpstream = (part) => wire.upstream.push(part);
  await wire.open();
});
after(async () => {
  wire?.close();
  git?.close();
  database?.close();
  await site.remove();
  rmSync(folder, { recursive: true, force: true });
});

async function build(name, spec) {
  await site.call("POST", "/api/pipelines", { version: "1.0", kind: "pipeline", metadata: { name }, spec });
  const id = await site.call("POST", `/api/pipelines/run/${encodeURIComponent(name)}`, {});
  return until(`${name} ends`, async () => {
    const now = await site.call("GET", `/api/builds/${id}`);
    if (!["success", "error", "terminated"].includes(now.status)) throw new Error(JSON.stringify(now));
    return now;
  }, 120);
}

test("source, artifacts, volumes, files, results and rows stay; logs, names and states leave", { timeout: 300_000 }, async () => {
  const data = await site.runner("inside", { through: wire.url });
  const variables = [{ key: "SECRET", value: "secret-canary-7f", encrypted: true }];
  const done = await build("stay/home", { variables, specTemplate: { location: "git", repo: site.address, path: "pipeline.yml", revision: "main" } });
  const log = await site.log(done.id);
  assert.equal(done.status, "success", JSON.stringify([done, log]));
  const kept = ["source", "manifest", "chart", "terraform", "dockerfile", "image", "yaml", "environment", "failure", "trace", "artifact", "row", "volume", "exported", "secret"];
  for (const word of kept) assert.deepEqual(found(`${word}-canary-7f`), [], `${word} left the runner`);
  // A test that finds nothing anywhere would prove nothing: these are allowed to leave, and did.
  for (const word of ["allowed-log", "allowed-title", "allowed-case"]) {
    const places = found(`${word}-canary-7f`).join(", ");
    assert.match(places, /the wire/, word);
    assert.match(places, /file .*slipway\.db/, word);
  }
  assert.match(log.work, /printed \*\*\*\*\*/);
  // And the markers were really there, where they belong.
  const inside = files(data).map((name) => readFileSync(name)).filter((bytes) => bytes.includes("volume-canary-7f"));
  assert.ok(inside.length > 0, "the volume is the runner's");
});

test("an image and its layers stay", { timeout: 300_000 }, async (context) => {
  const has = spawnSync("podman", ["info"], { stdio: "ignore" }).status === 0;
  if (!has && !process.env.CI) return context.skip("podman is not installed");
  await site.killRunner("inside");
  await site.runner("images", { through: wire.url, executor: "podman" });
  const steps = {
    main_clone: { type: "git-clone", repo: site.address, revision: "main", working_directory: "/codefresh/volume" },
    image: { type: "build", image_name: "residency/app", tag: "allowed-tag-canary-7f", working_directory: "${{main_clone}}", disable_push: true, metadata: { set: [{ quality: "allowed-note-canary-7f" }] } },
  };
  const done = await build("stay/image", { steps });
  assert.equal(done.status, "success", JSON.stringify([done, await site.log(done.id)]));
  for (const word of ["image", "source", "row"]) assert.deepEqual(found(`${word}-canary-7f`), [], `${word} left the runner`);
  for (const word of ["allowed-tag", "allowed-note"]) assert.match(found(`${word}-canary-7f`).join(", "), /the wire/, word);
  const listed = await site.call("GET", "/api/images?tag=allowed-tag-canary-7f");
  assert.equal(listed.total, 1, JSON.stringify(listed));
  assert.equal(listed.docs[0].metadata.quality, "allowed-note-canary-7f");
  spawnSync("podman", ["rmi", "--force", listed.docs[0].internalImageId], { stdio: "ignore" });
});
