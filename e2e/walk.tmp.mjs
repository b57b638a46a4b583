import { openBrowser, signIn } from "./browser.mjs";
const { browser, page, errors } = await openBrowser();
const shot = (n) => page.screenshot({ path: `/root/shots/${n}.png` });
const p = { url: "http://127.0.0.1:8080", credentials: { adminEmail: "admin@slipway.local", adminPassword: "nisu-sssg-vnic-fyw8" } };
await signIn(page, p); await page.waitForTimeout(1000); await shot("home");
await page.getByRole("link", { name: "Builds" }).first().click(); await page.waitForTimeout(800); await shot("builds");
await page.getByText("Say hello").first().click(); await page.waitForTimeout(1500); await shot("build");
await page.getByRole("link", { name: "Applications" }).first().click(); await page.waitForTimeout(800); await shot("apps");
await page.getByText("demo", { exact: true }).first().click(); await page.waitForTimeout(1500); await shot("app");
await page.getByRole("link", { name: "Pipelines" }).first().click(); await page.waitForTimeout(800); await shot("pipelines");
for (const n of ["Runtimes", "Repositories"]) { await page.getByRole("link", { name: n }).first().click(); await page.waitForTimeout(800); await shot(n); }
console.log(errors);
await browser.close();
