// `slipway run FILE`: the same engine on this machine, no server.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { inherited } from "../platform.mjs";

const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const folder = mkdtempSync(join(tmpdir(), "slipway-e2e-local-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const env = {
  ...inherited(),
  HOME: folder,
  TMPDIR: folder,
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "Ada",
  GIT_AUTHOR_EMAIL: "ada@example.com",
  GIT_COMMITTER_NAME: "Ada",
  GIT_COMMITTER_EMAIL: "ada@example.com",
};
const run = (program, args, options = {}) =>
  new Promise((done) =>
    execFile(program, args, { env, ...options }, (error, stdout, stderr) =>
      done({ code: error?.code ?? 0, stdout, stderr }),
    ),
  );

const pipeline = `version: "1.0"
steps:
  main_clone:
    type: git-clone
    repo: team/app
    revision: \${{CF_REVISION}}
  look:
    image: ignored-on-the-host
    working_directory: \${{main_clone}}
    commands:
      - cat greeting.txt
      - test "$WORD" = "given"
      - echo "branch \${{CF_BRANCH}}"
`;

async function working_copy() {
  const work = mkdtempSync(join(folder, "work-"));
  const git = (...args) => run("git", ["-C", work, ...args]);
  await git("init", "-q", "-b", "trunk");
  await git("remote", "add", "origin", "https://example.com/team/app.git");
  writeFileSync(join(work, "codefresh.yml"), pipeline);
  writeFileSync(join(work, "greeting.txt"), "committed\n");
  await git("add", ".");
  await git("commit", "-q", "-m", "first");
  return { work, git };
}

test("the working copy is built as it is, changes included, and nothing is left behind", async () => {
  const { work, git } = await working_copy();
  writeFileSync(join(work, "greeting.txt"), "changed, not committed\n");
  const file = join(work, "codefresh.yml");
  const ran = await run(binary, ["run", file, "--executor", "host", "-v", "WORD=given"]);
  assert.equal(ran.code, 0, ran.stdout + ran.stderr);
  assert.match(ran.stdout, /^look │ changed, not committed$/m);
  assert.match(ran.stdout, /^look │ branch trunk$/m);
  assert.match(ran.stderr, /uncommitted changes/);
  assert.match(ran.stderr, /── look success/);
  assert.match(ran.stderr, /── success after/);
  assert.equal((await git("status", "--porcelain")).stdout, " M greeting.txt\n");
  assert.deepEqual(readdirSync(folder).filter((name) => name.startsWith("slipway-run-")), []);
});

test("a failed step and a broken file have exit codes of their own", async () => {
  const { work } = await working_copy();
  const file = join(work, "codefresh.yml");
  const failed = await run(binary, ["run", file, "--executor", "host", "-v", "WORD=other"]);
  assert.equal(failed.code, 1, failed.stdout + failed.stderr);
  assert.match(failed.stderr, /── look error/);
  writeFileSync(file, pipeline.replace("steps:", "stepz:"));
  const broken = await run(binary, ["run", file, "--executor", "host"]);
  assert.equal(broken.code, 2, broken.stdout + broken.stderr);
  assert.match(broken.stderr, /codefresh\.yml:\d+:\d+: .*stepz/);
});
