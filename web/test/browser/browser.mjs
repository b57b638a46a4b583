// Starts the mock and a browser on it. Chromium comes from the machine: $CHROMIUM or /usr/bin/chromium.
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

export async function open({ speed = 1 } = {}) {
  const mock = await startMock({ port: 0, speed });
  const profile = await mkdtemp(join(tmpdir(), 'slipway-web-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    args: FLAGS,
    viewport: { width: 1360, height: 850 },
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  const signIn = () =>
    context.addCookies([
      { name: 'slipway_session', value: 'mock', url: mock.url, httpOnly: true, sameSite: 'Lax' },
    ]);
  const mode = (value) => context.addCookies([{ name: 'mock', value, url: mock.url }]);
  const close = async () => {
    await context.close();
    mock.close();
    await rm(profile, { recursive: true, force: true });
  };
  return { mock, context, signIn, mode, close };
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
