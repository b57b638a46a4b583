/** Wiring: the query cache, the change stream that keeps it fresh, and the router. */
import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query';
import { createRouter } from '@tanstack/react-router';
import { ApplicationRows } from './api/applicationRows';
import { Invalidator } from './api/changes';
import { ApiError, endsSession } from './api/client';
import { Live } from './api/live';
import { fetchApplicationRow, userQuery } from './api/queries';
import { PageError, PageLoading } from './components/PageStates';
import { NotFoundPage } from './pages/NotFoundPage';
import { routeTree } from './routes';

const RETRIES = 2;
/** While the change stream is down, what is on screen is asked for again this often. */
const POLL_MS = 5000;

export function createApp() {
  const onError = (error: unknown) => {
    if (!endsSession(error)) return;
    // The session ended under the page: forget who it was, and let the guard lead to the sign-in page.
    queryClient.setQueryData(userQuery.queryKey, null);
    void router.invalidate();
  };

  const queryClient: QueryClient = new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      queries: {
        // The platform may be on this machine: a browser that thinks it is offline asks all the same.
        networkMode: 'always',
        // The change stream says what is old; time alone does not.
        staleTime: 30_000,
        retry: (failures, error) =>
          failures < RETRIES && error instanceof ApiError && (error.status === 0 || error.status >= 500),
        refetchInterval: (query) =>
          live.current() === 'live' || query.state.status === 'error' ? false : POLL_MS,
      },
      mutations: { networkMode: 'always' },
    },
  });

  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const rows = new ApplicationRows(queryClient, fetchApplicationRow);
  const live = new Live(`${scheme}://${location.host}/2.0/api/graphql`, new Invalidator(queryClient, rows));

  const router = createRouter({
    routeTree,
    context: { queryClient },
    defaultPreload: 'intent',
    defaultPreloadStaleTime: 0,
    scrollRestoration: true,
    // Another object is another page: a dialog that stands open is never about the one that came after.
    defaultRemountDeps: ({ params }) => params,
    defaultNotFoundComponent: NotFoundPage,
    defaultErrorComponent: PageError,
    defaultPendingComponent: PageLoading,
  });

  return { queryClient, router, live };
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createApp>['router'];
  }
}
