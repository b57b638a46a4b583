// The administration pages in a real browser, against the mock. Needs `npm run build` first.
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
const dialog = () => page.getByRole('dialog').last();
const inDialog = (name) => dialog().getByRole('button', { name, exact: true });
/** Every dialog is gone, also one over another, when what was sent was taken. */
const closed = () => page.waitForFunction(() => !document.querySelector('[role=dialog]'));
const row = (text) => page.getByRole('row').filter({ hasText: text });

describe('getting in', () => {
  test('the sign-in page offers the identity provider, and comes back to the page that was asked for', async () => {
    await page.goto(`${world.mock.url}/builds?status=error`);
    await page.getByRole('link', { name: 'Sign in with Gitea' }).click();
    await page.getByRole('heading', { name: 'Builds', level: 1 }).waitFor();
    assert.equal(new URL(page.url()).search, '?status=error');
  });

  test('an invitation is accepted with a password that the server takes', async () => {
    await page.goto(`${world.mock.url}/invitation#good`);
    await page.getByText('barbara@example.com').waitFor();
    await page.getByLabel('Your name').fill('Barbara');
    await page.getByLabel('Choose a password').fill('short');
    await page.getByLabel('Confirm password').fill('other');
    await button('Join default').click();
    await page.getByText('The passwords do not match').waitFor();
    await page.getByLabel('Confirm password').fill('short');
    await button('Join default').click();
    await page.getByRole('alert').getByText('at least 12 characters').waitFor();
    await page.getByLabel('Choose a password').fill('a few words in a row');
    await page.getByLabel('Confirm password').fill('a few words in a row');
    await button('Join default').click();
    await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
  });

  test('an invitation that is over says so', async () => {
    await page.goto(`${world.mock.url}/invitation#gone`);
    await page.getByRole('alert').getByText('Could not find this invitation').waitFor();
  });
});

describe('who one is', () => {
  test('a wrong password does not sign out, the right one changes it', async () => {
    await visit('/profile');
    const change = async (current) => {
      await page.getByLabel('Current password').fill(current);
      await page.getByLabel('New password', { exact: true }).fill('a few words in a row');
      await page.getByLabel('Confirm new password').fill('a few words in a row');
      await button('Change password').click();
    };
    await change('wrong');
    await page.getByRole('alert').getByText('E-mail or password is wrong').waitFor();
    await change('slipway');
    await page.getByText('Password changed').waitFor();
  });

  test('a session on another machine is ended', async () => {
    await visit('/profile');
    await row('Safari').getByRole('button', { name: 'End', exact: true }).click();
    await inDialog('End session').click();
    await closed();
    assert.equal(await row('Safari').count(), 0);
    await row('Chrome').getByText('This session').waitFor();
  });

  test('a key is shown once, copied, and revoked', async () => {
    await visit('/profile/keys');
    await button('New key').click();
    await inDialog('Create key').click();
    await dialog().getByText('Enter a name').waitFor();
    await dialog().getByLabel('Name').fill('deploys');
    await dialog().getByLabel('Permissions').selectOption('chosen');
    const scopes = dialog().getByPlaceholder('pipeline, build:read');
    await scopes.fill('xyz');
    await scopes.press('Enter');
    // The list of what is offered lies over the buttons until the field is left.
    await scopes.press('Tab');
    await inDialog('Create key').click();
    await dialog().getByRole('alert').getByText('No such scope').waitFor();
    await scopes.press('Backspace');
    await scopes.fill('build:read');
    await scopes.press('Enter');
    await scopes.press('Tab');
    await inDialog('Create key').click();
    await page.getByText('it will not be shown again').waitFor();
    await button('Copy the key').click();
    await button('Copied').waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^slw_60f3_/);
    await inDialog('Done').click();
    await row('deploys').getByText('build:read').waitFor();
    await button('Revoke deploys').click();
    await inDialog('Revoke').click();
    await closed();
    assert.equal(await row('deploys').count(), 0);
  });

  test('another account is one choice away', async () => {
    await visit('/runtimes');
    await page.getByRole('button', { name: /^Account of/ }).click();
    await page.getByRole('menuitem', { name: 'research' }).click();
    await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
    await page.getByRole('button', { name: /^Account of/ }).click();
    await page.getByText('account research').waitFor();
    await page.getByRole('menuitem', { name: 'default' }).click();
    await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
  });

  test('a member is not shown what only administrators do, and is told so at its address', async () => {
    await world.mode('member');
    await visit('/');
    await page.getByRole('link', { name: 'Shared configuration' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Audit log' }).count(), 0);
    assert.equal(await page.getByRole('link', { name: 'System health' }).count(), 0);
    await visit('/admin/users');
    await page.getByText('needs the Administrator role').first().waitFor();
  });
});

describe('what needs a recent sign-in', () => {
  test('asks for the password over the dialog, and then does it', async () => {
    await world.mode('stale');
    await visit('/admin/teams');
    await button('New team').click();
    await dialog().getByLabel('Name').fill('auditors');
    await inDialog('Create team').click();
    const password = page.getByLabel('Your password');
    await password.fill('wrong');
    await inDialog('Confirm').click();
    await dialog().getByRole('alert').getByText('E-mail or password is wrong').waitFor();
    await password.fill('slipway');
    await inDialog('Confirm').click();
    await closed();
    await row('auditors').waitFor();
  });

  test('stays undone when the person would rather not', async () => {
    await world.mode('stale');
    await visit('/admin/users');
    await button('Change role of grace').click();
    await inDialog('Make a User').click();
    await page.getByLabel('Your password').waitFor();
    await inDialog('Cancel').click();
    await dialog().getByRole('alert').getByText('Confirm that it is you').waitFor();
    await inDialog('Cancel').click();
    await closed();
    await row('grace').getByText('Administrator').waitFor();
  });
});

describe('people', () => {
  test('somebody is invited, gets a new link, and is not invited any more', async () => {
    await visit('/admin/users');
    await button('Invite user').click();
    await dialog().getByLabel('E-mail').fill('nobody');
    await inDialog('Invite').click();
    await dialog().getByRole('alert').getByText('is not an e-mail address').waitFor();
    await dialog().getByLabel('E-mail').fill('donald@example.com');
    await inDialog('Invite').click();
    await button('Copy the link').click();
    await button('Copied').waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /\/invitation#t0ken-/);
    await inDialog('Done').click();
    await button('New link for donald@example.com').click();
    await inDialog('Create link').click();
    await page.getByText('/invitation#n3w-').waitFor();
    await inDialog('Done').click();
    await button('Revoke the invitation for donald@example.com').click();
    await inDialog('Revoke').click();
    await closed();
    assert.equal(await row('donald').count(), 0);
  });

  test('a role changes, unless the server keeps it', async () => {
    await visit('/admin/users');
    await button('Change role of ada').click();
    await inDialog('Make an Administrator').click();
    await closed();
    await row('ada@example.com').getByText('Administrator').waitFor();
    await button('Change role of admin').click();
    await inDialog('Make a User').click();
    await dialog().getByRole('alert').getByText('the last Administrator').waitFor();
  });

  test('somebody is suspended in the account, and restored', async () => {
    await visit('/admin/users');
    await button('Suspend ada').click();
    await inDialog('Suspend').click();
    await closed();
    await row('ada@example.com').getByText('Suspended').waitFor();
    await button('Restore ada').click();
    await inDialog('Restore').click();
    await closed();
    assert.equal(await row('ada@example.com').getByText('Suspended').count(), 0);
  });

  test('a sign-in that failed elsewhere is explained on the sign-in page, once', async () => {
    const told = encodeURIComponent('you are suspended in this account: ask its Administrator');
    await page.goto(`${world.mock.url}/login`);
    // A page that is drawn clears the cookie.
    await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
    await page.evaluate((told) => (document.cookie = `slipway_sign_in_problem=${told}; Path=/login`), told);
    await page.reload();
    await page.getByRole('alert').getByText('You are suspended in this account').waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
  });

  test('a team that rules name is not deleted, and says which', async () => {
    await visit('/admin/teams');
    await button('Delete team operators').click();
    await inDialog('Delete').click();
    await dialog().getByRole('alert').getByText('is named by rules').waitFor();
  });

  test('a service account gets a key of its own', async () => {
    await visit('/admin/service-accounts');
    await button('New service account').click();
    await dialog().getByLabel('Name').fill('scanner');
    await inDialog('Create').click();
    await closed();
    await button('0 keys of scanner').click();
    await page.waitForURL(/keys=scanner/);
    await button('New key').click();
    await dialog().getByLabel('Name').fill('nightly');
    await inDialog('Create key').click();
    await inDialog('Done').click();
    await row('nightly').waitFor();
    await row('scanner').getByText('1 key').waitFor();
  });
});

describe('access', () => {
  test('the explanation is in the address, and is the reason of the server', async () => {
    await visit('/admin/access');
    await page.getByRole('combobox', { name: 'Who' }).fill('ada@example.com');
    await page.keyboard.press('Escape');
    await page.getByLabel('Action', { exact: true }).selectOption('delete');
    await page.getByLabel('Name', { exact: true }).fill('demo/demo-app');
    await button('Check access').click();
    await page.getByText('Not allowed').waitFor();
    await page.getByText('no rule of the account allows delete on pipeline').waitFor();
    await page.reload();
    await page.getByText('Not allowed').waitFor();
    await page.getByLabel('Action', { exact: true }).selectOption('run');
    await button('Check access').click();
    await page.getByText('Allowed', { exact: true }).waitFor();
  });

  test('a rule is added when it is complete, and deleted after a question', async () => {
    await visit('/admin/access');
    await button('New rule').click();
    await inDialog('Create rule').click();
    await dialog().getByText('Select at least one team').waitFor();
    await dialog().getByRole('combobox', { name: 'Teams' }).click();
    await page.getByRole('option', { name: 'developers' }).click();
    // What is offered lies over the next field until this one is left.
    await page.keyboard.press('Tab');
    await dialog().getByRole('combobox', { name: 'Actions' }).click();
    await page.getByRole('listbox', { name: 'Actions' }).getByRole('option', { name: 'debug' }).click();
    await page.keyboard.press('Escape');
    await inDialog('Create rule').click();
    await dialog().getByRole('alert').getByText('name tags').waitFor();
    const tags = dialog().getByLabel('Tags', { exact: true });
    await tags.fill('prod');
    await tags.press('Enter');
    await inDialog('Create rule').click();
    await closed();
    await row('with the tag prod').waitFor();
    await button('Delete the rule developers: debug pipeline').click();
    await inDialog('Delete').click();
    await closed();
    assert.equal(await row('with the tag prod').count(), 0);
  });

  test('an identity provider is added, and the sign-in page offers it', async () => {
    await visit('/admin/sso');
    await button('New provider').click();
    await dialog().getByLabel('Name', { exact: true }).fill('corp');
    await dialog().getByLabel('Display name').fill('Corp');
    await dialog().getByLabel('Issuer').fill('login.example.com');
    await dialog().getByLabel('Client ID').fill('slipway');
    await inDialog('Check and add').click();
    await dialog().getByRole('alert').getByText('with https://').waitFor();
    await dialog().getByLabel('Issuer').fill('https://login.example.com');
    await inDialog('Check and add').click();
    await closed();
    await page.getByText('/api/auth/corp/callback').waitFor();
    await page.goto(`${world.mock.url}/login`);
    await page.getByRole('link', { name: 'Sign in with Corp' }).waitFor();
  });
});

describe('shared configuration', () => {
  test('a secret comes masked, keeps its value, and is shown to those who ask', async () => {
    await visit('/admin/configuration');
    await button('Edit registry-login').click();
    const value = dialog().getByLabel('Value of variable 2');
    assert.equal(await value.inputValue(), '');
    assert.equal(await value.getAttribute('placeholder'), 'unchanged');
    await dialog().getByLabel('Value of variable 1').fill('robot-2');
    await inDialog('Save').click();
    await closed();
    await button('Edit registry-login').click();
    await inDialog('Show secrets').click();
    await page.waitForFunction(
      () => document.querySelector('[aria-label="Value of variable 1"]')?.value === 'robot-2',
    );
    assert.equal(await value.inputValue(), 'hunter2');
  });

  test('what forbids reading says why it cannot be shown', async () => {
    await visit('/admin/configuration');
    await button('Edit signing-key').click();
    await inDialog('Show secrets').hover();
    // Outside the dialog, and so hidden from screen readers: they have it as the button's description.
    await page.getByText('secrets are write-only').waitFor();
  });

  test('what pipelines use is not deleted, and says which', async () => {
    await visit('/admin/configuration');
    await button('Delete registry-login').click();
    await inDialog('Delete').click();
    await dialog().getByRole('alert').getByText('platform/api').waitFor();
  });

  test('an integration is made from fields, and text that is no JSON is not sent', async () => {
    await visit('/admin/configuration');
    await button('New configuration').click();
    await dialog().getByLabel('Type').selectOption('yaml');
    await dialog().getByLabel('Name', { exact: true }).fill('values');
    await dialog().getByLabel('written as JSON').fill('[1]');
    await inDialog('Create').click();
    await dialog().getByText('Enter a JSON object').waitFor();
    await visit('/admin/integrations');
    await button('New integration').click();
    await dialog().getByLabel('Name', { exact: true }).fill('backups');
    await dialog().getByLabel('Type').selectOption('git.gitea');
    await dialog().getByLabel('Host').fill('git.example.com');
    await dialog().getByLabel('Access token').fill('t0ken');
    await inDialog('Create').click();
    await closed();
    await row('backups').getByText('Gitea').waitFor();
  });
});

describe('the audit log', () => {
  test('filters, page and record are in the address', async () => {
    await visit('/admin/audit');
    await page.getByLabel('Entity').selectOption('pipeline');
    await page.waitForURL(/entity=pipeline/);
    await page.getByLabel('Outcome').selectOption('allowed');
    await page.waitForURL(/outcome=allowed/);
    await page.getByRole('button', { name: '2', exact: true }).click();
    await page.waitForURL(/page=2/);
    await page
      .getByRole('button', { name: /^Details of record/ })
      .first()
      .click();
    await page.waitForURL(/record=\d+/);
    await page.reload();
    await page.getByText(/^Record \d+, hash/).waitFor();
    assert.equal(await page.getByLabel('Entity').inputValue(), 'pipeline');
    const csv = await page.getByRole('link', { name: 'CSV' }).getAttribute('href');
    assert.equal(csv, '/api/audit/download?entity=pipeline&outcome=allowed');
    await button('Clear filters').click();
    await page.waitForURL((url) => url.search === '');
  });

  test('a change is shown as before and after', async () => {
    await visit('/admin/audit?record=130');
    await page.getByRole('textbox', { name: 'Before' }).getByText('60').waitFor();
    await page.getByRole('textbox', { name: 'After' }).getByText('90').waitFor();
  });

  test('the chain is verified, and what is wrong is named', async () => {
    await visit('/admin/audit');
    await button('Verify').click();
    await page.getByText('Complete and unchanged').waitFor();
    await page.getByLabel('Scope', { exact: true }).selectOption('platform');
    await page.waitForURL(/platform=true/);
    await button('Verify').click();
    await page.getByText('Record 2 was changed').waitFor();
  });
});

describe('the platform', () => {
  test('an account is suspended, and one that cannot be says why', async () => {
    await visit('/admin/platform/accounts');
    await button('Change the state of research').click();
    await page.getByRole('menuitem', { name: 'Suspend' }).click();
    await inDialog('Suspend').click();
    await closed();
    await row('research').getByText('suspended').waitFor();
    await button('Change the state of old-shop').click();
    await page.getByRole('menuitem', { name: 'Suspend' }).click();
    await inDialog('Suspend').click();
    await dialog().getByRole('alert').getByText('is deleted: it cannot suspend').waitFor();
  });

  test('limits are set, and usage says which is reached', async () => {
    await visit('/admin/platform/accounts');
    await button('Limits of default').click();
    await dialog().getByLabel('Runtimes').fill('2');
    await inDialog('Save').click();
    await closed();
    await row('default').getByText('runtimes 2').waitFor();
    await visit('/admin/usage');
    await page.getByText("The account's limit runtimes is reached").waitFor();
    await row('Runtimes').getByText('Reached').waitFor();
  });

  test('health says what is ready, and the master key is renewed after a question', async () => {
    await visit('/admin/platform/health');
    await page.getByText('Ready', { exact: true }).waitFor();
    await row('clock').getByText('OK', { exact: true }).waitFor();
    await row('hooks').getByText('Another process runs it').waitFor();
    await row('housekeeping').getByText('Not run yet').waitFor();
    await row('reports-sender').getByText('failed 7 times in a row').waitFor();
    await button('Rotate master key').click();
    await inDialog('Rotate').click();
    await page.getByText('Master key rotated').waitFor();
  });

  test('somebody is disabled everywhere', async () => {
    await visit('/admin/platform/people');
    await button('Disable grace').click();
    await inDialog('Disable').click();
    await closed();
    await row('grace').getByText('Disabled').waitFor();
  });
});

test('a repository is made where repositories are', async () => {
  await visit('/repositories');
  await button('New repository').click();
  await dialog().getByLabel('Name').fill('nonsense');
  await inDialog('Create').click();
  await dialog().getByRole('alert').getByText('write owner/name').waitFor();
  await dialog().getByLabel('Name').fill('demo/fresh');
  await inDialog('Create').click();
  await closed();
  await row('demo/fresh').getByText('no commits yet').waitFor();
});

describe('everybody can use it', () => {
  const pages = [
    '/profile',
    '/profile/keys',
    '/admin/account',
    '/admin/users',
    '/admin/teams',
    '/admin/service-accounts?keys=release-bot',
    '/admin/access?action=delete&entity=pipeline%2Fdemo%2Fdemo-app',
    '/admin/sso',
    '/admin/integrations',
    '/admin/configuration',
    '/admin/audit?record=130',
    '/admin/usage',
    '/admin/platform/accounts',
    '/admin/platform/people',
    '/admin/platform/health',
    '/invitation#good',
  ];
  const dialogs = [
    ['/profile/keys', 'New key'],
    ['/admin/users', 'Invite user'],
    ['/admin/users', 'Remove linus'],
    ['/admin/teams', 'Edit team operators'],
    ['/admin/access', 'Edit the rule operators: SYNC, APP_ROLLBACK gitopsApplications'],
    ['/admin/sso', 'New provider'],
    ['/admin/integrations', 'Edit github'],
    ['/admin/configuration', 'Edit registry-login'],
    ['/admin/platform/accounts', 'Limits of default'],
    ['/repositories', 'New repository'],
  ];

  for (const scheme of ['light', 'dark']) {
    test(
      `no page and no dialog breaks a rule of accessibility in ${scheme}`,
      { timeout: 240_000 },
      async () => {
        await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
        const found = [];
        for (const path of pages) {
          await visit(path);
          await settled(page);
          found.push(...(await violations(page, path)));
        }
        for (const [path, name] of dialogs) {
          await visit(path);
          await settled(page);
          await button(name).click();
          await dialog().waitFor();
          await settled(page);
          found.push(...(await violations(page, `${path}, ${name}`)));
        }
        assert.deepEqual(found, []);
      },
    );
  }

  test('nor does a page on a narrow screen, or the account menu', { timeout: 240_000 }, async () => {
    await page.emulateMedia({ reducedMotion: 'reduce' });
    const found = [];
    await visit('/');
    await settled(page);
    await button('Account of admin').click();
    await page.getByRole('menuitem', { name: 'Sign out' }).waitFor();
    await settled(page);
    found.push(...(await violations(page, 'account menu')));
    await page.setViewportSize({ width: 390, height: 844 });
    for (const path of [
      '/',
      '/applications',
      '/applications/local/argocd/demo',
      '/pipelines',
      '/pipelines/demo%2Fdemo-app',
      '/pipelines/demo%2Fdemo-app/edit',
      '/projects',
      '/repositories',
      '/runtimes',
      '/admin/usage',
    ]) {
      await visit(path);
      await settled(page);
      found.push(...(await violations(page, `${path} at 390`)));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 390, `${path} is ${wide} wide`);
    }
    await visit('/repositories');
    await settled(page);
    const clone = await page.locator('td code').first().boundingBox();
    assert.ok(clone.height < 60, `the clone URL is ${clone.height} high`);
    assert.deepEqual(found, []);
  });

  for (const [mode, text] of [
    ['empty', 'No shared configuration yet'],
    ['forbidden', 'Not allowed'],
    ['error', 'Something went wrong'],
  ]) {
    test(`a page with ${mode}`, async () => {
      await world.mode(mode);
      await visit('/admin/configuration');
      await page.getByText(text).waitFor();
    });
  }
});
