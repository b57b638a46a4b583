// The published Terraform provider's own acceptance tests, unchanged, run by OpenTofu against this platform.
// usage: SLIPWAY_BIN=… node --test e2e/oracle/terraform.test.mjs; needs `scripts/terraform.sh build` (the first time takes minutes).
// Tests of what Slipway does in another way, or of accounts of the installation, are listed with the reason.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFileSync, spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { Platform } from "../platform.mjs";

const scripts = resolve(import.meta.dirname, "../../scripts");
const platform = new Platform(["--no-demo", "--executor", "host"]);
let home;

const otherwise = {
  TestAccountIDPCodefreshProject_AllSupportedTypes: "identity providers are OpenID Connect ones; LDAP and SAML, which it walks through, are not there",
  TestAccCodefreshAccountGitopsSettings_basic: "an account's Git settings are those of its GitOps runtimes",
  TestAccCodefreshAbacRulesConfig: "rules about promotions of GitOps runtimes, written over GraphQL, which reads only",
};

// It asks the provider of a test before it for the account's name, and ends the process where there was none.
const needsOneBefore = { TestAccCodefreshStepTypes: "TestAccCodefreshProject_basic" };

before(async () => {
  home = execFileSync(join(scripts, "terraform.sh"), ["build"], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
  await platform.start();
  // The tests name Git integrations of their authors' account; here they would be refused.
  for (const name of ["git", "shared_context1", "shared_context1_update"]) {
    const spec = { type: "git.github", data: { auth: { type: "basic", password: "none" } } };
    const headers = { authorization: platform.credentials.apiKey, "content-type": "application/json" };
    const made = await fetch(`${platform.url}/api/contexts`, { method: "POST", headers, body: JSON.stringify({ metadata: { name }, spec }) });
    assert.ok(made.ok, await made.text());
  }
});
after(() => platform.remove());

const acceptance = (...words) =>
  spawnSync(join(home, "acceptance"), words, {
    cwd: join(home, "codefresh"),
    encoding: "utf8",
    timeout: 600_000,
    maxBuffer: 1 << 28,
    env: {
      PATH: process.env.PATH,
      HOME: platform.folder,
      TMPDIR: platform.folder,
      TF_ACC: "1",
      TF_ACC_TERRAFORM_PATH: join(home, "tofu"),
      TF_ACC_PROVIDER_HOST: "registry.opentofu.org",
      CHECKPOINT_DISABLE: "1",
      CODEFRESH_API_URL: `${platform.url}/api`,
      CODEFRESH_API2_URL: `${platform.url}/2.0/api/graphql`,
      CODEFRESH_API_KEY: platform.credentials.apiKey,
    },
  });

test("the provider's acceptance tests", async (t) => {
  const names = acceptance("-test.list", "^TestAcc").stdout.split("\n").filter((name) => name.startsWith("TestAcc"));
  assert.ok(names.length >= 40, `${names.length} tests are there`);
  for (const name of names) {
    await t.test(name, { skip: otherwise[name] }, () => {
      const { status, stdout, stderr } = acceptance("-test.v", "-test.run", `^(${[needsOneBefore[name], name].filter(Boolean).join("|")})$`);
      assert.equal(status, 0, (stdout + stderr).slice(-6_000));
      assert.match(stdout, new RegExp(`--- PASS: ${name}`));
    });
  }
});
