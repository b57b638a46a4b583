// The control plane's side of builds: an announcement until its build is queued, trivial builds a second with a real runner
// on the host executor, lines of log a second until they are durable and until they are read, and taking a build out of a long queue.
// usage: node bench/builds.mjs SLIPWAY [--builds N] [--queued N] [--lines N] [--only announced|trivial|ingest|claims] [--database postgres://…] [-- FLAGS OF THE SERVER]
// Everything goes over HTTP on loopback, as runners and Git providers speak it. SQLite with synchronous=FULL, or an empty
// database of PostgreSQL, for which the server needs `-- --bus amqp://… --cache redis://…`.
import { createHash, createHmac, randomBytes } from "node:crypto";

process.env.SLIPWAY_BIN = process.argv[2];
const { Site } = await import("../e2e/site.mjs");

const option = (name, usual) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? usual : Number(process.argv[at + 1]);
};
const builds = option("--builds", 200);
const queued = option("--queued", 100_000);
const lines = option("--lines", 2_000_000);
const percentile = (times, share) => times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))];
const shown = (times) => `p50 ${percentile(times, 0.5).toFixed(1)} ms, p90 ${percentile(times, 0.9).toFixed(1)} ms, ${times.length} times`;
const several = async (count, atOnce, work) => {
  let next = 0;
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (next < count) await work(next++);
  }));
};

// A runner that does nothing but speak: what is measured is the server.
async function speaker(site, name) {
  const { token } = await site.call("POST", "/api/runners", { name });
  const secret = randomBytes(20).toString("hex");
  const secretDigest = createHash("sha256").update(secret).digest("hex");
  const register = await fetch(`${site.url}/api/agent/runner/register`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token, secretDigest }) });
  const key = `${(await register.json()).keyId}.${secret}`;
  const call = async (method, path, body) => {
    const answer = await fetch(site.url + path, { method, headers: { authorization: key, "content-type": "application/json" }, body: JSON.stringify(body) });
    if (!answer.ok) throw Object.assign(new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`), { status: answer.status });
    return answer.json();
  };
  const running = [];
  return {
    call,
    async take(free) {
      const { taken } = await call("POST", "/api/agent/runner/sync", { runner: name, version: "1", executor: "host", free, running, waitMs: 0 });
      running.push(...taken.map(({ id, epoch }) => ({ id, epoch })));
      return taken;
    },
  };
}
const pipeline = (site, name, extra = {}) =>
  site.call("POST", "/api/pipelines", { version: "1.0", kind: "pipeline", metadata: { name }, spec: { steps: { say: { image: "none", commands: ["true"] } }, ...extra } });

async function announced(site) {
  await site.call("POST", "/api/contexts", { metadata: { name: "gh" }, spec: { type: "git.github", data: { auth: { type: "basic", password: "none" } } } });
  const trigger = { name: "push", type: "git", repo: "acme/app", context: "gh", events: ["push.heads"] };
  await pipeline(site, "bench/announced", { triggers: [trigger] });
  const [{ id }] = await site.call("GET", "/api/hooks");
  const { secret } = await site.call("POST", `/api/hooks/${id}/secret`, {});
  const times = [];
  let before = "0".repeat(40);
  for (let number = 0; number < 60; number++) {
    const sha = createHash("sha1").update(`${number}`).digest("hex");
    const body = JSON.stringify({ ref: "refs/heads/main", before, after: sha, repository: { full_name: "acme/app" }, sender: { login: "ada" }, commits: [], head_commit: { message: "Go", author: { name: "Ada" }, url: "x" } });
    before = sha;
    const signature = `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
    const began = performance.now();
    const answer = await fetch(`${site.url}/api/webhooks/git/${id}`, { method: "POST", headers: { "content-type": "application/json", "x-github-event": "push", "x-github-delivery": `${number}`, "x-hub-signature-256": signature }, body });
    if (!answer.ok) throw new Error(`the announcement: ${answer.status} ${await answer.text()}`);
    for (;;) {
      const { workflows } = await site.call("GET", `/api/workflow?limit=1&revision=${sha}`);
      if (workflows.docs.length) break;
    }
    if (number >= 10) times.push(performance.now() - began);
  }
  console.log(`announcement sent -> its build is queued and listed: ${shown(times)}`);
}

async function trivial(site) {
  await site.runner("bench", { capacity: 8 });
  await pipeline(site, "bench/trivial");
  const ids = [];
  const began = performance.now();
  await several(builds, 8, async () => ids.push(await site.call("POST", "/api/pipelines/run/bench%2Ftrivial", {})));
  for (;;) {
    const { workflows } = await site.call("GET", "/api/workflow?limit=500&status=success");
    if (workflows.docs.filter((one) => ids.includes(one.id)).length >= Math.min(builds, 500)) break;
    await new Promise((done) => setTimeout(done, 20));
  }
  const seconds = (performance.now() - began) / 1000;
  console.log(`trivial builds of one step, one runner with 8 places: ${(builds / seconds).toFixed(1)} a second, ${builds} in ${seconds.toFixed(1)} s`);
  await site.killRunner("bench");
}

async function ingest(site) {
  await pipeline(site, "bench/loud");
  const loud = await speaker(site, "loud");
  await several(4, 4, () => site.call("POST", "/api/pipelines/run/bench%2Floud", {}));
  const taken = await loud.take(4);
  const line = "2026-01-01T00:00:00Z a line of log as programs write them, about eighty letters long\n";
  const batch = Math.floor((512 << 10) / line.length);
  const text = line.repeat(batch);
  const each = Math.ceil(lines / batch / taken.length);
  const began = performance.now();
  await Promise.all(taken.map(async ({ id, epoch }) => {
    for (let number = 0; number < each; number++) {
      const piece = { step: "say", offset: number * text.length, text };
      for (;;) {
        try {
          await loud.call("POST", `/api/agent/runner/builds/${id}/logs`, { epoch, pieces: [piece] });
          break;
        } catch (error) {
          if (error.status !== 429) throw error;
          await new Promise((done) => setTimeout(done, 50));
        }
      }
    }
  }));
  const seconds = (performance.now() - began) / 1000;
  const sent = each * batch * taken.length;
  console.log(`lines of log until they are durable, 4 builds of one runner: ${Math.round(sent / seconds).toLocaleString("en")} a second (${(sent * line.length / seconds / (1 << 20)).toFixed(1)} MiB/s), ${sent.toLocaleString("en")} lines`);
  const read = performance.now();
  let bytes = 0;
  // A viewer's own way: from the start, as fast as it comes. The builds run, so the stream is left when all is there.
  await Promise.all(taken.map(async ({ id }) => {
    const leave = new AbortController();
    const answer = await fetch(`${site.url}/api/builds/${id}/logs/stream`, { headers: { authorization: site.credentials.apiKey }, signal: leave.signal });
    let own = 0;
    try {
      for await (const part of answer.body) if ((own += part.length) >= each * text.length) break;
    } finally {
      leave.abort();
    }
    bytes += own;
  }));
  const reading = (performance.now() - read) / 1000;
  console.log(`the same lines read by 4 viewers at once: ${Math.round(sent / reading).toLocaleString("en")} a second (${(bytes / reading / (1 << 20)).toFixed(1)} MiB/s on the wire)`);
}

async function claims(site) {
  const names = Array.from({ length: 10 }, (_, at) => `bench/queue-${at}`);
  for (const name of names) await pipeline(site, name);
  const began = performance.now();
  await several(queued, 64, (number) => site.patiently("POST", `/api/pipelines/run/${encodeURIComponent(names[number % names.length])}`, {}));
  console.log(`runs asked for over REST: ${(queued / ((performance.now() - began) / 1000)).toFixed(0)} a second, 64 at once`);
  const taker = await speaker(site, "taker");
  const times = [];
  for (let number = 0; number < 60; number++) {
    const asked = performance.now();
    const taken = await taker.take(1);
    if (taken.length !== 1) throw new Error("nothing was taken");
    if (number >= 10) times.push(performance.now() - asked);
  }
  console.log(`taking one build out of ${queued.toLocaleString("en")} that wait: ${shown(times)}`);
}

const [only, database, flags] = ["--only", "--database", "--"].map((name) => process.argv.indexOf(name));
for (const measure of [announced, trivial, ingest, claims].filter(({ name }) => only < 0 || process.argv[only + 1] === name)) {
  const site = new Site(flags < 0 ? [] : process.argv.slice(flags + 1), database < 0 ? undefined : process.argv[database + 1]);
  try {
    await site.start();
    await measure(site);
  } finally {
    await site.remove();
  }
}
