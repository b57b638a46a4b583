// Chromium of the machine, as a person's browser: $CHROMIUM or /usr/bin/chromium.
import { chromium } from "playwright-core";
import { quiet } from "./quiet.mjs";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export async function openBrowser() {
  const apart = await quiet(process.env.CHROMIUM ?? "/usr/bin/chromium");
  const browser = await chromium.launch({ executablePath: apart.executablePath, headless: true, args: [...FLAGS, ...apart.args] });
  browser.on("disconnected", apart.close);
  const context = await browser.newContext({ viewport: { width: 1360, height: 850 }, colorScheme: process.env.DARK ? "dark" : "light" });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  return { browser, page, errors };
}

export async function signIn(page, platform) {
  await page.goto(platform.url);
  await page.getByLabel("E-mail").fill(platform.credentials.adminEmail);
  await page.getByLabel("Password", { exact: true }).fill(platform.credentials.adminPassword);
  await page.getByRole("button", { name: "Sign in" }).click();
  // The sign-in page has a heading too: it must be gone first.
  await page.getByRole("button", { name: "Sign in" }).waitFor({ state: "detached", timeout: 60_000 });
  await page.getByRole("heading", { level: 1 }).waitFor({ timeout: 60_000 });
  const font = await page.evaluate(() => getComputedStyle(document.body).fontFamily);
  if (!font.includes("system-ui")) throw new Error(`the page has lost its styles: ${font}`);
}
