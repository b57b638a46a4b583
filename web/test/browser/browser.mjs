// Starts the mock and a browser on it. Chromium comes from the machine: $CHROMIUM or /usr/bin/chromium.
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test as plain } from 'node:test';
import { chromium } from 'playwright-core';
import { startMock } from '../../mock/server.mjs';

// How long a page may take on a machine that compiles besides. What is promised of time is measured elsewhere, alone.
export const PATIENCE = 60_000;

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

// How long Chromium may take to close a page and to open one. Now and then it never says that it did.
const ANSWERED_WITHIN = 30_000;

async function answered(work) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error('the browser does not answer')), ANSWERED_WITHIN);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

class Browser {
  async start() {
    this.profile = await mkdtemp(join(tmpdir(), 'slipway-web-'));
    this.context = await chromium.launchPersistentContext(this.profile, {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      headless: true,
      args: FLAGS,
      viewport: { width: 1360, height: 850 },
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    return this;
  }

  async end() {
    try {
      await answered(this.context.close());
    } catch {
      spawnSync('pkill', ['-KILL', '-f', `--user-data-dir=${this.profile}`]);
    }
    await rm(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

export async function open({ speed = 1 } = {}) {
  const mock = await startMock({ port: 0, speed });
  let browser = await new Browser().start();
  /** A page for the next test, without what the last one left. */
  const next = async (last) => {
    const begin = async () => {
      await last?.close();
      await browser.context.clearCookies();
      const page = await browser.context.newPage();
      page.setDefaultTimeout(PATIENCE);
      return page;
    };
    try {
      return await answered(begin());
    } catch (error) {
      console.log(`── ${error.message}: another one is started`);
      await browser.end();
      browser = await new Browser().start();
      last = undefined;
      return await answered(begin());
    }
  };
  const signIn = () =>
    browser.context.addCookies([
      { name: 'slipway_session', value: 'mock', url: mock.url, httpOnly: true, sameSite: 'Lax' },
    ]);
  const mode = (value) => browser.context.addCookies([{ name: 'mock', value, url: mock.url }]);
  const close = async () => {
    await browser.end();
    mock.close();
  };
  return {
    mock,
    get context() {
      return browser.context;
    },
    next,
    signIn,
    mode,
    close,
  };
}

// A test that says what the page showed when it fails: a line that is not there does not say why.
export const telling = (page) => (name, body) =>
  plain(name, async (context) => {
    try {
      await body(context);
    } catch (error) {
      const shown = await page()
        .evaluate(() => `${location.href}\n${document.body.innerText.slice(0, 2000)}`)
        .catch((reason) => `${reason}`);
      console.log(`── ${name} failed; the page:\n${shown}\n──`);
      throw error;
    }
  });
