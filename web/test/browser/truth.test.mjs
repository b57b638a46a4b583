// Rows of the first hour as a new user (D23–D35) that are about what a page shows, in the built pages against the mock.
import assert from 'node:assert/strict';
import { after, before, beforeEach } from 'node:test';
import { settled, violations } from './axe.mjs';
import { open, telling } from './browser.mjs';

let world;
let page;
const test = telling(() => page);

before(async () => {
  world = await open({ speed: 4 });
});
after(() => world.close());
beforeEach(async () => {
  page = await world.next(page);
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

test('a sync can be of some resources, and says what it would delete', async () => {
  await visit('/applications/local/argocd/shop-frontend');
  await page.getByRole('button', { name: 'Sync', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Sync shop-frontend' });
  const plan = dialog.getByRole('table', { name: 'Plan' });
  await plan.getByText('apps/Deployment demo/demo').waitFor();
  assert.equal(await dialog.getByRole('alert').count(), 0);
  await dialog.getByRole('checkbox', { name: /^Prune/ }).check();
  await dialog.getByRole('alert').getByText('One object is deleted: batch/Job demo/old-migration.').waitFor();
  assert.match(await plan.locator('tbody tr').first().innerText(), /prune/);
  await plan.getByRole('checkbox', { name: 'ConfigMap demo/settings' }).uncheck();
  await dialog.getByText('Hooks run only when everything is synced.').waitFor();
  // What another revision does not declare, nobody has planned.
  await dialog.getByRole('textbox', { name: 'Revision' }).fill('v2');
  await dialog.getByRole('alert').getByText('What is deleted is known when it is synced').waitFor();
  assert.equal(await dialog.getByText('One object is deleted').count(), 0);
  await dialog.getByRole('textbox', { name: 'Revision' }).fill('');
  await dialog.getByRole('alert').getByText('One object is deleted').waitFor();
  const asked = page.waitForRequest((request) => request.url().endsWith('/sync'));
  await dialog.getByRole('button', { name: 'Sync 2 of 4' }).click();
  assert.deepEqual((await asked).postDataJSON(), {
    prune: true,
    dryRun: false,
    force: false,
    resources: [
      { group: 'apps', kind: 'Deployment', namespace: 'demo', name: 'demo' },
      { group: 'batch', kind: 'Job', namespace: 'demo', name: 'old-migration' },
    ],
  });
  await dialog.waitFor({ state: 'detached' });
});

test('Ctrl-K goes to whatever has a name, and does what can be done to it', async () => {
  await visit('/builds');
  await page.getByRole('button', { name: 'Go to…' }).waitFor();
  await page.keyboard.press('Control+k');
  const box = page.getByRole('combobox', { name: /^Go to a page/ });
  await box.waitFor();
  const found = page.getByRole('listbox', { name: 'Found' }).getByRole('option');
  await found.filter({ hasText: 'platform/api' }).waitFor();
  await settled(page);
  assert.deepEqual(await violations(page, 'the palette'), []);

  await box.fill('shop');
  await found
    .first()
    .and(page.getByRole('option', { selected: true }))
    .getByText('shop-frontend')
    .waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/applications/local/argocd/shop-frontend');
  assert.equal(await box.count(), 0);

  await page.keyboard.press('Control+k');
  // Not what was on screen before anybody had been asked.
  const answered = page.waitForResponse((response) =>
    response.url().includes('/api/applications?search=shop'),
  );
  await box.fill('refresh shop');
  await answered;
  const asked = page.waitForRequest((request) => request.url().endsWith('/shop-frontend/refresh'));
  await found.filter({ hasText: 'Refresh shop-frontend' }).click();
  await asked;

  await page.keyboard.press('Control+k');
  await box.fill('audit');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor();

  await page.keyboard.press('Control+k');
  await box.fill('nothing of this name');
  await page.getByText('Nothing is called “nothing of this name”.').waitFor();
  await page.keyboard.press('Escape');
  await box.waitFor({ state: 'detached' });
});

test('a dialog is about the object that it was opened for: it goes with its page', async () => {
  await visit('/applications/local/argocd/demo?tab=history');
  await page.getByRole('heading', { name: 'demo', level: 1 }).waitFor();
  await page.getByRole('link', { name: 'Applications', exact: true }).first().click();
  await page.getByRole('link', { name: 'payments', exact: true }).click();
  await page.getByRole('tab', { name: 'History' }).click();
  await page.getByRole('button', { name: 'Delete from Git' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('combobox', { name: 'Repository', exact: true }).fill('ada/deploy');
  await dialog.getByRole('button', { name: 'Check' }).click();
  await dialog.getByRole('button', { name: 'Delete', exact: true }).waitFor();
  // Ctrl-K would lead away from what is typed, and take the next Escape from the dialog.
  await page.keyboard.press('Control+k');
  await settled(page);
  assert.equal(await page.getByRole('dialog').count(), 1);
  // Another application, on the same kind of page.
  await page.evaluate(() => history.go(-2));
  await page.getByRole('heading', { name: 'demo', level: 1 }).waitFor();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
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

test('a resource shows its events and its manifest, and what can be done to it is done', async () => {
  await visit('/applications/local/argocd/sandbox?tab=table');
  const choose = (name) => page.getByRole('table').getByRole('button', { name }).click();
  await choose(/xx39u/);
  const pod = page.getByRole('region', { name: /^Pod demo-/ });
  const events = pod.getByRole('region', { name: 'Events' });
  await events.getByText('FailedScheduling').waitFor();
  await events.getByText('12 times').waitFor();
  await pod.getByRole('button', { name: 'Manifest' }).click();
  const manifest = page.getByRole('dialog', { name: /^Pod demo-/ });
  await manifest.getByText('uid: pod-demo-').waitFor();
  await page.keyboard.press('Escape');
  // Opened again it is asked for again.
  const again = page.waitForRequest((request) => request.url().includes('/sandbox/resource?'));
  await pod.getByRole('button', { name: 'Manifest' }).click();
  await again;
  await manifest.getByText('uid: pod-demo-').waitFor();
  await page.keyboard.press('Escape');
  // What was noted meanwhile turns up.
  const noted = page.waitForRequest((request) => request.url().includes('/sandbox/events?'));
  world.mock.announce('application', 'local/argocd/sandbox');
  await noted;
  await pod.getByRole('button', { name: 'Actions' }).click();
  await page.getByText('There are no actions for this kind.').waitFor();
  await page.keyboard.press('Escape');

  await page.goto(`${world.mock.url}/applications/local/argocd/demo?tab=table&resource=deployment-demo`);
  const deployment = page.getByRole('region', { name: 'Deployment demo' });
  await deployment.getByRole('button', { name: 'Actions' }).click();
  assert.ok(await page.getByRole('menuitem', { name: 'Resume (not now)' }).isDisabled());
  await page.getByRole('menuitem', { name: 'Scale' }).click();
  const dialog = page.getByRole('dialog', { name: 'Scale Deployment demo?' });
  await dialog.getByRole('button', { name: 'Scale' }).click();
  await dialog.getByText('Enter replicas').waitFor();
  await dialog.getByLabel('replicas').fill('many');
  await dialog.getByRole('button', { name: 'Scale' }).click();
  await dialog.getByRole('alert').getByText('has to be a number').waitFor();
  await dialog.getByLabel('replicas').fill('3');
  await settled(page);
  assert.deepEqual(await violations(page, 'action'), []);
  const asked = page.waitForRequest((request) => request.url().endsWith('/action'));
  await dialog.getByRole('button', { name: 'Scale' }).click();
  assert.deepEqual((await asked).postDataJSON(), {
    group: 'apps',
    kind: 'Deployment',
    namespace: 'demo',
    resourceName: 'demo',
    action: 'scale',
    parameters: { replicas: '3' },
  });
  await dialog.waitFor({ state: 'detached' });
});

test('several applications are synced at once, and each says how that went', async () => {
  await visit('/applications');
  const bar = page.getByRole('group', { name: 'Chosen applications' });
  assert.equal(await bar.getByRole('button', { name: 'Sync…' }).getAttribute('aria-disabled'), 'true');
  await page.getByRole('checkbox', { name: 'Choose shop-frontend' }).check();
  await page.getByRole('checkbox', { name: 'Choose search-cluster' }).check();
  await bar.getByText('2 chosen').waitFor();
  // Filters change what is listed and not what is chosen.
  await page.getByRole('searchbox', { name: 'Search' }).fill('pay');
  await page.getByRole('checkbox', { name: 'Choose payments' }).check();
  await bar.getByText('3 chosen').waitFor();
  // Whoever thinks better of it keeps what they chose.
  await bar.getByRole('button', { name: 'Refresh…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await bar.getByText('3 chosen').waitFor();
  await bar.getByRole('button', { name: 'Sync…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Sync 3 applications' });
  await dialog.getByRole('checkbox', { name: /^Prune/ }).check();
  await dialog.getByRole('alert').getByText('are deleted in all of them').waitFor();
  await settled(page);
  assert.deepEqual(await violations(page, 'several'), []);
  const bodies = [];
  page.on('request', (request) => request.url().endsWith('/sync') && bodies.push(request.postDataJSON()));
  await dialog.getByRole('button', { name: 'Sync', exact: true }).click();
  await dialog.getByText('1 of 3 failed.').waitFor();
  const row = (name) => dialog.getByRole('row', { name: new RegExp(name) });
  await row('search-cluster').getByText('is not connected').waitFor();
  for (const name of ['shop-frontend', 'payments'])
    await row(name).getByText('The sync was asked for').waitFor();
  const body = { prune: true, dryRun: false, force: false };
  assert.deepEqual(bodies, [body, body, body]);
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await dialog.waitFor({ state: 'detached' });
  await bar.getByText('chosen').waitFor({ state: 'detached' });
});

test('an order to several outlives the list that they were chosen from, and can be stopped', async () => {
  await visit('/applications');
  for (const name of ['shop-frontend', 'payments', 'demo', 'sandbox', 'search-cluster'])
    await page.getByRole('checkbox', { name: `Choose ${name}` }).check();
  await page.getByRole('searchbox', { name: 'Search' }).fill('shop');
  await page.getByRole('row', { name: /payments/ }).waitFor({ state: 'detached' });
  let letGo;
  const held = new Promise((done) => (letGo = done));
  await page.route('**/sync', async (route) => {
    await held;
    await route.continue();
  });
  // None of them fits any more, as those that were OutOfSync and are synced.
  let gone = false;
  await page.route('**/api/applications?*', async (route) => {
    const answer = await route.fetch();
    const list = await answer.json();
    await route.fulfill({ json: gone ? { ...list, applications: [], total: 0 } : list });
  });
  await page.getByRole('button', { name: 'Sync…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Sync 5 applications' });
  await dialog.getByRole('button', { name: 'Sync', exact: true }).click();
  await dialog.getByText('Asking…').nth(3).waitFor();
  gone = true;
  world.mock.announce('all', '');
  await page.getByText('No application matches').waitFor();
  await dialog.getByRole('button', { name: 'Stop' }).click();
  letGo();
  await dialog.getByText('1 of 5 were not asked.').waitFor();
  await dialog.getByText('Not asked', { exact: true }).waitFor();
  await settled(page);
  assert.deepEqual(await violations(page, 'stopped'), []);
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await page.getByText('1 chosen').waitFor();
});

test('resources are found by kind, name and state, and the address knows of it', async () => {
  await visit('/applications/frankfurt/argocd/search-cluster?tab=table');
  const table = page.getByRole('table', { name: 'Resources' });
  await table.getByRole('row').nth(12).waitFor();
  await page.getByRole('searchbox', { name: 'Find' }).fill('service');
  await page.getByText('1 of 45 shown').waitFor();
  assert.match(page.url(), /find=service/);
  assert.equal(await table.locator('tbody tr').count(), 1);
  // In the picture too, and after a reload.
  await page.getByRole('tab', { name: 'Tree' }).click();
  await page.getByLabel(/^Service demo/).waitFor();
  await page.reload();
  await page.getByText('1 of 45 shown').waitFor();
  await page.getByLabel(/^Service demo/).waitFor();
  assert.equal(await page.locator('.react-flow__node').count(), 2);
  await page.getByRole('searchbox', { name: 'Find' }).fill('no such thing');
  await page.getByText('No resource fits').waitFor();
  await page.getByRole('button', { name: 'Show all' }).click();
  await page
    .getByRole('group', { name: 'Sync', exact: true })
    .getByRole('button', { name: /^Synced/ })
    .click();
  await page.getByText('3 of 45 shown').waitFor();
  await settled(page);
  assert.deepEqual(await violations(page, 'find'), []);
});

test('what a sync did to each object and hook is listed, failures with their reason', async () => {
  await visit('/applications/frankfurt/argocd/search-cluster');
  await page.getByRole('tab', { name: 'Last sync' }).click();
  const table = page.getByRole('table', { name: 'Results of the last sync' });
  const failed = table.getByRole('row', { name: /Deployment demo/ });
  await failed.getByText('Sync failed').waitFor();
  await failed.getByText('spec.replicas: Invalid value: -1').waitFor();
  assert.match(
    await table.getByRole('row', { name: /Job migrate/ }).innerText(),
    /PreSync hook[^]*Succeeded/,
  );
  await page.getByText('1,200 more are not listed.').waitFor();
  await settled(page);
  assert.deepEqual(await violations(page, 'results'), []);
  await page.goto(`${world.mock.url}/applications/local/argocd/payments?tab=sync`);
  await page.getByRole('row', { name: /Job migrate/ }).waitFor();
});
