// Runtimes: registered on the page, watched until they come, renamed, revoked, deleted. Against the mock.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
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
});

const visit = async (path) => {
  await world.signIn();
  await page.goto(world.mock.url + path);
};
const button = (name) => page.getByRole('button', { name, exact: true });
const inDialog = (name) => page.getByRole('dialog').getByRole('button', { name, exact: true });
const row = (name) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });

const cluster = (name) =>
  page.getByRole('row').filter({ has: page.getByRole('cell', { name, exact: true }) });

describe('a terminal in a pod', () => {
  const inTable = () =>
    page
      .getByRole('row')
      .filter({ has: page.getByRole('cell', { name: 'Pod', exact: true }) })
      .first()
      .getByRole('button');
  const pod = async () => {
    await visit('/applications/local/argocd/demo?tab=table');
    await inTable().click();
  };
  const opened = () => page.getByRole('dialog');

  test('is opened with a pass that is in no address, typed into, resized, and says how it ended', async () => {
    const sockets = [];
    page.on('websocket', (socket) => sockets.push(socket.url()));
    await pod();
    await button('Terminal').click();
    await opened().getByLabel('Command', { exact: true }).waitFor();
    await settled(page);
    assert.deepEqual(await violations(page), []);
    await inDialog('Open').click();
    const shell = opened().getByRole('log');
    await shell.getByText('/ #').waitFor();
    const line = opened().getByPlaceholder('Type a command and press Enter');
    await line.fill('echo hello');
    await line.press('Enter');
    await shell.getByText('\nhello', { exact: false }).waitFor();
    await line.fill('stty size');
    await line.press('Enter');
    await shell.getByText(/\n\d+ \d+\s/).waitFor();
    const size = async () => /\n(\d+) (\d+)\s*\n\/ # $/.exec(`${await shell.textContent()}`)?.slice(1);
    const before = await size();
    await settled(page);
    assert.deepEqual(await violations(page), []);
    await page.setViewportSize({ width: 700, height: 800 });
    await line.fill('stty size');
    await line.press('Enter');
    await page.waitForFunction(
      ([element, columns]) => {
        const found = [...element.textContent.matchAll(/\n(\d+) (\d+)/g)].at(-1);
        return found && Number(found[2]) < Number(columns);
      },
      [await shell.elementHandle(), before[1]],
    );
    // Every key by itself: what no key press tells of arrives too, such as what is pasted or typed with AltGr.
    await opened().getByText('Send each key press').click();
    const typing = opened().getByLabel(/^Command for the shell/);
    await typing.focus();
    await page.keyboard.insertText('echo {@}');
    await page.keyboard.press('Enter');
    await page.waitForFunction(
      (element) => element.textContent.includes('\n{@}'),
      await shell.elementHandle(),
    );
    assert.equal(await typing.inputValue(), '');
    await opened().getByText('Send each key press').click();
    await line.fill('exit 3');
    await line.press('Enter');
    await opened().getByText('Closed: it ended with exit code 3.').waitFor();
    const asked = sockets.filter((url) => url.includes('/exec'));
    assert.equal(asked.length, 1);
    assert.ok(!asked[0].includes('pass'), asked[0]);
  });

  test('what is typed before it is open arrives', async () => {
    await pod();
    let letGo;
    const held = new Promise((done) => (letGo = done));
    await page.route('**/pass', async (route) => {
      await held;
      await route.continue();
    });
    await button('Terminal').click();
    await inDialog('Open').click();
    const shell = opened().getByRole('log');
    await shell.waitFor();
    const line = opened().getByPlaceholder('Type a command and press Enter');
    await line.fill('echo early');
    await line.press('Enter');
    letGo();
    await page.waitForFunction(
      (element) => element.textContent.includes('\nearly'),
      await shell.elementHandle(),
    );
  });

  test('what the runtime does not open says so', async () => {
    await pod();
    await button('Terminal').click();
    await opened().getByLabel('Command', { exact: true }).fill('bash');
    await inDialog('Open').click();
    await opened().getByText('Closed: the runtime did not open it').waitFor();
  });

  test('who may not is told why', async () => {
    await world.signIn();
    await world.mode('member');
    await page.goto(`${world.mock.url}/applications/local/argocd/demo?tab=table`);
    await inTable().click();
    const terminal = page.getByRole('button', { name: 'Terminal', exact: true, description: /no rule/i });
    await terminal.waitFor();
    // It stays in reach of the keyboard, and opens nothing.
    await terminal.focus();
    await page.keyboard.press('Enter');
    assert.equal(await page.getByRole('dialog').count(), 0);
  });
});

describe("one's own Git access at a runtime", () => {
  const given = (provider) => page.getByRole('row').filter({ hasText: provider });

  test('a token is given and forgotten, and what is refused is said', async () => {
    await visit('/runtimes/local');
    await page.getByRole('link', { name: 'Tokens and sign-ins' }).click();
    await page.getByRole('heading', { name: 'Your Git access' }).waitFor();
    await given('GitHub').getByText('Personal token').waitFor();
    await button('Give a token').click();
    await page.getByLabel('Git provider').selectOption('gitlab');
    await inDialog('Give').click();
    await page.getByText('Enter a token').waitFor();
    await page.getByLabel('Token', { exact: true }).fill('wrong');
    await inDialog('Give').click();
    await page.getByRole('alert').getByText('refuses the token').waitFor();
    await settled(page);
    assert.deepEqual(await violations(page), []);
    await page.getByLabel('Token', { exact: true }).fill('good');
    await inDialog('Give').click();
    await given('GitLab').getByText('Ada Lovelace').waitFor();
    await given('GitLab').getByRole('button', { name: 'Forget' }).click();
    await inDialog('Forget').click();
    await given('GitLab').waitFor({ state: 'detached' });
  });

  test('a sign-in comes back to the tab that began it, and its code stays nowhere', async () => {
    await visit('/runtimes/local/git');
    await button('Sign in to Gitea at https://git.example.com').click();
    await given('Gitea').getByText('Sign-in').waitFor();
    assert.equal(new URL(page.url()).hash, '');
    assert.equal(await page.getByText('c0de').count(), 0);
    assert.equal(await page.evaluate(() => sessionStorage.getItem('slipway.git-sign-in')), null);
    await settled(page);
    assert.deepEqual(await violations(page), []);
  });

  test('a sign-in that ends before the list has come is in the list', async () => {
    await visit('/runtimes/local/git');
    const connected = page.waitForResponse((response) => response.url().endsWith('/git-connect'));
    let late = true;
    await button('Sign in to Gitea at https://git.example.com').waitFor();
    await page.route('**/git/git-tokens', async (route) => {
      if (!late) return route.continue();
      late = false;
      await connected;
      // As it stood before; nobody may want it any more.
      await route.fulfill({ json: { tokens: [], signIn: [] } }).catch(() => undefined);
    });
    await button('Sign in to Gitea at https://git.example.com').click();
    await given('Gitea').getByText('Sign-in').waitFor();
    // The page may show what it was answered before the answer is told here.
    await connected;
  });

  test('one that was begun elsewhere is not ended here: the code is for where it was begun', async () => {
    await visit(`/runtimes/local/git#provider=gitea&code=c0de-elsewhere&state=${'7b'.repeat(32)}`);
    await page.getByText('This sign-in was not begun in this tab.').waitFor();
    await page.getByText('c0de-elsewhere').waitFor();
    assert.equal(new URL(page.url()).hash, '');
    await settled(page);
    assert.deepEqual(await violations(page), []);
    await visit(`/runtimes/local/git#provider=gitea&error=access_denied&state=${'7b'.repeat(32)}`);
    await page.reload();
    await page.getByRole('heading', { name: 'Your Git access' }).waitFor();
  });
});

describe('runtimes', () => {
  test('how one fares is shown with its reasons, its clusters and the way from this browser', async () => {
    await visit('/runtimes');
    await row('local').getByText('Degraded').waitFor();
    await row('frankfurt').getByText('Unreachable').waitFor();
    await row('frankfurt').getByText('Helm').waitFor();
    await row('frankfurt').getByText('Update required').waitFor();
    await row('local').getByText('GitOps, Rollouts').waitFor();
    // The same as a picture, and by what is in it.
    await page.getByText('Topology', { exact: true }).click();
    const drawn = page.getByRole('list', { name: 'Clusters of local' });
    await drawn.getByRole('listitem').filter({ hasText: 'production' }).getByText('Failed').waitFor();
    await page.getByLabel('Search runtimes and clusters').fill('production');
    await page.getByRole('link', { name: 'frankfurt' }).waitFor({ state: 'detached' });
    await drawn.waitFor();
    await settled(page);
    assert.deepEqual(await violations(page), []);
    await visit('/runtimes/local');
    const status = page.getByRole('list', { name: 'Status' });
    await status.getByRole('listitem').filter({ hasText: 'Clusters' }).getByText('1 of 2 failed').waitFor();
    await status.getByRole('listitem').filter({ hasText: 'Components' }).getByText('1 healthy').waitFor();
    await page.getByText('cluster production: 401 Unauthorized').waitFor();
    const clusters = page.getByRole('list', { name: 'Clusters of local' });
    await clusters.getByRole('listitem').filter({ hasText: 'in-cluster' }).getByText('Successful').waitFor();
    await clusters.getByRole('listitem').filter({ hasText: 'production' }).getByText('Failed').waitFor();
    await page.getByRole('row').filter({ hasText: 'rollouts' }).getByText('Off').waitFor();
    await button('Try from this browser').click();
    await page.getByText('through this platform, which has the tunnel').waitFor();
    await settled(page);
    assert.deepEqual(await violations(page), []);
  });

  test('one is registered, its token is shown once, and the page sees it come', async () => {
    await visit('/runtimes');
    await row('local').getByText('Tunnel, open').waitFor();
    await row('frankfurt').getByText('Offline').waitFor();
    await button('Register a runtime').click();
    await page.getByLabel('Name', { exact: true }).fill('local');
    await inDialog('Register').click();
    await page.getByRole('alert').getByText('There is a runtime local already').waitFor();
    await page.getByLabel('Name', { exact: true }).fill('paris');
    await inDialog('Register').click();
    await page.getByRole('heading', { name: 'Connect runtime paris' }).waitFor();
    await page.getByText('export SLIPWAY_TOKEN=64b0ffffffffffffffffffff.5ec4e7').waitFor();
    await page.getByText('slipway runtime --server https://slipway.example').waitFor();
    await page.getByText('Waiting for it to connect…').waitFor();
    await settled(page);
    assert.deepEqual(await violations(page), []);
    await page.getByText('It is connected.').waitFor();
    await inDialog('Done').click();
    await row('paris').getByText('Online').waitFor();
    assert.equal(await page.getByText('5ec4e7').count(), 0, 'the token is gone');
  });

  test('its page shows the connection; it is renamed, gets a new token, is revoked and deleted', async () => {
    await visit('/runtimes');
    await row('frankfurt').getByRole('link', { name: 'frankfurt' }).click();
    await page.getByRole('heading', { name: 'frankfurt', level: 1 }).waitFor();
    await page.getByText('No tunnel to show').waitFor();
    await settled(page);
    assert.deepEqual(await violations(page), []);
    await button('Rename').click();
    await page.getByLabel('Name', { exact: true }).fill('berlin');
    await inDialog('Rename').click();
    await page.getByRole('heading', { name: 'berlin', level: 1 }).waitFor();
    await button('New token').click();
    await inDialog('Create token').click();
    await page.getByRole('heading', { name: 'Connect runtime berlin' }).waitFor();
    await inDialog('Done').click();
    await button('Revoke token').click();
    await inDialog('Revoke').click();
    await page.getByText('Token revoked').waitFor();
    await button('Delete').click();
    await inDialog('Delete').click();
    await page.getByRole('heading', { name: 'Runtimes & runners', level: 1 }).waitFor();
    await row('local').waitFor();
    assert.equal(await row('berlin').count(), 0);
  });

  test('one that is online shows where its tunnel comes from', async () => {
    await visit('/runtimes/local');
    await page.getByRole('cell', { name: '192.0.2.7' }).waitFor();
    await page.getByRole('cell', { name: '42', exact: true }).waitFor();
    await page.getByRole('cell', { name: '1.5 KiB', exact: true }).waitFor();
    await page.getByRole('cell', { name: '50 MiB', exact: true }).waitFor();
  });

  test('what its process says is read when somebody asks, by component', async () => {
    await visit('/runtimes/local');
    await page.getByRole('heading', { name: 'Log', exact: true }).waitFor();
    assert.equal(await page.getByText('The tunnel to the platform is open.').count(), 0);
    await button('Read its log').click();
    await page.getByText('The tunnel to the platform is open.').waitFor();
    await page.getByText('3 earlier lines are not kept').waitFor();
    await settled(page);
    assert.deepEqual(await violations(page), []);
    await page.getByRole('combobox', { name: 'Component' }).click();
    await page.getByRole('option', { name: 'applications' }).click();
    await page.getByText('INFO applications: Synced.').waitFor();
    await page.getByText('The tunnel to the platform is open.').waitFor({ state: 'detached' });
    // Each reading is recorded: none is made because the runtime changed, or because all is asked again.
    const readings = [];
    page.on('request', (request) => request.url().endsWith('/runtime-logs') && readings.push(request.url()));
    const renewed = page.waitForResponse((response) => response.url().endsWith('/api/runtimes/local'));
    world.mock.announce('runtime', 'local');
    await renewed;
    world.mock.announce('all', '');
    await settled(page);
    assert.deepEqual(readings, []);
    const again = page.waitForResponse((response) => response.url().endsWith('/runtime-logs'));
    await button('Read again').click();
    await again;
    await page.getByText('INFO applications: Synced.').waitFor();
    assert.equal(readings.length, 1);
    // What cannot be read says so, and does not stand there as if it had been.
    await page.route('**/runtime-logs', (route) => route.abort());
    await button('Read again').click();
    await page.getByRole('alert').filter({ hasText: 'annot reach the runtime' }).waitFor();
    assert.equal(await page.getByText('INFO applications: Synced.').count(), 0);
  });

  test('clusters are listed with the reason of a failure, and the commands that add and remove them', async () => {
    await visit('/clusters');
    await cluster('in-cluster').getByText('Successful').waitFor();
    await cluster('paris').getByText('connection refused').waitFor();
    await cluster('tokyo').getByText('it is being connected').waitFor();
    assert.equal(await cluster('in-cluster').getByRole('button').count(), 0, 'its own is not removed');
    await button('Add a cluster').click();
    await page.getByText('slipway cluster add local --context CONTEXT').waitFor();
    await settled(page);
    assert.deepEqual(await violations(page), []);
    await inDialog('Done').click();
    await cluster('paris').getByRole('button', { name: 'Remove' }).click();
    await page.getByText('2 Applications still go there').waitFor();
    await page.getByText('slipway cluster remove paris --runtime local --context CONTEXT').waitFor();
    await inDialog('Done').click();
  });
});
