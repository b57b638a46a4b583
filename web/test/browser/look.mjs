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
  ['run-dialog', '/pipelines', (page) => page.getByRole('button', { name: 'Run demo/demo-app' }).click()],
  ['builds', '/builds'],
  ['builds-filtered', '/builds?status=error&page=2'],
  ['build-failed', `/builds/${ids.failed}#test:40`],
  ['build-pending', `/builds/${ids.pending}`],
  ['build-live', '', undefined, () => `/builds/${mock.state.start()}`, 6000],
  [
    'build-search',
    `/builds/${ids.failed}`,
    async (page) => {
      await page.getByPlaceholder('Search the log').fill('friendly');
      await page.getByPlaceholder('Search the log').press('Enter');
      await page.getByRole('button', { name: 'Wrap lines' }).click();
    },
  ],
  ['build-huge', `/builds/${ids.huge}`, undefined, undefined, 15_000],
  ['repositories', '/repositories'],
  ['applications', '/applications'],
  ['application', '/applications/local/argocd/demo'],
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
  ['runtimes', '/runtimes'],
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
