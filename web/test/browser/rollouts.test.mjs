// Rollouts in a real browser, against the mock: the list, one by itself, beside the tree, and what can be asked of it.
import assert from 'node:assert/strict';
import { after, before, beforeEach } from 'node:test';
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
const why = () => page.getByRole('status', { name: 'Why it is not moving' });
const button = (name) =>
  page.getByRole('group', { name: 'What can be asked of it' }).getByRole('button', { name });
const step = (words) =>
  page.getByRole('list', { name: 'Steps' }).getByRole('listitem').filter({ hasText: words });

test('the list has those that need somebody first, and leads to each', async () => {
  await visit('/');
  await page.getByRole('link', { name: 'Rollouts' }).click();
  await page.getByRole('heading', { name: 'Rollouts', level: 1 }).waitFor();
  const rows = page.getByRole('table', { name: 'Rollouts' }).locator('tbody tr');
  await rows.first().getByText('Degraded').waitFor();
  await rows.nth(1).getByText('Step 2 of 6 waits for a person').waitFor();
  await rows.nth(1).getByRole('link', { name: 'web', exact: true }).click();
  await page.waitForURL(/\/applications\/local\/argocd\/shop-frontend\/rollouts\/demo\/web$/);
  await page.getByRole('heading', { level: 1 }).getByText('Paused').waitFor();
});

test('a paused one says why, goes on, is aborted and tried again', async () => {
  await visit('/applications/local/argocd/shop-frontend/rollouts/demo/web');
  await why().getByText('Step 2 of 6 waits for a person').waitFor();
  await step('setWeight: 20').getByText('passed').waitFor();
  await step('setWeight: 50').getByText('pending').waitFor();
  await page.getByText('20 % of the requests').waitFor();
  const canary = page.getByRole('table', { name: 'Revisions' }).locator('tbody tr').first();
  await canary.getByText('registry.local/shop:2.1.0').waitFor();
  await canary.getByText('canary').waitFor();
  // What cannot be done now says why, and does nothing.
  assert.equal(await button('Retry').getAttribute('aria-disabled'), 'true');
  assert.equal(await button('Retry').getAttribute('aria-description'), 'web was not aborted');

  await button('Resume').click();
  await page.getByText('web goes on', { exact: true }).waitFor();
  await why().getByText('waits for the analysis').waitFor();
  await step('analysis').getByText('active').waitFor();
  await page.getByRole('img', { name: /Measurements of success rate: \[0\.99\] \(Successful\)/ }).waitFor();
  assert.equal(await button('Resume').getAttribute('aria-description'), 'web is not paused');

  await button('Abort').click();
  await page.getByRole('dialog').getByText('All requests go back').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Abort' }).click();
  await why().getByText('the stable version serves').waitFor();
  await step('analysis').getByText('failed').waitFor();
  await page.getByText('assessed Failed due to failed (2)').waitFor();
  await button('Retry').click();
  await why().getByText('4 of 5 pods of revision 2').waitFor();
  await button('Promote fully').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Promote fully' }).click();
  await why().getByText('It is where it should be').waitFor();
});

test('beside the tree it is told in brief, with the way to all of it', async () => {
  await visit('/applications/local/argocd/shop-frontend?tab=table&resource=rollout-web');
  const details = page.getByRole('region', { name: 'Rollout web' });
  await details.getByRole('list', { name: 'Steps' }).waitFor();
  await details.getByRole('link', { name: 'Follow and control the rollout' }).click();
  await page.waitForURL(/rollouts\/demo\/web$/);
});

test('of a runtime that is away nothing is asked, and each button says so', async () => {
  await visit('/applications/frankfurt/argocd/search-cluster/rollouts/search/web');
  await why().getByText('the stable version serves').waitFor();
  await button('Retry').and(page.locator('[aria-disabled="true"]')).waitFor();
  const reason = 'The runtime frankfurt is offline; start it to act on this application.';
  for (const name of ['Resume', 'Skip step', 'Promote fully', 'Pause', 'Abort', 'Retry', 'Restart pods'])
    assert.equal(await button(name).getAttribute('aria-description'), reason, name);
});

test('one that is not there is said to be missing', async () => {
  await visit('/applications/local/argocd/demo/rollouts/demo/nothing');
  await page.getByText('No such Rollout').waitFor();
});
