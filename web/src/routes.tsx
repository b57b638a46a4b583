/** Every address of the app. View state that is worth sharing (filters, tab, selected resource) is in the address. */
import type { QueryClient } from '@tanstack/react-query';
import {
  createRootRouteWithContext,
  createRoute,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router';
import { userQuery } from './api/queries';
import { Shell } from './components/Shell';
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
  component: lazyRouteComponent(() => import('./pages/LoginPage'), 'LoginPage'),
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

const pipelines = createRoute({
  getParentRoute: () => signedIn,
  path: '/pipelines',
  validateSearch: (search: Record<string, unknown>) => compact({ page: pageNumber(search['page']) }),
  component: lazyRouteComponent(() => import('./pages/PipelinesPage'), 'PipelinesPage'),
});

const pipeline = createRoute({
  getParentRoute: () => signedIn,
  path: '/pipelines/$name',
  component: lazyRouteComponent(() => import('./pages/PipelinePage'), 'PipelinePage'),
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
  component: lazyRouteComponent(() => import('./pages/BuildsPage'), 'BuildsPage'),
});

const build = createRoute({
  getParentRoute: () => signedIn,
  path: '/builds/$id',
  component: lazyRouteComponent(() => import('./pages/BuildPage'), 'BuildPage'),
});

const repositories = createRoute({
  getParentRoute: () => signedIn,
  path: '/repositories',
  component: lazyRouteComponent(() => import('./pages/RepositoriesPage'), 'RepositoriesPage'),
});

const applications = createRoute({
  getParentRoute: () => signedIn,
  path: '/applications',
  component: lazyRouteComponent(() => import('./pages/ApplicationsPage'), 'ApplicationsPage'),
});

export const applicationTabs = ['tree', 'table', 'diff', 'plan', 'history'] as const;
export type ApplicationTab = (typeof applicationTabs)[number];

const application = createRoute({
  getParentRoute: () => signedIn,
  path: '/applications/$runtime/$namespace/$name',
  validateSearch: (search: Record<string, unknown>) =>
    compact({
      tab: applicationTabs.find((tab) => tab === search['tab']),
      resource: text(search['resource']),
    }),
  component: lazyRouteComponent(() => import('./pages/ApplicationPage'), 'ApplicationPage'),
});

const runtimes = createRoute({
  getParentRoute: () => signedIn,
  path: '/runtimes',
  component: lazyRouteComponent(() => import('./pages/RuntimesPage'), 'RuntimesPage'),
});

/** Inside the frame, so that the way on is in sight. */
const nowhere = createRoute({ getParentRoute: () => signedIn, path: '$', component: NotFoundPage });

export const routeTree = root.addChildren([
  login,
  signedIn.addChildren([
    home,
    pipelines,
    pipeline,
    builds,
    build,
    repositories,
    applications,
    application,
    runtimes,
    nowhere,
  ]),
]);
