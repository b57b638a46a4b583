// Runs every test program of the workspace, several at once: most of them wait for a server, a broker or a kill.
// usage: run-tests.mjs [PACKAGE ARGUMENTS…]     (with a package: its integration tests alone, with these arguments)
// Some run twice: the control plane once more on PostgreSQL, and, where SLIPWAY_REAL_KUBECONFIG names one, the behaviour of the embedded cluster with the real Kubernetes as the judge.
// In: the programs that `cargo test --workspace` builds; asking cargo for one package alone would compile its crates anew. Out: what a failing one printed, and a line for each.
// A test that failed is run once more, alone. When it holds then, it is named as unsteady: a defect to be mended, in the test or in the product, but no reason to throw the rest away. More than MAY_BE_UNSTEADY of them, and the run has failed. What holds the promises themselves (nothing lost, nothing run twice, nothing let in) has no second chance.
// Does not know: what the programs test, nor in which order they must run (there must be none).
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const [only, ...extra] = process.argv.slice(2);
const AT_ONCE = 3;
// Tests of one program at once. Those named wait for containers and clusters for most of their time; two cores are enough for more of them.
const THREADS = { "slipway-runner integration": 4, "slipway-runtime integration": 3 };
const MAY_BE_UNSTEADY = 2;
const PROMISES = /kill|crash|durab|attack|restart|takeover|lost|twice|once|matrix|audit|secret|access|fence|shard/;
// They take longest, so they go first; the rest fills the gaps.
const LONGEST = ["slipway-runner", "slipway-runtime", "slipway-server", "slipway-devcluster", "slipway-bus", "slipway", "slipway-source", "slipway-store"];

function programs() {
  const built = spawnSync("cargo", ["test", "--quiet", "--locked", "--workspace", "--no-run", "--message-format=json-render-diagnostics"], {
    encoding: "utf8",
    maxBuffer: 1 << 30,
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (built.status !== 0) process.exit(built.status ?? 1);
  return built.stdout
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line))
    .filter((message) => message.reason === "compiler-artifact" && message.profile.test && message.executable)
    .map((message) => ({
      folder: dirname(message.manifest_path),
      name: `${/[#/]([^#/@]+)[#@][^#@]*$/.exec(message.package_id)?.[1] ?? message.package_id} ${message.target.kind[0] === "test" ? "integration" : message.target.name}`,
      file: message.executable,
    }));
}

const place = ({ name }) => {
  const at = LONGEST.indexOf(name.split(" ")[0]);
  return (at < 0 ? LONGEST.length : at) + (name.includes(" integration") ? 0 : 100);
};

// The same programs in other surroundings.
function variants(all) {
  const found = (name) => all.filter((program) => program.name === name);
  const real = process.env.SLIPWAY_REAL_KUBECONFIG;
  return [
    ...found("slipway-server integration").map((program) => ({
      ...program,
      name: `${program.name} on PostgreSQL`,
      env: { SLIPWAY_TEST_DATABASE: "postgres" },
    })),
    ...(real ? found("slipway-devcluster integration") : []).map((program) => ({
      ...program,
      name: `${program.name} on the real Kubernetes`,
      env: { SLIPWAY_TEST_KUBECONFIG: real, SLIPWAY_TEST_IMAGE: "localhost/slipway-test:1" },
      words: ["--skip", "kill::", "--test-threads", "8"],
    })),
  ];
}

// What these share between their tests lives as long as the program, and nobody drops it: they get a folder that goes with them. Not the others:
// what a caged program sees below /tmp is what some of them look at.
const LEAVES_FOLDERS = ["slipway-runner integration", "slipway integration"];

// Short, because paths of sockets are; others may walk through it, because steps run as other users. A mount that was left in it is not followed.
function scratch() {
  const folder = mkdtempSync(join(tmpdir(), "st-"));
  chmodSync(folder, 0o711);
  return { env: { TMPDIR: folder }, remove: () => spawnSync("rm", ["-rf", "--one-file-system", folder], { stdio: ["ignore", "inherit", "inherit"] }) };
}

// What bash's `times` says of the children of a shell, in seconds.
function processor(times) {
  const ofChildren = times.trim().split("\n").at(-1) ?? "";
  return [...ofChildren.matchAll(/(\d+)m([\d.]+)s/g)].reduce((sum, [, minutes, seconds]) => sum + 60 * minutes + +seconds, 0).toFixed(0);
}

function run(program, chosen = extra) {
  const { name, file, folder, env = {}, words = THREADS[program.name] ? ["--test-threads", `${THREADS[program.name]}`] : [] } = program;
  return new Promise((done) => {
    const began = performance.now();
    const place = LEAVES_FOLDERS.includes(name) ? scratch() : { env: {}, remove() {} };
    const child = spawn("bash", ["-c", '"$0" "$@" 3>&-; code=$?; times >&3; exit $code', file, "--quiet", ...words, ...chosen], {
      cwd: folder,
      env: { ...process.env, ...env, CARGO_MANIFEST_DIR: folder, ...place.env },
      stdio: ["ignore", "pipe", "pipe", "pipe"],
    });
    let text = "";
    let times = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (part) => (text += part));
    child.stdio[3].setEncoding("utf8").on("data", (part) => (times += part));
    child.on("error", (error) => done({ program, failed: 1, passed: 0, ignored: 0, names: [], text: `${error}` }));
    child.on("close", (code, signal) => {
      place.remove();
      const said = /test result: \S+ (\d+) passed; (\d+) failed; (\d+) ignored/.exec(text);
      const [passed, failed, ignored] = said ? said.slice(1).map(Number) : [0, 1, 0];
      const bad = code !== 0 || !said;
      const seconds = ((performance.now() - began) / 1000).toFixed(0);
      if (bad) console.log(`\n── ${name} failed (${signal ?? `exit ${code}`}); it printed:\n${text}\n──`);
      else if (passed > 0) console.log(`${name}: ${passed} passed, ${seconds} s, ${processor(times)} s of processor`);
      const names = [...text.matchAll(/^---- (\S+) stdout ----$/gm)].map((match) => match[1]);
      done({ program, passed, failed: bad ? Math.max(failed, 1) : 0, ignored, names });
    });
  });
}

const all = programs();
// For `cargo xtask tidy --ran`: documents name tests, and each has to be one of these.
if (!only) {
  const lists = all.map(({ file, folder }) => spawnSync(file, ["--list", "--format", "terse"], { cwd: folder, encoding: "utf8", maxBuffer: 1 << 26 }).stdout ?? "");
  writeFileSync(join(process.env.CARGO_TARGET_DIR ?? "target", "tests-ran.txt"), lists.join(""));
}
const waiting = (only ? all : [...all, ...variants(all)])
  .filter(({ name }) => !only || name === `${only} integration`)
  .sort((a, b) => place(a) - place(b));
const results = [];
async function worker() {
  for (let next = waiting.shift(); next; next = waiting.shift()) results.push(await run(next));
}
await Promise.all(Array.from({ length: AT_ONCE }, worker));
const unsteady = [];
for (const result of results) {
  // What ended without naming each failure (a crash, a kill) has no second chance.
  if (result.failed === 0 || result.names.length !== result.failed || result.failed + unsteady.length > MAY_BE_UNSTEADY) continue;
  for (const name of result.names.filter((name) => !PROMISES.test(name))) {
    const again = await run(result.program, [name, "--exact"]);
    if (again.failed > 0 || again.passed !== 1) continue;
    result.failed -= 1;
    result.passed += 1;
    unsteady.push(`${result.program.name} ${name}`);
  }
}
for (const name of unsteady) console.log(`UNSTEADY ${name}: it failed and then held by itself; above is what it printed. This is a defect.`);
const sum = (what) => results.reduce((total, result) => total + result[what], 0);
console.log(`${sum("passed")} passed, ${sum("failed")} failed, ${sum("ignored")} skipped, ${unsteady.length} unsteady`);
process.exit(sum("failed") === 0 && sum("passed") > 0 ? 0 : 1);
