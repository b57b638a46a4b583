// Many builds while server, runners and supervisors of steps are killed at random, and while a runner is cut off: every
// build ends, no attempt runs twice, no line of log that was there is lost.
// `make soak` runs the long form: 1,000 builds, 300 kills, a partition of five minutes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { until } from "../platform.mjs";
import { Site, Wire, Witness } from "../site.mjs";

const BUILDS = Number(process.env.SLIPWAY_BUILDS ?? 12);
const KILLS = Number(process.env.SLIPWAY_BUILD_KILLS ?? 6);
const PARTITION = Number(process.env.SLIPWAY_PARTITION_SECONDS ?? 5);
const SEED = Number(process.env.SLIPWAY_SEED ?? 4711);
const LINES = 200;

// The same seed gives the same choices.
let state = SEED;
const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
const pick = (list) => list[Math.floor(random() * list.length)];
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const witness = new Witness();
const over = (build) => ["success", "error", "terminated"].includes(build.status);
const numbers = Array.from({ length: LINES }, (_, at) => `line-${at + 1}`);

const pipeline = (name, steps) => ({ version: "1.0", kind: "pipeline", metadata: { name }, spec: { steps } });
const talks = (seconds) => ({
  image: "none",
  shell: "bash",
  commands: [witness.command(), `for number in $(seq 1 ${LINES}); do echo line-$number; done`, `sleep ${seconds}`, "echo the-end"],
});

before(() => witness.open());
after(() => witness.close());

test(`${BUILDS} builds, ${KILLS} kills (seed ${SEED})`, { timeout: 4 * 3600_000 }, async () => {
  const site = new Site();
  try {
    await site.start();
    for (const name of ["one", "two"]) await site.runner(name);
    await site.call("POST", "/api/pipelines", pipeline("soak/talk", { first: talks(0.3), second: talks(0.1) }));
    const asked = [];
    const seen = new Map();
    let asking = true;
    // Builds are asked for while things die: one that was acknowledged is one that has to end.
    const ask = async () => {
      for (let number = 0; number < BUILDS; number++) {
        const path = `/api/pipelines/run/soak%2Ftalk?reqId=soak-${SEED}-${number}`;
        asked.push(await site.patiently("POST", path, {}));
        while (asked.length - (await running()).done > 8) await pause(200);
      }
      asking = false;
    };
    const known = new Map();
    const running = async () => {
      for (const id of asked.filter((one) => !over(known.get(one) ?? {}))) known.set(id, await site.patiently("GET", `/api/builds/${id}`));
      return { done: [...known.values()].filter(over).length };
    };
    // What a reader has been shown stays as it was.
    const read = async () => {
      while (asking || known.size < asked.length || [...known.values()].some((build) => !over(build))) {
        for (const id of asked.slice(-8)) {
          const log = await site.log(id);
          for (const [step, text] of Object.entries(log)) {
            const before = seen.get(`${id} ${step}`) ?? "";
            assert.ok(text.startsWith(before), `build ${id}, ${step}: a line that was there is gone`);
            seen.set(`${id} ${step}`, text);
          }
        }
        await running();
        await pause(250);
      }
    };
    const kills = { server: 0, runner: 0, supervisor: 0 };
    const kill = async () => {
      for (let number = 0; number < KILLS; number++) {
        await pause(300 + random() * 1200);
        const what = pick(["server", "runner", "runner", "supervisor", "supervisor"]);
        if (what === "server") {
          await site.killServer();
          await pause(random() * 1000);
          await site.start();
        } else if (what === "runner") {
          const name = pick([...site.runners.keys()]);
          await site.killRunner(name);
          await pause(random() * 1000);
          await site.runner(name, site.runners.get(name).options);
        } else {
          // One that has nothing to supervise is waited for: a kill that hits nothing proves nothing.
          const pids = await until("a step to kill", async () => (site.supervisors().length ? site.supervisors() : asking ? null : [0]), 60);
          const pid = pick(pids);
          if (pid === 0) continue;
          try {
            process.kill(pid, "SIGKILL");
          } catch {
            continue;
          }
        }
        kills[what]++;
      }
    };
    await Promise.all([ask(), kill(), read()]);
    await until("every build ends", async () => (await running()).done === asked.length, 300);
    assert.equal(new Set(asked).size, BUILDS, "one build for one request, however often it had to be made");
    assert.deepEqual(witness.twice(), [], "no attempt runs twice");
    for (const id of asked) {
      const build = known.get(id);
      const log = await site.log(id);
      // What is killed three times over on the same step ends it; everything else is gone on with.
      if (build.status !== "success") {
        assert.match(JSON.stringify(build.steps), /supervisor went down|the process around the step's command was killed/, `${id}: ${JSON.stringify(build)}`);
        continue;
      }
      for (const step of ["first", "second"]) {
        const lines = log[step].split("\n");
        const last = lines.slice(lines.lastIndexOf("line-1")).filter((line) => /^line-\d+$/.test(line));
        assert.deepEqual(last, numbers, `build ${id}, ${step}`);
        assert.ok(lines.includes("the-end"), `build ${id}, ${step}`);
      }
    }
    console.log(`${BUILDS} builds, killed: ${JSON.stringify(kills)}; ${witness.lines.length} attempts`);
  } catch (error) {
    error.message += `\n${site.stderr.slice(-4000)}`;
    throw error;
  } finally {
    await site.remove();
  }
});

test("a runner that is cut off goes on, and tells when it is back", { timeout: 3600_000 }, async () => {
  const site = new Site();
  const wire = new Wire({ hostname: "127.0.0.1" });
  try {
    const { url } = await site.start();
    wire.target.port = new URL(url).port;
    await site.runner("away", { through: await wire.open() });
    const held = { ...talks(PARTITION), commands: [witness.command(), "echo before", `sleep ${PARTITION}`, "echo after"] };
    await site.call("POST", "/api/pipelines", pipeline("soak/away", { held, next: talks(0) }));
    const id = await site.call("POST", "/api/pipelines/run/soak%2Faway", {});
    await until("the step runs", async () => (await site.log(id)).held?.includes("\nbefore\n"), 120);
    wire.cut();
    await pause((PARTITION + 2) * 1000);
    // Somebody else is free all the while, and does not get it.
    await site.runner("free");
    await pause(2000);
    wire.mend();
    const build = await until("the build ends", async () => {
      const now = await site.call("GET", `/api/builds/${id}`);
      return over(now) && now;
    }, 120);
    assert.equal(build.status, "success", JSON.stringify(build));
    assert.equal(build.runner, "away");
    assert.deepEqual(witness.lines.filter((line) => line.startsWith(id)), [`${id} held 1`, `${id} next 1`]);
  } finally {
    wire.close();
    await site.remove();
  }
});

test("a runner that is silent too long stops before another begins", { timeout: 600_000 }, async () => {
  const SILENCE = 10;
  const site = new Site(["--runner-silence", `${SILENCE}`]);
  const wire = new Wire({ hostname: "127.0.0.1" });
  try {
    const { url } = await site.start();
    wire.target.port = new URL(url).port;
    const data = await site.runner("silent", { through: await wire.open() });
    const held = { image: "none", shell: "bash", commands: [witness.command(), "echo begun", "sleep 600 & wait $!"] };
    await site.call("POST", "/api/pipelines", pipeline("soak/silent", { held }));
    const id = await site.call("POST", "/api/pipelines/run/soak%2Fsilent", {});
    await until("the step runs", async () => (await site.log(id)).held?.includes("\nbegun\n"), 120);
    assert.equal(site.supervisors().length, 1);
    wire.cut();
    await site.runner("other");
    // The moment the other begins, the first has stopped.
    await until("another runner takes it over", async () => witness.lines.filter((line) => line.startsWith(id)).length === 2, 120);
    assert.equal(site.supervisors().length, 1, "one of them, the other's");
    const build = await site.call("GET", `/api/builds/${id}`);
    assert.equal(build.runner, "other");
    // Back again, it hears that the build is not its own any more, and forgets it.
    wire.mend();
    await until("it forgets the build", async () => !readdirSync(join(data, "builds")).includes(id), 120);
    await site.call("DELETE", `/api/progress/${id}`);
    await until("the build ends", async () => over(await site.call("GET", `/api/builds/${id}`)), 120);
  } finally {
    wire.close();
    await site.remove();
  }
});
