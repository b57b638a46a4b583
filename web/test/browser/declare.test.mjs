// A new Application is written on the page, checked by the runtime, and committed as the person who wrote it. Against the mock.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { settled, violations } from './axe.mjs';
import { open } from './browser.mjs';

let world;
let page;

before(async () => {
  world = await open({ speed: 4 });
});
after(() => world.close());
beforeEach(async () => {
  page = await world.next(page);
  await world.signIn();
});

const button = (name) => page.getByRole('button', { name, exact: true });
const field = (name) =>
  page.getByRole('textbox', { name, exact: true }).or(page.getByRole('combobox', { name, exact: true }));
const typed = async () => (await page.locator('.cm-content').innerText()).replaceAll(' ', ' ');

async function write(name) {
  await page.goto(`${world.mock.url}/applications`);
  await page.getByRole('link', { name: 'New application' }).click();
  await field('Name').fill(name);
  await field('Repository URL').fill('https://git.example.com/ada/deploy.git');
  await field('Path').fill('shop');
  await field('Namespace').fill('shop');
  await field('Repository').fill('ada/deploy');
}

test('what is missing is said at its field, and nothing is sent', async () => {
  const sent = [];
  page.on('request', (request) => request.url().endsWith('/create') && sent.push(request.url()));
  await page.goto(`${world.mock.url}/applications/new`);
  await field('Name').waitFor();
  await button('Commit').click();
  await page.getByText('Enter a name', { exact: true }).waitFor();
  await page.getByText('Enter where the manifests are').waitFor();
  await page.getByText('Enter owner/name').waitFor();
  await settled(page);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(sent, []);
});

test('everything that the runtime finds is said at once; then it is checked, committed, and found', async () => {
  await write('shop-new');
  await field('Path').fill('nowhere');
  await field('Repository URL').fill('https://git.example.com/ada/absent.git');
  await button('Commit').click();
  await page.getByText('Nothing was committed:').waitFor();
  const said = await page.getByRole('alert').filter({ hasText: 'Nothing was committed' }).innerText();
  assert.match(said, /spec\.source\.repoURL: repository/);
  assert.match(said, /spec\.source\.path: path nowhere is not in the repository/);
  await settled(page);
  assert.deepEqual(await violations(page), []);
  await field('Path').fill('shop');
  await field('Repository URL').fill('https://git.example.com/ada/deploy.git');
  assert.equal(await page.getByText('Nothing was committed:').count(), 0, 'it is another application now');
  await button('Check').click();
  await page.getByText('Nothing is wrong with it; nothing was committed.').waitFor();
  await button('Commit').click();
  await page.getByRole('heading', { name: 'Committed' }).waitFor();
  await page.getByText('4f1d3b0 on main, by Ada Lovelace <ada@example.com>.').waitFor();
  await page.getByText('argocd/root was asked to look at it at once.').waitFor();
  // It is there as soon as the runtime has it, without anybody asking again.
  await page.getByRole('link', { name: 'shop-new', exact: true }).click();
  await page.getByRole('heading', { name: 'shop-new', level: 1 }).waitFor();
  await page.getByText('https://git.example.com/ada/deploy.git').waitFor();
  await page.getByText('https://kubernetes.default.svc, namespace shop').waitFor();
});

test('what is typed while a commit is on its way does not hide what became of it', async () => {
  await write('shop-slow');
  let letGo;
  const held = new Promise((done) => (letGo = done));
  await page.route('**/create', async (route) => {
    await held;
    await route.continue();
  });
  const asked = page.waitForRequest((request) => request.url().endsWith('/shop-slow/create'));
  await button('Commit').click();
  await asked;
  await field('Name').fill('shop-other');
  await field('Branch').fill('next');
  letGo();
  await page.getByRole('heading', { name: 'Committed' }).waitFor();
  await page.getByRole('link', { name: 'shop-slow', exact: true }).waitFor();
});

test('whatever is written as YAML, the page stays, and says what is missing', async () => {
  await page.goto(`${world.mock.url}/applications/new`);
  await field('Repository').fill('ada/deploy');
  await page.getByText('YAML', { exact: true }).click();
  const text = page.locator('.cm-content');
  await text.waitFor();
  // A pattern that nobody quoted is an alias.
  await text.fill('metadata:\n  name: shop-hydrated\nspec: *.1');
  await page.getByText('line 3, column 7: the alias *.1 names nothing').waitFor();
  await settled(page);
  assert.deepEqual(await violations(page), []);
  // No form has fields for this; what is needed then, the runtime says.
  const spec = 'spec: {sourceHydrator: {}, destination: {name: in-cluster}}';
  await text.fill(`metadata: {}\n${spec}`);
  await button('Check').click();
  await page.getByRole('alert').filter({ hasText: 'metadata.name: Enter a name' }).waitFor();
  await text.fill(`metadata: {name: shop-hydrated}\n${spec}`);
  await button('Check').click();
  await page.getByText('Nothing is wrong with it; nothing was committed.').waitFor();
});

test('it is for the runtime that the list was narrowed to', async () => {
  await page.goto(`${world.mock.url}/applications?runtime=frankfurt`);
  await page.getByRole('link', { name: 'New application' }).first().click();
  await field('Name').waitFor();
  assert.equal(await field('Runtime').inputValue(), 'frankfurt');
});

test('a runtime that goes offline takes nothing with it that was typed', async () => {
  let offline = false;
  await page.route('**/api/runtimes', async (route) => {
    const answer = await route.fetch();
    const local = (await answer.json()).find(({ name }) => name === 'local');
    await route.fulfill({
      json: [
        { ...local, online: !offline },
        { ...local, name: 'paris' },
      ],
    });
  });
  await write('shop-kept');
  const runtime = field('Runtime');
  const chosen = await runtime.inputValue();
  assert.equal(chosen, 'local');
  offline = true;
  world.mock.announce('runtime', 'local');
  await page.getByRole('option', { name: 'local (offline)' }).waitFor({ state: 'attached' });
  assert.equal(await runtime.inputValue(), 'local');
  assert.equal(await field('Name').inputValue(), 'shop-kept');
});

test('form and YAML say the same, and what the form has no field for stays', async () => {
  await write('shop-yaml');
  await page.getByText('Helm chart', { exact: true }).click();
  await field('Chart').fill('redis');
  await field('Version').fill('1.10');
  await page.getByText('YAML', { exact: true }).click();
  await page.locator('.cm-content').waitFor();
  const text = await typed();
  assert.match(text, /name: shop-yaml/);
  assert.match(text, /targetRevision: "1\.10"/);
  assert.match(text, /chart: redis/);
  await page
    .locator('.cm-content')
    .fill(text.replace('chart: redis', 'chart: valkey # faster').replace('spec:', 'spec:\n  oops: 1'));
  await page.getByText('Comments are not kept').waitFor();
  await page.getByText('Form', { exact: true }).click();
  assert.equal(await field('Chart').inputValue(), 'valkey');
  await button('Commit').click();
  await page.getByText('there is no such field').waitFor();
  await page.getByText('YAML', { exact: true }).click();
  await page.locator('.cm-content').fill('spec: [');
  await page.getByText('The YAML cannot be read').waitFor();
  await settled(page);
  assert.deepEqual(await violations(page), []);
});

test('one is deleted from Git after it was said what goes with it', async () => {
  await page.goto(`${world.mock.url}/applications/local/argocd/payments`);
  await button('Delete from Git').click();
  const dialog = page.getByRole('dialog');
  const press = (name) => dialog.getByRole('button', { name, exact: true }).click();
  await press('Check');
  await dialog.getByText('Enter owner/name').waitFor();
  await dialog.getByRole('combobox', { name: 'Repository', exact: true }).fill('ada/deploy');
  await dialog.getByRole('textbox', { name: 'File', exact: true }).fill('apps/other.yaml');
  await press('Check');
  await dialog.getByText('ada/deploy has no file').waitFor();
  await dialog.getByRole('textbox', { name: 'File', exact: true }).fill('');
  await press('Check');
  await dialog.getByText('What it deployed stays: it has no resources-finalizer.').waitFor();
  await settled(page);
  assert.deepEqual(await violations(page), []);
  await press('Delete');
  await dialog.getByText('Deleted by').waitFor();
  // The runtime deletes it a moment later: then the page shows no state of it any more.
  await page.getByText('Not found', { exact: true }).waitFor();
  await dialog.getByText('Deleted by').waitFor();
  await press('Done');
  await settled(page);
  assert.deepEqual(await violations(page), []);
  assert.equal(await page.getByText('Comparison', { exact: false }).count(), 0);
});

test('who leaves it is asked, and who has given no Git access is led there', async () => {
  await write('shop-left');
  await page.getByRole('link', { name: 'Applications' }).first().click();
  await page.getByText('This page has changes that are not saved.').waitFor();
  await button('Discard changes').click();
  await page.goto(`${world.mock.url}/runtimes/local/git`);
  await button('Forget').first().waitFor();
  for (let left = await button('Forget').count(); left > 0; left -= 1) {
    await button('Forget').first().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Forget', exact: true }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
  await page.goto(`${world.mock.url}/applications/new?runtime=local`);
  await page
    .getByRole('button', {
      name: 'Commit',
      exact: true,
      description: 'Give the runtime your Git access first.',
    })
    .waitFor();
  await page.getByRole('link', { name: 'give it one' }).click();
  await page.getByRole('heading', { name: 'Your Git access' }).waitFor();
});
