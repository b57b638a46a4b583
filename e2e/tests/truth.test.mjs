// No page lies: what a first hour as a new user found (D1–D39 of the review), on a real platform in a real browser.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { readdirSync, readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { Platform, until } from "../platform.mjs";
import { openBrowser, signIn } from "../browser.mjs";

const root = resolve(import.meta.dirname, "../..");
const platform = new Platform();
let browser, page, errors;
const shots = process.env.SLIPWAY_SHOTS;
const shot = async (name) => {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `truth-${name}.png`) });
};

before(async () => {
  await platform.start();
  ({ browser, page, errors } = await openBrowser());
  await signIn(page, platform);
});
after(async () => {
  await browser?.close();
  await platform.remove();
});

const demo = () => platform.application("demo");
const settled = () =>
  until("the demo is Synced and Healthy", async () => {
    const app = await demo();
    return app?.syncStatus === "Synced" && app.healthStatus === "Healthy" && app;
  }, 120);

test("the commands that Home shows a newcomer work as they stand", async () => {
  await settled();
  await page.goto(platform.url);
  const section = page.getByRole("region", { name: /Try it/ }).or(page.locator("section[aria-labelledby=try-next]")).first();
  await section.locator("code").filter({ hasText: /^git clone/ }).waitFor();
  const [clone, change] = await section.locator("code").filter({ hasText: /^(git clone|cd )/ }).allTextContents();
  const address = platform.url.replace("://", `://me:${platform.credentials.apiKey}@`);
  // Git would ask for the key; everything else is as it is shown.
  const script = `${clone.replace(platform.url, address)} && ${change}`;
  await platform.command("sh", ["-ec", script], { cwd: platform.folder });
  const build = await until("a build of the push", async () => (await platform.builds())[0]);
  await until("the build ends", async () => (await platform.builds()).find(({ id, finished }) => id === build.id && finished), 180);
  assert.equal((await platform.builds())[0].status, "success");
  await shot("home");
});

test("a broken HEAD stays shown, whatever happens in the cluster, and a sync of it fails", async () => {
  await settled();
  const work = await platform.clone("demo/demo-deploy");
  const file = join(work, "manifests/deployment.yaml");
  const good = readFileSync(file, "utf8");
  writeFileSync(file, good.replace("replicas: 1", "replicas: [1"));
  await platform.push(work, "Break it");
  const unreadable = (app) => app.syncStatus === "Unknown" && app.conditions.some(({ type }) => type === "ComparisonError");
  await until("the error is shown", async () => unreadable(await demo()));
  const before = (await platform.kubectl("-n", "demo", "get", "pods", "-l", "app=demo", "-o", "name")).trim();
  await platform.kubectl("-n", "demo", "delete", "pod", "-l", "app=demo", "--wait=false");
  await until("another pod runs", async () => {
    const now = await platform.kubectl("-n", "demo", "get", "pods", "-l", "app=demo", "--field-selector=status.phase=Running", "-o", "name");
    return now.trim() && !now.includes(before) && now;
  }, 120);
  await until("the new pod was seen", async () => (await demo()).resources.some(({ kind, name }) => kind === "Pod" && !before.includes(name)), 60);
  assert.ok(unreadable(await demo()), JSON.stringify(await demo()));
  await page.goto(`${platform.url}/applications/local/argocd/demo`);
  await page.getByRole("alert").getByText(/deployment\.yaml:\d+/).waitFor();
  await page.getByRole("heading", { level: 1 }).getByText("Unknown").first().waitFor();
  assert.equal(await page.getByText(/deployment\.yaml:\d+/).count(), 1, "it is said once");
  await shot("broken");
  await assert.rejects(platform.slipway("app", "sync", "demo", "--wait"), (error) => /deployment\.yaml/.test(error.stdout + error.stderr));
  assert.ok(unreadable(await demo()), "a failed sync makes nothing green");
  writeFileSync(file, good);
  await platform.push(work, "Mend it");
  await settled();
});

test("unsaved work is asked about, focus returns, and a pipeline can be deleted", async () => {
  await page.goto(`${platform.url}/pipelines/new`);
  await page.getByLabel("Name", { exact: true }).fill("demo/short-lived");
  await page.getByRole("link", { name: "Builds", exact: true }).click();
  await page.getByRole("dialog").getByText("Discard your changes?").waitFor();
  await page.getByRole("button", { name: "Keep editing" }).click();
  assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "demo/short-lived");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("heading", { name: "demo/short-lived", level: 1 }).waitFor();
  const run = page.getByRole("button", { name: "Run demo/short-lived" });
  await run.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await until("the focus is back", () => run.evaluate((element) => element === document.activeElement));
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "Pipelines", level: 1 }).waitFor();
  const { docs } = await platform.api("/api/pipelines?limit=100&offset=0");
  assert.ok(!docs.some(({ metadata }) => metadata.name === "demo/short-lived"));
});

test("automatic sync is turned off and on again by a person, on the page (D6)", async () => {
  await settled();
  await page.goto(`${platform.url}/applications/local/argocd/demo`);
  for (const [verb, automated] of [["Turn off", false], ["Turn on", true]]) {
    await page.getByRole("button", { name: `${verb} automatic sync` }).click();
    await page.getByRole("dialog").getByRole("button", { name: verb, exact: true }).click();
    await page.getByText(automated ? "Automatic" : "Manual", { exact: false }).first().waitFor();
    await until(`the application is ${automated ? "" : "not "}automated`, async () => (await platform.application()).automated === automated);
    const object = JSON.parse(await platform.kubectl("-n", "argocd", "get", "app", "demo", "-o", "json"));
    assert.equal(Boolean(object.spec.syncPolicy?.automated && object.spec.syncPolicy.automated.enabled !== false), automated);
  }
  await settled();
});

test("2,000 applications are found, filtered and scrolled, a hundred at a time", async () => {
  const app = await settled();
  const made = Array.from({ length: 2000 }, (_, at) => ({
    ...app,
    name: `many-${String(at).padStart(4, "0")}`,
    namespace: "many",
    healthStatus: at % 100 === 7 ? "Degraded" : "Healthy",
  }));
  const report = (applications) => platform.report({ applications });
  for (let at = 0; at < made.length; at += 250) await report(made.slice(at, at + 250));
  const answers = [];
  page.on("response", (answer) => answer.url().includes("/api/applications?") && answers.push(answer));
  const began = Date.now();
  await page.goto(`${platform.url}/applications?namespace=many`);
  await page.getByRole("link", { name: "many-0000" }).waitFor();
  console.log(`2,000 applications: first row after ${Date.now() - began} ms`);
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok(nodes < 3000, `${nodes} nodes`);
  for (const answer of answers) assert.ok((await answer.body()).length < 400_000, answer.url());
  await page.getByRole("status").getByText("2,000 applications").waitFor();
  await page.getByRole("button", { name: /^Degraded 20$/ }).click();
  await page.getByRole("status").getByText("20 applications", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await page.getByLabel("Search").fill("many-1999");
  await page.getByRole("link", { name: "many-1999" }).waitFor();
  assert.equal(await page.locator("tbody tr").count(), 1);
  const listed = await platform.slipway("app", "list", "--health", "Degraded", "--namespace", "many", "-o", "name");
  assert.equal(listed.trim().split("\n").length, 20, listed);
  // One change repaints one row.
  await report([{ ...made[1999], healthStatus: "Degraded" }]);
  await page.getByRole("row").filter({ hasText: "many-1999" }).getByText("Degraded").waitFor();
  await shot("many");
  // A runtime may take back what it reported.
  await platform.report({ removed: made });
});

test("a watched list prints what the runtime reports, without being asked again", async () => {
  const app = await settled();
  const watching = spawn(resolve(process.env.SLIPWAY_BIN), ["app", "list", "--watch", "-o", "json"], {
    env: platform.environment(),
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const objects = [];
    createInterface({ input: watching.stdout }).on("line", (line) => objects.push(JSON.parse(line)));
    const demos = () => objects.filter(({ name, namespace }) => name === app.name && namespace === app.namespace);
    await until("the list is printed", () => demos().length === 1);
    const waiting = platform.slipway("app", "wait", "demo", "-o", "name");
    assert.match(await waiting, /^argocd\/demo$/m);
    const seen = () => objects.filter((object) => object.name === "watched").map(({ healthStatus }) => healthStatus);
    const watched = { ...app, name: "watched", namespace: "other" };
    await platform.report({ applications: [watched] });
    await until("a new one is printed", () => seen().length === 1);
    await platform.report({ applications: [{ ...watched, healthStatus: "Degraded" }] });
    await until("its change is printed", () => seen().length === 2);
    assert.deepEqual(seen(), ["Healthy", "Degraded"]);
    await platform.report({ removed: [watched] });
    const wanted = new Set(objects.map((object) => JSON.stringify(object)));
    assert.ok(wanted.size === objects.length, "nothing is printed twice");
  } finally {
    watching.kill();
  }
  await settled();
});

test("while the server restarts a click waits for the page that it leads to (D14)", async () => {
  await settled();
  const fresh = await page.context().newPage();
  try {
    // Only Home is loaded: the page of the runtimes is a part of its own that has to be fetched.
    await fresh.goto(platform.url);
    await fresh.getByRole("heading", { name: "Home", level: 1 }).waitFor();
    await platform.stop();
    await fresh.getByText("The connection to the server is lost").waitFor();
    await fresh.getByRole("link", { name: "Repositories", exact: true }).click();
    const stillThere = () => fresh.evaluate(() => document.querySelector("nav") !== null && location.protocol === "http:");
    assert.ok(await stillThere(), "the browser shows its own error page");
    await platform.start();
    await fresh.getByRole("heading", { name: "Repositories", level: 1 }).waitFor({ timeout: 60_000 });
    await fresh.getByText("The connection to the server is lost").waitFor({ state: "detached", timeout: 60_000 });
    await fresh.getByText("demo/demo-app").first().waitFor();
  } finally {
    await fresh.close();
  }
  await settled();
});

test("Ctrl-C says which containers stay and how to remove them, and that removes them (D38)", async (t) => {
  await settled();
  const data = join(platform.folder, "data");
  platform.stderr = "";
  platform.child.kill("SIGINT");
  await platform.exited;
  const said = platform.stderr.match(/(\d+) containers of pods keep running; `(slipway down --data [^`]+)` removes them/);
  if (!said && /no container engine/.test(platform.stderr)) return t.skip("there is no container engine");
  assert.ok(said, platform.stderr);
  assert.ok(Number(said[1]) > 0, said[0]);
  const words = said[2].split(" ").slice(1);
  assert.equal(words.at(-1), data, "the command names the data folder");
  assert.match(await platform.slipway(...words), new RegExp(`^Removed ${said[1]} containers`, "m"));
  assert.match(await platform.slipway(...words), /^Removed 0 containers/m);
  const started = readFileSync(join(root, "docs/getting-started.md"), "utf8");
  assert.match(started.split("## Stopping and starting")[1], /`slipway down` removes them/);
  await platform.start();
  await settled();
});

test("every command that a page or a document names exists", () => {
  const files = [
    ...readdirSync(join(root, "web/src"), { recursive: true }).filter((name) => /\.tsx$/.test(name)).map((name) => join("web/src", name)),
    ...readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md")).map((name) => join("docs", name)),
    "README.md",
  ];
  const named = new Map();
  for (const name of files) {
    const text = readFileSync(join(root, name), "utf8");
    const quoted = [...text.matchAll(/(?:`|<code>)slipway ([^`<]+)/g), ...text.matchAll(/^\s*(?:\$ )?slipway ([^\n]+)/gm)];
    for (const [, words] of quoted) {
      const verbs = words.split(/[\s|]/).filter(Boolean);
      const command = [];
      for (const word of verbs) {
        if (!/^[a-z][a-z-]*$/.test(word) || command.length === 2) break;
        command.push(word);
      }
      if (command.length > 0) named.set(command.join(" "), name);
    }
  }
  assert.ok(named.size > 20, `${named.size} commands`);
  const help = (words) => {
    try {
      return execFileSync(process.env.SLIPWAY_BIN, [...words, "--help"], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    } catch (error) {
      return error.stderr.includes("unrecognized subcommand") ? undefined : error.stderr;
    }
  };
  const missing = [];
  for (const [command, where] of named) {
    const words = command.split(" ");
    const first = help(words.slice(0, 1));
    // The second word is a verb only where the first one has verbs; otherwise it is an argument.
    const takesVerbs = first?.includes("\nCommands:");
    if (!first || (words[1] && takesVerbs && !help(words))) missing.push(`slipway ${command} (${where})`);
  }
  assert.deepEqual(missing, []);
  assert.deepEqual(errors, [], "no page threw an error");
});
