// Rows of the first hour as a new user (D23–D35) that are about what a page shows, in the built pages against the mock.
import assert from 'node:assert/strict';
import { after, before, beforeEach } from 'node:test';
import { PATIENCE, open, telling } from './browser.mjs';

let world;
let page;
const test = telling(() => page);

before(async () => {
  world = await open({ speed: 4 });
});
after(() => world.close());
beforeEach(async () => {
  await page?.close();
  await world.context.clearCookies();
  page = await world.context.newPage();
  page.setDefaultTimeout(PATIENCE);
});

const visit = async (path) => {
  await world.signIn();
  await page.goto(world.mock.url + path);
};

test('D23: before a rollback its changes are shown, and how long each deployment took', async () => {
  await visit('/applications/local/argocd/payments?tab=history');
  const table = page.getByRole('table', { name: 'Deployments' });
  await table.getByRole('columnheader', { name: 'Duration' }).waitFor();
  const rows = table.locator('tbody tr');
  await rows.first().getByText('1 m 15 s').waitFor();
  const asked = page.waitForRequest((request) => request.url().includes('/diff?deployment=1'));
  await rows.last().getByRole('button', { name: 'Roll back' }).click();
  await asked;
  const changes = page.getByRole('dialog').getByRole('region', { name: 'Changes of the rollback' });
  // What only a prune would delete stays, so it is not counted.
  await changes.getByText('1 resource would change').waitFor();
  await changes
    .getByRole('region', { name: 'Change of Deployment demo' })
    .getByText('memory: 64Mi')
    .waitFor();
  assert.equal(await changes.getByText('old-migration').count(), 0);
});

test('D28: a pipeline page is about that pipeline: its builds first, its graph, its text and its description', async () => {
  await visit('/pipelines/platform%2Fapi');
  await page.getByRole('heading', { name: 'platform/api', level: 1 }).waitFor();
  await page.getByText('Builds and tests the API').waitFor();
  const heads = await page.getByRole('heading', { level: 2 }).allTextContents();
  assert.deepEqual(heads.slice(0, 2), ['Builds', 'Definition']);
  assert.ok(!heads.some((head) => /check a pipeline/i.test(head)), heads.join(', '));
  const graph = page.getByRole('region', { name: 'Graph of the steps' });
  await graph.getByText('package').waitFor();
  assert.deepEqual(await graph.locator('div[title]').allTextContents(), ['test', 'package']);
  const text = page.getByRole('textbox', { name: 'Steps of the pipeline' });
  await text.getByText('image').first().waitFor();
  assert.equal(await text.getAttribute('aria-readonly'), 'true');
  const before = await text.innerText();
  await text.click();
  await page.keyboard.type('x');
  assert.equal(await text.innerText(), before, 'it is for reading');
  // A link that looks like the buttons beside it.
  const [edit, remove] = await Promise.all(
    [page.getByRole('link', { name: 'Edit' }), page.getByRole('button', { name: 'Delete', exact: true })].map(
      (each) =>
        each.evaluate((element) => {
          const { height, borderTopWidth, backgroundColor } = getComputedStyle(element);
          return { height, borderTopWidth, backgroundColor };
        }),
    ),
  );
  assert.deepEqual(edit, remove);
});

test('D30: one is singular, and none is said in words', async () => {
  await visit('/pipelines/new');
  const editor = page.getByRole('textbox', { name: 'Pipeline text' });
  await editor.fill('version: "1.0"\nsteps:\n  a:\n    type: composition\n');
  await page.getByRole('status').getByText('Valid, with 1 warning', { exact: true }).waitFor();
  await editor.fill('version: "1.0"\nsteps:\n  a:\n    image:\n');
  await page.getByRole('status').getByText('1 error', { exact: true }).waitFor();
  await visit('/projects');
  await page.getByText(/· 1 variable ·/).waitFor();
  await page
    .getByText(/· No variables ·/)
    .first()
    .waitFor();
  assert.equal(await page.getByText(/\b0 variables|\b1 variables/).count(), 0);
});

test('D33: the list says when something was deployed, not when it was last heard of', async () => {
  await visit('/applications');
  const heads = page.getByRole('table', { name: 'Applications' }).getByRole('columnheader');
  await heads.filter({ hasText: 'Deployed' }).waitFor();
  assert.ok(!(await heads.allTextContents()).some((head) => /seen/i.test(head)));
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'demo', exact: true }) });
  const deployed = world.mock.state.answer(
    'GET',
    ['applications', 'local', 'argocd', 'demo'],
    new URLSearchParams(),
    {},
  );
  assert.equal(await row.locator('time').last().getAttribute('datetime'), deployed.history.at(-1).deployedAt);
});

test('D34: Home shows what is in trouble first, and its tutorial goes away for good', async () => {
  await visit('/');
  const rows = page.getByRole('table', { name: 'Applications' }).locator('tbody tr');
  await rows.first().getByText('Degraded').waitFor();
  const healthy = await rows.evaluateAll((all) =>
    all.map((row) => /Healthy/.test(row.innerText) && /Synced/.test(row.innerText)),
  );
  assert.deepEqual(
    healthy,
    healthy.toSorted((one, other) => one - other),
    'none that is well stands before one that is not',
  );
  const tutorial = page.getByRole('heading', { name: /^Try it/ });
  await tutorial.waitFor();
  await page.getByRole('button', { name: 'Dismiss' }).click();
  await tutorial.waitFor({ state: 'detached' });
  await page.reload();
  await rows.first().waitFor();
  await page.getByRole('table', { name: 'Latest builds' }).waitFor();
  assert.equal(await tutorial.count(), 0);
  await page.evaluate(() => localStorage.clear());
});

test('D35: waiting for a runner, for a person and for a sync are three signs', async () => {
  const sign = async (locator) => {
    const icon = locator.locator('[aria-hidden=true][data-tone]').first();
    return icon.evaluate((element) => `${element.innerHTML} ${getComputedStyle(element).color}`);
  };
  await visit('/builds');
  const status = (word) =>
    page
      .getByRole('table')
      .locator('[data-tone]')
      .filter({ hasText: new RegExp(`^${word}$`) })
      .first();
  await status('pending').waitFor();
  await status('pending-approval').waitFor();
  const [pending, approval] = [await sign(status('pending')), await sign(status('pending-approval'))];
  await visit('/applications');
  const drift = page
    .locator('[data-tone]')
    .filter({ hasText: /^Out of sync$/ })
    .first();
  await drift.waitFor();
  const three = new Set([pending, approval, await sign(drift)].map((each) => each.replace(/ rgb.*/, '')));
  assert.equal(three.size, 3, [...three].join('\n'));
});

test('a browser that thinks it is offline shows a platform that answers', async () => {
  await world.signIn();
  await page.goto(`${world.mock.url}/`);
  await page.getByRole('heading', { name: 'Home' }).waitFor();
  await page.evaluate(() => window.dispatchEvent(new Event('offline')));
  await page.getByRole('link', { name: 'Pipelines', exact: true }).click();
  await page.getByRole('row').nth(1).waitFor();
});
