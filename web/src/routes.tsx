/** Every address of the app. View state that is worth sharing (filters, tab, selected resource) is in the address. */
import type { QueryClient } from '@tanstack/react-query';
import { createRootRouteWithContext, createRoute, Outlet, redirect } from '@tanstack/react-router';
import { userQuery } from './api/queries';
import { Shell } from './components/Shell';
import { page } from './page';
import { HomePage } from './pages/HomePage';
import { NotFoundPage } from './pages/NotFoundPage';

export interface RouterContext {
  queryClient: QueryClient;
}

const root = createRootRouteWithContext<RouterContext>()({ component: Outlet });

const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

/** Keeps the address short: what is not set is not written. */
function compact<T extends Record<string, unknown>>(search: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}

const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  validateSearch: (search: Record<string, unknown>) => compact({ next: text(search['next']) }),
  component: page(() => import('./pages/LoginPage'), 'LoginPage'),
});

/** Everything behind it needs somebody signed in. */
const signedIn = createRoute({
  getParentRoute: () => root,
  id: 'signed-in',
  beforeLoad: async ({ context, location }) => {
    const user = await context.queryClient.ensureQueryData(userQuery);
    if (!user) throw redirect({ to: '/login', search: location.href === '/' ? {} : { next: location.href } });
    return { user };
  },
  component: Shell,
});

const home = createRoute({ getParentRoute: () => signedIn, path: '/', component: HomePage });

const pageNumber = (value: unknown): number | undefined => {
  const number = Number(value);
  return Number.isInteger(number) && number > 1 ? number : undefined;
};

const wholeNumber = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) ? value : undefined;

const pipelines = createRoute({
  getParentRoute: () => signedIn,
  path: '/pipelines',
  validateSearch: (search: Record<string, unknown>) => compact({ page: pageNumber(search['page']) }),
  component: page(() => import('./pages/PipelinesPage'), 'PipelinesPage'),
});

const pipeline = createRoute({
  getParentRoute: () => signedIn,
  path: '/pipelines/$name',
  component: page(() => import('./pages/PipelinePage'), 'PipelinePage'),
});

const newPipeline = createRoute({
  getParentRoute: () => signedIn,
  path: '/pipelines/new',
  validateSearch: (search: Record<string, unknown>) => compact({ project: text(search['project']) }),
  component: page(() => import('./pages/PipelineEditorPage'), 'NewPipelinePage'),
});

const editPipeline = createRoute({
  getParentRoute: () => signedIn,
  path: '/pipelines/$name/edit',
  component: page(() => import('./pages/PipelineEditorPage'), 'EditPipelinePage'),
});

const projects = createRoute({
  getParentRoute: () => signedIn,
  path: '/projects',
  component: page(() => import('./pages/ProjectsPage'), 'ProjectsPage'),
});

const builds = createRoute({
  getParentRoute: () => signedIn,
  path: '/builds',
  validateSearch: (search: Record<string, unknown>) =>
    compact({
      pipeline: text(search['pipeline']),
      status: text(search['status']),
      page: pageNumber(search['page']),
    }),
  component: page(() => import('./pages/BuildsPage'), 'BuildsPage'),
});

const build = createRoute({
  getParentRoute: () => signedIn,
  path: '/builds/$id',
  component: page(() => import('./pages/BuildPage'), 'BuildPage'),
});

const repositories = createRoute({
  getParentRoute: () => signedIn,
  path: '/repositories',
  component: page(() => import('./pages/RepositoriesPage'), 'RepositoriesPage'),
});

const applications = createRoute({
  getParentRoute: () => signedIn,
  path: '/applications',
  validateSearch: (search: Record<string, unknown>) =>
    compact({
      search: text(search['search']),
      health: text(search['health']),
      sync: text(search['sync']),
      runtime: text(search['runtime']),
      namespace: text(search['namespace']),
      project: text(search['project']),
      sort: ['problems', 'changed'].find((sort) => sort === search['sort']),
    }),
  component: page(() => import('./pages/ApplicationsPage'), 'ApplicationsPage'),
});

export const applicationTabs = ['tree', 'table', 'diff', 'plan', 'sync', 'logs', 'history'] as const;
export type ApplicationTab = (typeof applicationTabs)[number];

const application = createRoute({
  getParentRoute: () => signedIn,
  path: '/applications/$runtime/$namespace/$name',
  validateSearch: (search: Record<string, unknown>) =>
    compact({
      tab: applicationTabs.find((tab) => tab === search['tab']),
      resource: text(search['resource']),
      find: text(search['find']),
      health: text(search['health']),
      sync: text(search['sync']),
    }),
  component: page(() => import('./pages/ApplicationPage'), 'ApplicationPage'),
});

const newApplication = createRoute({
  getParentRoute: () => signedIn,
  path: '/applications/new',
  validateSearch: (search: Record<string, unknown>) => compact({ runtime: text(search['runtime']) }),
  component: page(() => import('./pages/NewApplicationPage'), 'NewApplicationPage'),
});

const rollouts = createRoute({
  getParentRoute: () => signedIn,
  path: '/rollouts',
  component: page(() => import('./pages/RolloutsPage'), 'RolloutsPage'),
});

/** `within` is the Rollout's own namespace. */
const rollout = createRoute({
  getParentRoute: () => signedIn,
  path: '/applications/$runtime/$namespace/$name/rollouts/$within/$rollout',
  component: page(() => import('./pages/RolloutPage'), 'RolloutPage'),
});

const runtimes = createRoute({
  getParentRoute: () => signedIn,
  path: '/runtimes',
  component: page(() => import('./pages/RuntimesPage'), 'RuntimesPage'),
});

const runtime = createRoute({
  getParentRoute: () => signedIn,
  path: '/runtimes/$name',
  component: page(() => import('./pages/RuntimePage'), 'RuntimePage'),
});

const gitAccess = createRoute({
  getParentRoute: () => signedIn,
  path: '/runtimes/$name/git',
  component: page(() => import('./pages/GitAccessPage'), 'GitAccessPage'),
});

const clusters = createRoute({
  getParentRoute: () => signedIn,
  path: '/clusters',
  component: page(() => import('./pages/ClustersPage'), 'ClustersPage'),
});

/** Outside the frame: whoever is invited is not signed in yet. The token is behind `#`, where no server sees it. */
const invitation = createRoute({
  getParentRoute: () => root,
  path: '/invitation',
  component: page(() => import('./pages/InvitationPage'), 'InvitationPage'),
});

const profile = createRoute({
  getParentRoute: () => signedIn,
  path: '/profile',
  component: page(() => import('./pages/admin/ProfilePage'), 'ProfilePage'),
});

const keys = createRoute({
  getParentRoute: () => signedIn,
  path: '/profile/keys',
  component: page(() => import('./pages/admin/KeysPage'), 'KeysPage'),
});

const adminAccount = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/account',
  component: page(() => import('./pages/admin/AccountPage'), 'AccountPage'),
});

const users = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/users',
  component: page(() => import('./pages/admin/UsersPage'), 'UsersPage'),
});

const teams = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/teams',
  component: page(() => import('./pages/admin/TeamsPage'), 'TeamsPage'),
});

const serviceAccounts = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/service-accounts',
  validateSearch: (search: Record<string, unknown>) => compact({ keys: text(search['keys']) }),
  component: page(() => import('./pages/admin/ServiceAccountsPage'), 'ServiceAccountsPage'),
});

const access = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/access',
  validateSearch: (search: Record<string, unknown>) =>
    compact({ user: text(search['user']), action: text(search['action']), entity: text(search['entity']) }),
  component: page(() => import('./pages/admin/AccessPage'), 'AccessPage'),
});

const sso = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/sso',
  component: page(() => import('./pages/admin/SsoPage'), 'SsoPage'),
});

const integrations = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/integrations',
  component: page(() => import('./pages/admin/ContextsPage'), 'IntegrationsPage'),
});

const configuration = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/configuration',
  component: page(() => import('./pages/admin/ContextsPage'), 'ConfigurationPage'),
});

/** Filters, the page, and the record that is unfolded. */
const auditSearch = (search: Record<string, unknown>) =>
  compact({
    user: text(search['user']),
    entity: text(search['entity']),
    action: text(search['action']),
    outcome: text(search['outcome']),
    search: text(search['search']),
    from: text(search['from']),
    to: text(search['to']),
    platform: search['platform'] === true ? true : undefined,
    page: pageNumber(search['page']),
    record: wholeNumber(search['record']),
  });

const audit = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/audit',
  validateSearch: auditSearch,
  component: page(() => import('./pages/admin/AuditPage'), 'AuditPage'),
});

const usage = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/usage',
  component: page(() => import('./pages/admin/UsagePage'), 'UsagePage'),
});

const accounts = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/platform/accounts',
  component: page(() => import('./pages/admin/AccountsPage'), 'AccountsPage'),
});

const people = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/platform/people',
  validateSearch: (search: Record<string, unknown>) => compact({ page: pageNumber(search['page']) }),
  component: page(() => import('./pages/admin/PeoplePage'), 'PeoplePage'),
});

const health = createRoute({
  getParentRoute: () => signedIn,
  path: '/admin/platform/health',
  component: page(() => import('./pages/admin/HealthPage'), 'HealthPage'),
});

/** Inside the frame, so that the way on is in sight. */
const nowhere = createRoute({ getParentRoute: () => signedIn, path: '$', component: NotFoundPage });

export const routeTree = root.addChildren([
  login,
  invitation,
  signedIn.addChildren([
    home,
    projects,
    pipelines,
    newPipeline,
    pipeline,
    editPipeline,
    builds,
    build,
    repositories,
    applications,
    newApplication,
    application,
    runtimes,
    runtime,
    gitAccess,
    clusters,
    rollouts,
    rollout,
    profile,
    keys,
    adminAccount,
    users,
    teams,
    serviceAccounts,
    access,
    sso,
    integrations,
    configuration,
    audit,
    usage,
    accounts,
    people,
    health,
    nowhere,
  ]),
]);
