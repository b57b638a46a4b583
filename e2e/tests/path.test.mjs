// One commit travels the whole path: steps 1–5 as a person walks them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { Platform, until } from "../platform.mjs";
import { openBrowser, signIn } from "../browser.mjs";

const platform = new Platform();
let browser, page, errors;
const shots = process.env.SLIPWAY_SHOTS;
const shot = async (name) => {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`) });
};

before(async () => {
  await platform.start();
  ({ browser, page, errors } = await openBrowser());
});
after(async () => {
  await browser?.close();
  await platform.remove();
});

const settled = (revision) =>
  until(
    `the demo is Synced and Healthy${revision ? ` at ${revision}` : ""}`,
    async () => {
      const app = await platform.application();
      const there = app?.syncStatus === "Synced" && app?.healthStatus === "Healthy";
      return there && (!revision || app.revision.sha === revision) ? app : JSON.stringify(app)?.length < 0;
    },
    120,
  );

const headOf = async (repo) => (await platform.api("/api/repos")).find((one) => one.name === repo).head.sha;

test("the first start says once who may sign in, and the demo turns Healthy", async () => {
  assert.match(platform.credentials.adminPassword, /^[a-z2-9-]{19}$/);
  assert.match(platform.credentials.apiKey, /^[0-9a-f]{24}\.[0-9a-f]{40}$/);
  const names = (await platform.api("/api/repos")).map((repo) => repo.name);
  assert.deepEqual(names, ["demo/demo-app", "demo/demo-deploy"]);
  await signIn(page, platform);
  await settled();
  assert.equal((await platform.builds()).length, 0, "nothing was pushed yet");
  await shot("home");
});

test("a push is built with a live log, committed to demo-deploy, synced and Healthy", async () => {
  const work = await platform.clone("demo/demo-app");
  const file = join(work, "www/index.html");
  writeFileSync(file, readFileSync(file, "utf8").replace("Edit this line", "This line was edited"));
  const pushed = Date.now();
  const sha = await platform.push(work, "Say something else");
  const build = await until("a build of the push", async () => (await platform.builds())[0]);
  assert.equal(build.revision, sha);
  assert.equal(build.committer, "Ada Lovelace");

  await page.goto(`${platform.url}/builds/${build.id}`);
  await page.getByText("All good").first().waitFor({ timeout: 60_000 });
  const ended = await until("the build ends", async () => {
    const now = await platform.api(`/api/builds/${build.id}`);
    return now.finished && now;
  });
  assert.equal(ended.status, "success", JSON.stringify(ended, null, 1) + JSON.stringify(await platform.log(build.id)));
  const steps = Object.fromEntries(ended.steps.map((step) => [step.name, step.status]));
  for (const name of ["main_clone", "test", "build", "clone_deploy", "set_version", "commit"]) assert.equal(steps[name], "success", name);
  await page.getByText("success").first().waitFor();
  await shot("build");
  const printed = await platform.slipway("logs", "-f", build.id);
  assert.match(printed, /All good/);
  assert.match(printed, /ended with success/);

  const deployed = await headOf("demo/demo-deploy");
  // Right after the build the state may still be that of the commit before; whoever names the commit waits for it.
  assert.match(await platform.slipway("app", "wait", "demo", "--revision", deployed.slice(0, 12), "--timeout", "120", "-o", "name"), /^argocd\/demo$/m);
  assert.equal((await platform.application()).revision.sha, deployed);
  const app = await settled(deployed);
  console.log(`# push → Healthy ${Date.now() - pushed} ms; start → ready ${platform.readyMs} ms`);
  assert.match(app.revision.message, /Say something else/);
  assert.equal(app.revision.author, "Ada Lovelace");
  const image = `localhost/demo-app:${sha.slice(0, 7)}`;
  assert.deepEqual(app.images, [image]);
  await page.goto(`${platform.url}/applications/local/argocd/demo`);
  await page.getByText("Healthy").first().waitFor();
  await page.getByText("Deployment").first().waitFor();
  await shot("application");

  assert.match(await platform.kubectl("-n", "argocd", "get", "app", "demo"), /Synced\s+Healthy/);
  const pods = JSON.parse(await platform.kubectl("-n", "demo", "get", "pods", "-l", "app=demo", "-o", "json"));
  const running = pods.items.filter((pod) => !pod.metadata.deletionTimestamp);
  assert.equal(running.length, 1);
  assert.equal(running[0].spec.containers[0].image, image);
  assert.match(await platform.kubectl("-n", "demo", "exec", "deploy/demo", "--", "cat", "/www/index.html"), /This line was edited/);
});

test("waiting for a sync waits for the one that was asked for", async () => {
  const folder = await platform.clone("demo/demo-deploy");
  mkdirSync(join(folder, "hooks"));
  // A hook that no scheduler takes: the sync waits for it for ever.
  const job = { apiVersion: "batch/v1", kind: "Job", metadata: { name: "migrate", annotations: { "argocd.argoproj.io/hook": "PreSync" } }, spec: { template: { spec: { restartPolicy: "Never", schedulerName: "nobody", containers: [{ name: "m", image: "x" }] } } } };
  writeFileSync(join(folder, "hooks/job.json"), JSON.stringify(job));
  writeFileSync(join(folder, "hooks/map.json"), JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" } }));
  await platform.command("git", ["-C", folder, "add", "--all"]);
  await platform.push(folder, "A hook");
  const app = {
    apiVersion: "argoproj.io/v1alpha1",
    kind: "Application",
    metadata: { name: "hooks", namespace: "argocd" },
    spec: {
      project: "default",
      source: { repoURL: `${platform.url}/git/demo/demo-deploy.git`, targetRevision: "main", path: "hooks" },
      destination: { server: "https://kubernetes.default.svc", namespace: "hooks" },
      syncPolicy: { syncOptions: ["CreateNamespace=true"] },
    },
  };
  const file = join(platform.folder, "hooks.json");
  writeFileSync(file, JSON.stringify(app));
  await platform.kubectl("apply", "-f", file);
  await until("the Application is compared", async () => (await platform.application("hooks"))?.syncStatus === "OutOfSync");
  await platform.slipway("app", "sync", "hooks", "--async");
  // The very next question knows of it.
  const { operation } = await platform.application("hooks");
  assert.ok(operation.id && ["Pending", "Running"].includes(operation.phase), JSON.stringify(operation));
  await assert.rejects(platform.slipway("app", "wait", "hooks", "--timeout", "2"), (error) => /within 2 s/.test(error.stderr));
  await platform.slipway("app", "terminate", "hooks");
  await until("it is over", async () => ["Failed", "Error"].includes((await platform.application("hooks")).operation.phase));
  await assert.rejects(platform.slipway("app", "sync", "hooks", "--wait", "--timeout", "10"), (error) => /Waiting for hook Job\/migrate to finish/.test(error.stdout));
  await platform.slipway("app", "terminate", "hooks");
  await platform.kubectl("-n", "argocd", "delete", "application", "hooks");
});

test("a plan explains a sync before it runs, and the sync does what the plan said", async () => {
  const manual = {
    apiVersion: "argoproj.io/v1alpha1",
    kind: "Application",
    metadata: { name: "by-hand", namespace: "argocd" },
    spec: {
      project: "default",
      source: { repoURL: `${platform.url}/git/demo/demo-deploy.git`, targetRevision: "main", path: "manifests" },
      destination: { server: "https://kubernetes.default.svc", namespace: "by-hand" },
      syncPolicy: { syncOptions: ["CreateNamespace=true"] },
    },
  };
  const file = join(platform.folder, "by-hand.json");
  writeFileSync(file, JSON.stringify(manual));
  await platform.kubectl("apply", "-f", file);
  await until("the Application is compared", async () => (await platform.application("by-hand"))?.syncStatus === "OutOfSync");
  const plan = await platform.slipway("app", "plan", "by-hand");
  assert.match(plan, /ConfigMap[\s\S]*Deployment/, "the ConfigMap's wave comes first");
  await assert.rejects(platform.kubectl("-n", "by-hand", "get", "deployment", "demo", "-o", "name"), /NotFound|not found/);
  await assert.rejects(platform.slipway("app", "diff", "by-hand"), (error) => error.code === 1 && /Deployment/.test(error.stdout));
  await page.goto(`${platform.url}/applications/local/argocd/by-hand`);
  await page.getByText(/out of sync/i).first().waitFor();
  await page.getByRole("tab", { name: "Plan" }).click();
  await page.getByText("ConfigMap").first().waitFor();
  await shot("plan");
  await platform.slipway("app", "sync", "by-hand");
  await platform.slipway("app", "wait", "by-hand", "--timeout", "60");
  await platform.kubectl("-n", "by-hand", "get", "deployment", "demo", "-o", "name");
  await platform.kubectl("-n", "argocd", "delete", "application", "by-hand");
});

test("a broken manifest names file and line, and the running version stays", async () => {
  const work = await platform.clone("demo/demo-deploy");
  const file = join(work, "manifests/deployment.yaml");
  const good = readFileSync(file, "utf8");
  const pod = (await platform.kubectl("-n", "demo", "get", "pods", "-l", "app=demo", "-o", "name")).trim();
  writeFileSync(file, good.replace("  replicas: 1", "  replicas: 1\n   selector: broken"));
  await platform.push(work, "Break it");
  const broken = await until("the error is shown", async () => {
    const app = await platform.application();
    return app.conditions.find((condition) => /deployment\.yaml:\d+/.test(condition.message));
  });
  assert.match(broken.message, /manifests\/deployment\.yaml:(8|9|10)\b/);
  await page.goto(`${platform.url}/applications/local/argocd/demo`);
  await page.getByText(/deployment\.yaml:\d+/).first().waitFor();
  await shot("broken");
  assert.equal((await platform.kubectl("-n", "demo", "get", "pods", "-l", "app=demo", "-o", "name")).trim(), pod);
  writeFileSync(file, good);
  const mended = await platform.push(work, "Mend it");
  const app = await settled(mended);
  assert.deepEqual(app.conditions, []);
  assert.deepEqual(errors, [], "no page threw an error");
});
