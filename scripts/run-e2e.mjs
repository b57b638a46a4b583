// Runs the end-to-end tests, three files at once: each starts a platform of its own, and most of the time it waits for that.
// usage: run-e2e.mjs FILE…
// In: SLIPWAY_BIN. Out: what a failing file printed, and a line with the time of each. A file that failed runs once more, alone; when it holds then it is named as unsteady, which is a defect. One may be.
import { spawn } from "node:child_process";
import { basename } from "node:path";

const LANES = 3;
// They take longest, so they go first; the rest fills the gaps.
const LONGEST = ["lifecycle", "builds", "gitea", "truth", "path", "ingress", "residency", "codefresh-cli"];
const place = (file) => {
  const at = LONGEST.indexOf(basename(file, ".test.mjs"));
  return at < 0 ? LONGEST.length : at;
};

function run(file) {
  return new Promise((done) => {
    const began = performance.now();
    const child = spawn(process.execPath, ["--test", file], { stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (part) => (text += part));
    child.on("close", (code, signal) => {
      const seconds = ((performance.now() - began) / 1000).toFixed(0);
      const count = /^# pass (\d+)$/m.exec(text)?.[1] ?? /^ℹ pass (\d+)$/m.exec(text)?.[1] ?? "0";
      const failed = code !== 0 || count === "0";
      if (failed) console.log(`\n── ${file} failed (${signal ?? `exit ${code}`}), ${seconds} s; it printed:\n${text}\n──`);
      else console.log(`${basename(file, ".test.mjs")}: ${count} passed, ${seconds} s`);
      done({ file, failed });
    });
  });
}

const waiting = process.argv.slice(2).sort((a, b) => place(a) - place(b));
if (waiting.length === 0) throw new Error("which files?");
const results = [];
async function lane() {
  for (let next = waiting.shift(); next; next = waiting.shift()) results.push(await run(next));
}
await Promise.all(Array.from({ length: LANES }, lane));
const failed = results.filter((result) => result.failed);
if (failed.length === 1 && !(await run(failed[0].file)).failed) {
  console.log(`UNSTEADY ${failed[0].file}: it failed and then held; above is what it printed. This is a defect.`);
} else if (failed.length > 0) {
  console.log(`failed: ${failed.map((result) => result.file).join(", ")}`);
  process.exit(1);
}
