// The built pages in a real browser, against the mock. Needs `npm run build` first.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { settled, violations } from './axe.mjs';
import { PATIENCE, open } from './browser.mjs';

let world;
let page;

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
const log = () => page.getByRole('region', { name: 'Log text' });

describe('signing in', () => {
  test('leads to the page that was asked for, after the password is right', async () => {
    await page.goto(`${world.mock.url}/builds?status=error`);
    await page.getByLabel('E-mail').fill('admin@slipway.local');
    await page.getByLabel('Password', { exact: true }).fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('E-mail or password is wrong').waitFor();
    await page.getByLabel('Password', { exact: true }).fill('slipway');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Builds', level: 1 }).waitFor();
    assert.equal(new URL(page.url()).search, '?status=error');
    assert.equal(await page.title(), 'Builds · Slipway');
  });

  test('an address of another site in `next` is not followed', async () => {
    await page.goto(`${world.mock.url}/login?next=//evil.example`);
    await page.getByLabel('E-mail').fill('admin@slipway.local');
    await page.getByLabel('Password', { exact: true }).fill('slipway');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
    assert.ok(page.url().startsWith(world.mock.url));
  });

  test('a session that ends under the page leads back to signing in', async () => {
    await visit('/runtimes');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await world.context.clearCookies();
    // The page may hear of it by itself first, and then there is no link any more.
    const signIn = page.getByLabel('E-mail').waitFor();
    await Promise.race([page.getByRole('link', { name: 'Repositories' }).click(), signIn]);
    await signIn;
  });

  test('signing out forgets everything', async () => {
    await visit('/');
    await page.getByRole('button', { name: 'Account of admin' }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByLabel('E-mail').waitFor();
  });
});

describe('a commit travels the path', () => {
  test('a run is live from its first line to the healthy application', async () => {
    world.mock.state.deployByHand();
    const watcher = await world.context.newPage();
    await world.signIn();
    await watcher.goto(`${world.mock.url}/applications/local/argocd/demo`);
    await visit('/pipelines');
    await page.getByRole('button', { name: 'Run demo/demo-app' }).click();
    await page.getByRole('textbox', { name: 'Branch' }).fill('feature');
    await page.getByRole('button', { name: 'Add variable' }).click();
    await page.getByLabel('Name of variable 1').fill('COLOUR');
    await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
    await page.waitForURL(/\/builds\/[0-9a-f]{24}/);
    // Whatever line it is at: on a busy machine the first ones have left the picture when the page is there.
    await log()
      .getByText(/^(Cloning|running 42 tests|test greeting|STEP)/)
      .first()
      .waitFor();
    await page.getByText('feature').waitFor();
    await page.getByText('Complete').waitFor();
    await log().getByText('5a22f01..71c0b2e main -> main').waitFor();
    const heading = watcher.getByRole('heading', { level: 1 });
    for (const state of ['Out of sync', 'Syncing', 'Progressing', 'Healthy']) {
      await heading.getByText(state).waitFor();
      world.mock.state.deployOnward();
    }
    await watcher.getByText('Runs what commit 5a22f01c says.').waitFor();
    await watcher.close();
  });

  test('a build is terminated after a question', async () => {
    await visit(`/builds/${world.mock.state.startEndless()}`);
    await page.getByRole('button', { name: 'Terminate' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Terminate' }).click();
    await page.getByRole('heading', { level: 1 }).getByText('terminated').waitFor();
  });

  test('after the connection broke, the page says so and then catches up', async () => {
    await visit('/runtimes');
    await page.getByRole('heading', { level: 1 }).waitFor();
    while (world.mock.listeners() === 0) await new Promise((done) => setTimeout(done, 20));
    world.mock.dropConnections();
    await page.getByText('reconnecting…').first().waitFor();
    await page.waitForFunction(() => !document.body.innerText.includes('reconnecting…'));
  });
});

describe('the log', () => {
  test('a link to a line shows that line', async () => {
    await visit(`/builds/${world.mock.state.ids.failed}#test:44`);
    const line = log().locator('[data-target]');
    await line.getByText('test greeting::is_friendly ... FAILED').waitFor();
    await log().getByRole('link', { name: 'Link to line 48 of test' }).click();
    assert.equal(new URL(page.url()).hash, '#test:48');
    await log().locator('[data-target]').getByText('panicked at').waitFor();
  });

  test('search shows the first match and goes on', async () => {
    await visit(`/builds/${world.mock.state.ids.failed}`);
    await log().getByText('running 42 tests').waitFor();
    await log().focus();
    await page.keyboard.press('/');
    await page.keyboard.type('friendly');
    await page.getByText('1 of 2').waitFor();
    assert.equal(await log().locator('[data-current] mark').innerText(), 'friendly');
    await page.keyboard.press('Enter');
    await page.getByText('2 of 2').waitFor();
  });

  test('steps fold, and the list of steps leads to them', async () => {
    await visit(`/builds/${world.mock.state.ids.failed}`);
    await log().getByText('running 42 tests').waitFor();
    await page.getByRole('button', { name: 'Collapse all' }).click();
    assert.equal(await log().getByText('running 42 tests').count(), 0);
    await page.getByRole('navigation', { name: 'Steps' }).getByText('Unit tests').click();
    await log().getByText('running 42 tests').waitFor();
  });

  test('millions of lines are loaded, searched and reached', async (t) => {
    page.setDefaultTimeout(2 * PATIENCE);
    const started = Date.now();
    await visit(`/builds/${world.mock.state.ids.huge}`);
    await page.getByText('Complete').waitFor();
    t.diagnostic(`2.5 million lines loaded in ${Date.now() - started} ms`);
    await log().focus();
    await page.keyboard.press('End');
    await log().getByText('2499999 compiled unit').waitFor();
    await page.keyboard.press('Home');
    await log().getByText('0 compiled unit 0 in').first().waitFor();
    const searching = Date.now();
    await page.getByLabel('Search log').fill('needle number 2450007');
    await page.getByText('1 of 1', { exact: true }).waitFor();
    await log().getByText('needle number 2450007').waitFor();
    t.diagnostic(`searched in ${Date.now() - searching} ms`);
    const rows = await log().locator('[class*=line]').count();
    assert.ok(rows < 100, `only what is visible is drawn, but ${rows} rows are`);
    const heap = await page.evaluate(() => performance.memory.usedJSHeapSize >> 20);
    t.diagnostic(`heap ${heap} MB`);
    assert.ok(heap < 600, `the heap holds ${heap} MB`);
  });

  test('the wheel moves by lines, also where a pixel of the scrollbar is many', async () => {
    page.setDefaultTimeout(2 * PATIENCE);
    await visit(`/builds/${world.mock.state.ids.huge}#compile:1000000`);
    await log().locator('[data-target]').waitFor();
    const first = async () => Number((await log().locator('a').first().innerText()).replaceAll(',', ''));
    const before = await first();
    await log().hover();
    await page.mouse.wheel(0, 200);
    await page.waitForFunction(
      (n) => Number(document.querySelector('[aria-label="Log text"] a').innerText) === n,
      before + 10,
    );
  });
});

describe('actions', () => {
  test('what cannot be done says why, also to the keyboard', async () => {
    await visit('/applications/frankfurt/argocd/search-cluster');
    const sync = page.getByRole('button', { name: 'Sync', exact: true });
    await sync.focus();
    await page.getByRole('tooltip').getByText('The runtime frankfurt is offline').waitFor();
    await page.keyboard.press('Enter');
    assert.equal(await page.getByRole('dialog').count(), 0);
  });

  test('a rollback asks first and tells what was done', async () => {
    await visit('/applications/local/argocd/payments?tab=history');
    await page.getByRole('button', { name: 'Roll back' }).last().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
    await page.getByText('automated sync was switched off').waitFor();
  });

  test('what runs now is marked in the history, and is no rollback', async () => {
    await visit('/applications/local/argocd/demo?tab=history');
    const rows = page.getByRole('table', { name: 'Deployments' }).locator('tbody tr');
    await rows.first().getByText('Current').waitFor();
    assert.equal(await rows.first().getByRole('button', { name: 'Roll back' }).count(), 0);
    await rows.nth(1).getByRole('button', { name: 'Roll back' }).waitFor();
  });

  test('a resource that is selected stays in the picture', async () => {
    await visit('/applications/local/argocd/demo');
    const pod = page.locator('.react-flow__node').filter({ hasText: 'Pod' }).first();
    await pod.click();
    await page.getByRole('button', { name: 'Close the details' }).waitFor();
    const inside = async () => {
      const frame = await page.locator('.react-flow').boundingBox();
      const box = await pod.boundingBox();
      return box.x >= frame.x && box.x + box.width <= frame.x + frame.width + 1;
    };
    const end = Date.now() + 5000;
    while (!(await inside()) && Date.now() < end) await page.waitForTimeout(50);
    assert.ok(await inside(), 'the pod is beside the picture');
  });

  test('a failed build opens at its failure, and what was skipped is folded', async () => {
    await visit('/builds?status=error');
    await page.getByRole('table').getByRole('link').first().click();
    await log().getByRole('button', { expanded: true }).first().waitFor();
    const failed = page
      .getByRole('navigation', { name: 'Steps' })
      .getByRole('button', { name: /exit code/ })
      .first();
    const title = (await failed.textContent()).trim().split(/\s/)[0];
    await log()
      .getByRole('button', { name: new RegExp(title, 'i') })
      .first()
      .waitFor();
    const top = await log().boundingBox();
    const at = await log()
      .getByRole('button', { name: new RegExp(title, 'i') })
      .first()
      .boundingBox();
    assert.ok(at.y >= top.y - 2 && at.y < top.y + top.height, 'the failed step is in sight');
  });

  test('the address to clone is copied', async () => {
    await visit('/repositories');
    await page.getByRole('button', { name: 'Copy the clone URL' }).first().click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /demo-app\.git$/);
  });

  test('filters are in the address and survive a reload', async () => {
    await visit('/builds');
    await page.getByLabel('Status').selectOption('error');
    await page.waitForURL(/status=error/);
    await page.reload();
    assert.equal(await page.getByLabel('Status').inputValue(), 'error');
    await page.getByRole('row').nth(1).getByText('error').waitFor();
  });

  test('a name with dots is a page, not a file', async () => {
    await visit('/applications/local/argocd/my.app');
    await page.getByText('Not found').waitFor();
  });
});

describe('everybody can use it', () => {
  const pages = () => [
    '/',
    '/pipelines',
    '/pipelines/platform%2Fapi',
    '/pipelines/platform%2Fapi/edit',
    '/pipelines/new',
    '/applications/new',
    '/projects',
    '/builds',
    `/builds/${world.mock.state.ids.failed}#test:44`,
    '/repositories',
    '/applications',
    '/applications/local/argocd/sandbox?resource=deployment-demo',
    '/applications/local/argocd/payments?tab=table',
    '/applications/local/argocd/shop-frontend?tab=diff',
    '/applications/local/argocd/shop-frontend?tab=plan',
    '/applications/local/argocd/demo?tab=history',
    '/rollouts',
    '/applications/frankfurt/argocd/search-cluster/rollouts/search/web',
    '/runtimes',
    '/clusters',
    '/nowhere',
  ];

  for (const scheme of ['light', 'dark']) {
    test(`no page breaks a rule of accessibility in ${scheme}`, { timeout: 180_000 }, async () => {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
      const found = [];
      for (const path of ['/login', ...pages()]) {
        if (path === '/login') await page.goto(world.mock.url + path);
        else await visit(path);
        await settled(page);
        found.push(...(await violations(page, path)));
      }
      assert.deepEqual(found, []);
    });
  }

  test('a new page takes the focus to its heading', async () => {
    await visit('/');
    await page.getByRole('link', { name: 'Repositories' }).click();
    await page.getByRole('heading', { name: 'Repositories', level: 1 }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Repositories');
  });

  test('the keyboard can skip the menu', async () => {
    await visit('/builds');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'main');
  });

  test('colours follow the system until somebody chooses', async () => {
    const scheme = () => page.evaluate(() => document.documentElement.dataset.mantineColorScheme);
    await page.emulateMedia({ colorScheme: 'dark' });
    await visit('/');
    await page.getByRole('heading', { level: 1 }).waitFor();
    assert.equal(await scheme(), 'dark');
    await page.getByRole('button', { name: /^Colours: System/ }).click();
    assert.equal(await scheme(), 'light');
    await page.reload();
    assert.equal(await scheme(), 'light');
    await page.evaluate(() => localStorage.clear());
  });
});

describe('nothing there, not allowed, broken', () => {
  for (const [mode, text] of [
    ['empty', 'No pipelines yet'],
    ['forbidden', 'Not allowed'],
    ['error', 'Something went wrong'],
  ]) {
    test(mode, async () => {
      await world.mode(mode);
      await visit('/pipelines');
      await page.getByText(text).waitFor();
    });
  }
});
