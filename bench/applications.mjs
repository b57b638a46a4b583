// Many Applications in the list, as a person in a browser meets them: first row, search, filter, scrolling, one change; and the bare answers of the API beside.
// usage: SLIPWAY_BIN=target/release/slipway node bench/applications.mjs [COUNT=10000]     (needs e2e/node_modules and Chromium)
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Platform, until } from "../e2e/platform.mjs";
import { openBrowser, signIn } from "../e2e/browser.mjs";

const count = Number(process.argv[2] ?? 10_000);
const ROUNDS = 5;
const platform = new Platform();
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const timed = async (what) => {
  const began = performance.now();
  await what();
  return performance.now() - began;
};
const row = (name, values) => console.log(`${name.padEnd(34)} ${median(values).toFixed(0).padStart(6)} ms   (${values.map((value) => value.toFixed(0)).join(", ")})`);
const name = (at) => `many-${String(at).padStart(5, "0")}`;

await platform.start();
let browser;
try {
  const app = await until("the demo is Healthy", async () => {
    const app = await platform.application();
    return app?.healthStatus === "Healthy" && app;
  }, 120);
  const made = Array.from({ length: count }, (_, at) => ({ ...app, name: name(at), namespace: "many", healthStatus: at % 100 === 7 ? "Degraded" : "Healthy" }));
  const reported = await timed(async () => {
    for (let at = 0; at < made.length; at += 250) await platform.report({ applications: made.slice(at, at + 250) });
  });
  console.log(`${count} Applications, ${ROUNDS} rounds each; reported in ${(reported / 1000).toFixed(1)} s`);
  const api = async (query) => row(`API: ${query}`, await rounds(() => platform.api(`/api/applications?${query}`)));
  async function rounds(what) {
    const values = [];
    for (let round = 0; round < ROUNDS; round += 1) values.push(await timed(() => what(round)));
    return values;
  }
  await api("limit=100");
  await api("limit=100&search=many-00999");
  await api("limit=100&health=Degraded");
  const opened = await openBrowser();
  browser = opened.browser;
  const { page } = opened;
  await signIn(page, platform);
  const list = `${platform.url}/applications?namespace=many`;
  row("page: first row", await rounds(async () => {
    await page.goto("about:blank");
    await page.goto(list);
    await page.getByRole("link", { name: name(0) }).waitFor();
  }));
  row("page: filter by state", await rounds(async () => {
    await page.getByRole("button", { name: /^Degraded \d/ }).click();
    await page.getByRole("link", { name: name(7) }).waitFor();
    await page.getByRole("link", { name: name(0), exact: true }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Clear filters" }).click();
    await page.getByRole("link", { name: name(0) }).waitFor();
  }));
  row("page: search for one", await rounds(async (round) => {
    const wanted = name(count - 1 - round);
    await page.getByLabel("Search").fill(wanted);
    await page.getByRole("link", { name: wanted }).waitFor();
  }));
  await page.goto(list);
  await page.getByRole("link", { name: name(0) }).waitFor();
  row("page: one change, reported to shown", await rounds(async (round) => {
    const health = round % 2 === 0 ? "Progressing" : "Healthy";
    await platform.report({ applications: [{ ...made[0], healthStatus: health }] });
    await page.getByRole("row").filter({ hasText: name(0) }).getByText(health).waitFor();
  }));
  console.log(`nodes in the page: ${await page.evaluate(() => document.querySelectorAll("*").length)}`);
  if (process.env.SLIPWAY_SHOTS) {
    mkdirSync(process.env.SLIPWAY_SHOTS, { recursive: true });
    await page.screenshot({ path: join(process.env.SLIPWAY_SHOTS, "applications.png") });
  }
} finally {
  await browser?.close();
  await platform.remove();
}
