// Pictures of every page in every state, light and dark, into test/browser/shots: for eyes, not for comparison.
// `npm run look [name-part]` draws only the pages whose name holds the part.
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { open } from './browser.mjs';

const shots = fileURLToPath(new URL('./shots', import.meta.url));
const only = process.argv[2] ?? '';
await mkdir(shots, { recursive: true });
const { mock, context, signIn, mode, close } = await open();
const { ids } = mock.state;

const PHONE = { width: 390, height: 800 };
const settled = (page) => page.waitForTimeout(700);
const pages = [
  ['home', '/'],
  ['pipelines', '/pipelines'],
  ['pipeline', '/pipelines/platform%2Fapi'],
  ['projects', '/projects'],
  ['pipeline-new', '/pipelines/new'],
  ['pipeline-edit', '/pipelines/platform%2Fapi/edit'],
  ['run-dialog', '/pipelines', (page) => page.getByRole('button', { name: 'Run demo/demo-app' }).click()],
  ['resource-events', '/applications/local/argocd/sandbox?resource=pod-demo-7c9f6d5b8-xx39u'],
  [
    'resource-manifest',
    '/applications/local/argocd/demo?resource=deployment-demo',
    (page) => page.getByRole('button', { name: 'Manifest' }).click(),
  ],
  ['builds', '/builds'],
  ['builds-filtered', '/builds?status=error&page=2'],
  ['build-failed', `/builds/${ids.failed}#test:40`],
  ['build-pending', `/builds/${ids.pending}`],
  ['build-live', '', undefined, () => `/builds/${mock.state.start()}`, 6000],
  [
    'build-search',
    `/builds/${ids.failed}`,
    async (page) => {
      await page.getByPlaceholder('Search log').fill('friendly');
      await page.getByPlaceholder('Search log').press('Enter');
      await page.getByRole('button', { name: 'Wrap lines' }).click();
    },
  ],
  ['build-huge', `/builds/${ids.huge}`, undefined, undefined, 15_000],
  ['repositories', '/repositories'],
  ['applications', '/applications'],
  [
    'applications-several',
    '/applications',
    async (page) => {
      for (const name of ['payments', 'demo'])
        await page.getByRole('checkbox', { name: `Choose ${name}` }).check();
      await page.getByRole('button', { name: 'Sync…' }).click();
    },
  ],
  ['application-new', '/applications/new'],
  ['application-new-yaml', '/applications/new', (page) => page.getByText('YAML', { exact: true }).click()],
  ['application', '/applications/local/argocd/demo'],
  [
    'application-delete',
    '/applications/local/argocd/demo',
    (page) => page.getByRole('button', { name: 'Delete from Git' }).click(),
  ],
  ['application-selected', '/applications/local/argocd/sandbox?resource=deployment-demo'],
  ['application-table', '/applications/local/argocd/shop-frontend?tab=table'],
  ['application-broken', '/applications/local/argocd/payments'],
  ['application-big', '/applications/frankfurt/argocd/search-cluster'],
  ['application-diff', '/applications/local/argocd/shop-frontend?tab=diff'],
  [
    'application-diff-split',
    '/applications/local/argocd/shop-frontend?tab=diff',
    (page) => page.getByText('Side by side').click(),
  ],
  ['application-plan', '/applications/local/argocd/shop-frontend?tab=plan'],
  ['application-history', '/applications/local/argocd/demo?tab=history'],
  [
    'application-terminal',
    '/applications/local/argocd/demo?tab=table',
    async (page) => {
      const row = page.getByRole('row').filter({ has: page.getByRole('cell', { name: 'Pod', exact: true }) });
      await row.first().getByRole('button').click();
      await page.getByRole('button', { name: 'Terminal', exact: true }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Open', exact: true }).click();
      const line = page.getByPlaceholder('Type a command and press Enter');
      await line.fill('echo hello');
      await line.press('Enter');
    },
  ],
  ['rollouts', '/rollouts'],
  ['rollout', '/applications/local/argocd/shop-frontend/rollouts/demo/web'],
  ['rollout-failed', '/applications/frankfurt/argocd/search-cluster/rollouts/search/web'],
  ['rollout-tree', '/applications/local/argocd/shop-frontend?resource=rollout-web'],
  ['runtimes', '/runtimes'],
  ['git-access', '/runtimes/local/git'],
  [
    'git-access-token',
    '/runtimes/local/git',
    (page) => page.getByRole('button', { name: 'Give a token' }).click(),
  ],
  ['git-access-elsewhere', `/runtimes/local/git#provider=gitea&code=c0de&state=${'7b'.repeat(32)}`],
  ['repository-new', '/repositories', (page) => page.getByRole('button', { name: 'New repository' }).click()],
  ['admin-profile', '/profile'],
  ['admin-keys', '/profile/keys'],
  [
    'admin-key-new',
    '/profile/keys',
    async (page) => {
      await page.getByRole('button', { name: 'New key' }).click();
      await page.getByLabel('Permissions').selectOption('chosen');
      await page.getByPlaceholder('pipeline, build:read').fill('pipe');
    },
  ],
  ['admin-account', '/admin/account'],
  ['admin-users', '/admin/users'],
  ['admin-invite', '/admin/users', (page) => page.getByRole('button', { name: 'Invite user' }).click()],
  ['admin-teams', '/admin/teams'],
  ['admin-team', '/admin/teams', (page) => page.getByRole('button', { name: 'Edit team operators' }).click()],
  ['admin-service-accounts', '/admin/service-accounts?keys=release-bot'],
  ['admin-access', '/admin/access?user=ada%40example.com&action=delete&entity=pipeline%2Fdemo%2Fdemo-app'],
  [
    'admin-rule',
    '/admin/access',
    (page) => page.getByRole('button', { name: 'Edit rule operators: SYNC' }).click(),
  ],
  ['admin-sso', '/admin/sso'],
  ['admin-sso-new', '/admin/sso', (page) => page.getByRole('button', { name: 'New provider' }).click()],
  ['admin-integrations', '/admin/integrations'],
  [
    'admin-integration',
    '/admin/integrations',
    (page) => page.getByRole('button', { name: 'Edit github' }).click(),
  ],
  ['admin-configuration', '/admin/configuration'],
  [
    'admin-secret',
    '/admin/configuration',
    (page) => page.getByRole('button', { name: 'Edit registry-login' }).click(),
  ],
  ['admin-audit', '/admin/audit'],
  ['admin-audit-diff', '/admin/audit?entity=pipeline&record=130', undefined, undefined, 2000],
  ['admin-usage', '/admin/usage'],
  ['admin-accounts', '/admin/platform/accounts'],
  ['admin-people', '/admin/platform/people'],
  ['admin-health', '/admin/platform/health'],
  ['invitation', '/invitation#good'],
  ['invitation-old', '/invitation#old'],
  ['not-found', '/nowhere'],
  ['phone-home', '/', undefined, undefined, 0, PHONE],
  ['phone-build', `/builds/${ids.failed}`, undefined, undefined, 0, PHONE],
  [
    'phone-application',
    '/applications/local/argocd/sandbox?resource=deployment-demo',
    undefined,
    undefined,
    0,
    PHONE,
  ],
  [
    'phone-menu',
    '/builds',
    (page) => page.getByRole('button', { name: 'Open the menu' }).click(),
    undefined,
    0,
    PHONE,
  ],
  ['phone-users', '/admin/users', undefined, undefined, 0, PHONE],
  ['phone-audit', '/admin/audit', undefined, undefined, 0, PHONE],
  ['phone-access', '/admin/access', undefined, undefined, 0, PHONE],
  ['application-not-found', '/applications/local/argocd/none'],
];

async function shoot(name, scheme, path, act, make, wait, size) {
  if (!name.includes(only)) return;
  const page = await context.newPage();
  page.on('pageerror', (error) => console.error(`${name}: ${error.message}`));
  page.on('console', (message) => message.type() === 'error' && console.error(`${name}: ${message.text()}`));
  await page.emulateMedia({ colorScheme: scheme });
  if (size) await page.setViewportSize(size);
  await page.goto(mock.url + (make ? make() : path));
  await settled(page);
  await act?.(page);
  await (wait ? page.waitForTimeout(wait) : settled(page));
  await page.screenshot({ path: `${shots}/${name}-${scheme}.png` });
  await page.close();
}

for (const scheme of ['light', 'dark']) {
  await context.clearCookies();
  await shoot('login', scheme, '/builds');
  await signIn();
  for (const [name, ...rest] of pages) await shoot(name, scheme, ...rest);
  for (const state of ['empty', 'forbidden', 'error']) {
    await mode(state);
    for (const [name, path] of [
      ['home', '/'],
      ['pipelines', '/pipelines'],
      ['applications', '/applications'],
    ]) {
      await shoot(`${state}-${name}`, scheme, path, undefined, undefined, state === 'error' ? 4500 : 0);
    }
  }
}
await close();
