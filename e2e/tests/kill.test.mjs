// kill -9 at any moment: it goes on from where it was, nothing is run twice, nothing is lost.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Platform, until } from "../platform.mjs";

// The short form begins with the moment that once lost a build; `make soak` asks for more, at others each time.
const ROUNDS = Number(process.env.SLIPWAY_KILLS ?? 4);
const SEED = Number(process.env.SLIPWAY_SEED ?? 90094);
const platform = new Platform();

// The same seed gives the same moments.
let state = SEED;
const random = () => (state = (state * 48271) % 2147483647) / 2147483647;

before(() => platform.start());
after(() => platform.remove());

const occurrences = (text, part) => text.split(part).length - 1;

test(`${ROUNDS} pushes, each with a kill -9 on its way (seed ${SEED})`, { timeout: 900_000 }, async () => {
  await until("the demo is Healthy", async () => (await platform.application())?.healthStatus === "Healthy", 120);
  const work = await platform.clone("demo/demo-app");
  const file = join(work, "www/index.html");
  for (let round = 1; round <= ROUNDS; round++) {
    writeFileSync(file, readFileSync(file, "utf8").replace(/<p>.*<\/p>/, `<p>Round ${round}</p>`));
    // Before, during and after the push; in any step; during the sync.
    const delay = Math.floor(random() * 8000);
    const killed = new Promise((done) => setTimeout(() => platform.kill().then(done), delay));
    let sha;
    try {
      sha = await platform.push(work, `Round ${round}`);
    } catch {
      // Not acknowledged: it may or may not have arrived. Pushing again after the restart makes it one.
    }
    await killed;
    await platform.start();
    if (!sha) {
      // The first one may still be at work in a process of its own, and hold the branch.
      await until("the push arrives", () => platform.command("git", ["-C", work, "push", "-q"]).then(() => true));
      sha = (await platform.command("git", ["-C", work, "rev-parse", "HEAD"])).trim();
    }
    const build = await until(`round ${round}, killed after ${delay} ms: its build ends`, async () => {
      const found = (await platform.builds()).filter((one) => one.revision === sha);
      assert.ok(found.length <= 1, "one build for one push");
      // What is thrown is what the time-out shows.
      if (!found[0]?.finished) throw new Error(`${found[0] ? JSON.stringify(found[0]) : "no build"}\n${platform.stderr}`);
      return found[0];
    }, 120);
    const log = await platform.log(build.id);
    assert.equal(build.status, "success", `round ${round}, killed after ${delay} ms: ${JSON.stringify(build)} ${JSON.stringify(log)}`);
    assert.equal(occurrences(log.test, "Testing www/index.html"), 1, "the test step ran once");
    assert.equal(occurrences(log.test, "All good"), 1);
    await until(`round ${round}: the cluster runs it`, async () => {
      const app = await platform.application();
      const image = `localhost/demo-app:${sha.slice(0, 7)}`;
      return app?.syncStatus === "Synced" && app.healthStatus === "Healthy" && app.images.includes(image);
    }, 120);
  }
  assert.equal((await platform.builds()).length, ROUNDS);
  const deploy = await platform.clone("demo/demo-deploy");
  const messages = await platform.command("git", ["-C", deploy, "log", "--format=%s"]);
  for (let round = 1; round <= ROUNDS; round++) assert.equal(occurrences(messages, `Round ${round}`), 1, messages);
});
