// Pipelines that nobody wrote, judged by the published validator of Codefresh and by ours: the same verdict, and the same places.
// usage: SLIPWAY_BIN=… node --test e2e/tests/validator.test.mjs     (SLIPWAY_MUTANTS=1000, SLIPWAY_SEED=1)
// They are made of the rows of our own fixtures, and of ../shared/suites where that is there.
import assert from "node:assert/strict";
import { test } from "node:test";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { mutants, places } from "../mutants.mjs";

const Validator = createRequire(import.meta.url)("@codefresh-io/yaml-validator");
const top = resolve(import.meta.dirname, "../..");
const count = Number(process.env.SLIPWAY_MUTANTS ?? 1000);
const seed = Number(process.env.SLIPWAY_SEED ?? 1);

function models() {
  const files = ["crates/pipeline/fixtures/conformance", "../shared/suites/pipelines"].map((folder) => join(top, folder, "validator.jsonl"));
  const rows = files.filter(existsSync).flatMap((file) => readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line)));
  return rows.map(({ model }) => model).filter((model) => model !== null && typeof model === "object");
}

/** What the published validator says, as a row of the suite; nothing where it breaks down itself. */
function judged(model, opts) {
  const row = { model, yaml: null, opts: opts ?? null };
  const { log } = console;
  console.log = () => {}; // It tells of types that it does not know.
  try {
    Validator.validate(structuredClone(model), undefined, undefined, opts);
    return { ...row, ok: true, at: [], warnings: 0 };
  } catch ({ details, warningDetails }) {
    if (!details && !warningDetails) return undefined;
    const at = (details ?? []).map(({ stepName, path }) => `${stepName ?? ""}|${path ?? "None"}`);
    return { ...row, ok: false, at: [...new Set(at)].sort(), warnings: warningDetails?.length ?? 0 };
  } finally {
    console.log = log;
  }
}

const isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Where ours says another thing on purpose. */
const otherwise = [
  ["`push-tag` is a step type of the version that the suite was recorded with, not of this one", ({ key, value }) => key === "type" && /^push-tag/.test(value)],
  ["`cache` is ours: the published one does not look into it", ({ key }) => key === "cache"],
  ["`arguments` that are no map cannot be any step's", ({ key, value }) => key === "arguments" && !isMap(value)],
  ["an `exec` with nothing in it is a mistake", ({ key, value }) => key === "exec" && !value],
];

const verdict = (outcome) => (/ok: true/.test(outcome) ? "valid" : /at: \[\]/.test(outcome) ? "warned" : "invalid");

test("changed pipelines are judged as the published validator judges them", () => {
  const rows = [];
  for (const model of mutants(models(), seed, count)) rows.push(judged(model, rows.length % 3 ? undefined : { build: { buildVersion: "V2" } }));
  const kept = rows.filter(Boolean);
  assert.ok(kept.length > count * 0.9, `it judged ${kept.length} of ${count}`);
  assert.ok(kept.filter(({ ok }) => ok).length > count * 0.05, "some of them are valid");
  const folder = mkdtempSync(join(tmpdir(), "slipway-mutants-"));
  writeFileSync(join(folder, "validator.jsonl"), kept.map((row) => JSON.stringify(row)).join("\n"));
  const { stdout, stderr } = spawnSync(process.env.SLIPWAY_BIN, ["conformance", "pipelines", folder], { encoding: "utf8", maxBuffer: 1 << 28 });
  rmSync(folder, { recursive: true });
  const said = /^(\d+) passed, (\d+) failed$/m.exec(stdout);
  assert.equal(Number(said?.[1]) + Number(said?.[2]), kept.length, stdout.slice(-2_000) + stderr);

  const wrong = [];
  let elsewhere = 0;
  for (const [, line, expected, got] of stdout.matchAll(/^validator:(\d+): expected (.*), got (.*)$/gm)) {
    const { model } = kept[line - 1];
    const all = places(model).map(({ holder, key }) => ({ key, value: holder[key] }));
    if (otherwise.some(([, holds]) => all.some(holds))) continue;
    // It walks through the letters of a text that stands where steps should, and names each.
    if (verdict(expected) === verdict(got) && /"\d+\|steps"/.test(expected)) continue;
    if (verdict(expected) === verdict(got)) elsewhere++;
    else wrong.push(`${JSON.stringify(model)}\n  expected ${expected}\n  got      ${got}`);
  }
  console.log(`${said[1]} of ${kept.length} the same; ${elsewhere} the same verdict for another place; ${wrong.length} another verdict`);
  assert.deepEqual(wrong, []);
  assert.ok(elsewhere <= kept.length * 0.01, `${elsewhere} of ${kept.length} name another place`);
});

test("arguments: NA is an error for both, or for neither", () => {
  const steps = {
    freestyle: { image: "alpine" },
    composition: { type: "composition", composition: { a: {} }, composition_candidates: { a: {} } },
    deploy: { type: "deploy", kind: "kubernetes", cluster: "a", namespace: "b", service: "c" },
    "launch-composition": { type: "launch-composition", composition: { a: {} } },
    parallel: { type: "parallel", steps: { a: { image: "alpine" } } },
    build: { type: "build", image_name: "a/b" },
    push: { type: "push", candidate: "${{a}}" },
    "git-clone": { type: "git-clone", repo: "a/b" },
    "pending-approval": { type: "pending-approval" },
    plugin: { type: "acme/deploy:1.0.0" },
  };
  const folder = mkdtempSync(join(tmpdir(), "slipway-arguments-"));
  try {
    for (const [name, step] of Object.entries(steps)) {
      const model = { version: "1.0", steps: { it: { ...step, arguments: "NA" } } };
      const file = join(folder, `${name}.json`);
      writeFileSync(file, JSON.stringify(model));
      const { status, stdout } = spawnSync(process.env.SLIPWAY_BIN, ["lint", "-o", "json", file], { encoding: "utf8" });
      assert.equal(status === 0, judged(model).ok, `${name}: ${stdout}`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
