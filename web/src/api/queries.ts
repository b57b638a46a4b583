/**
 * What pages read, as query options: a key and how to fetch it. Keys start with the noun that the change stream
 * names, so that `changes.ts` can invalidate by kind and id.
 */
import { queryOptions } from '@tanstack/react-query';
import { appProxy, type ApplicationRef } from './appProxy';
import { ApiError, http, setCsrfToken, unwrap } from './client';
import type { ApplicationRow, ResourceRef } from './types';

export interface BuildFilter {
  pipeline?: string | undefined;
  status?: string | undefined;
  page?: number | undefined;
  limit: number;
}

/** The signed-in person, or null when nobody is. */
export const userQuery = queryOptions({
  queryKey: ['user'],
  staleTime: Infinity,
  queryFn: async ({ signal }) => {
    try {
      const user = await unwrap(http.GET('/api/user', { signal }));
      setCsrfToken(user.csrfToken);
      return user;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return null;
      throw error;
    }
  },
});

/** What the sign-in page offers besides the password. */
export const loginOptionsQuery = (of: string) =>
  queryOptions({
    queryKey: ['login-options', of],
    queryFn: ({ signal }) =>
      unwrap(http.GET('/api/auth/options', { params: { query: of ? { of } : {} }, signal })),
  });

/** Whether one may do something to an Application, and why. */
export const mayQuery = (action: string, { runtime, namespace, name }: ApplicationRef) =>
  queryOptions({
    queryKey: ['may', action, runtime, namespace, name],
    queryFn: ({ signal }) =>
      unwrap(
        http.GET('/api/access/explain', {
          params: { query: { action, entity: `gitopsApplications/${runtime}/${namespace}/${name}` } },
          signal,
        }),
      ),
  });

export const pipelinesQuery = (page: { limit: number; offset: number }) =>
  queryOptions({
    queryKey: ['pipelines', 'list', page],
    queryFn: ({ signal }) => unwrap(http.GET('/api/pipelines', { params: { query: page }, signal })),
  });

export const pipelineQuery = (name: string) =>
  queryOptions({
    queryKey: ['pipelines', 'one', name],
    queryFn: ({ signal }) =>
      unwrap(http.GET('/api/pipelines/{name}', { params: { path: { name } }, signal })),
  });

export const buildsQuery = ({ limit, page = 1, pipeline, status }: BuildFilter) =>
  queryOptions({
    queryKey: ['builds', 'list', { limit, page, pipeline, status }],
    queryFn: async ({ signal }) => {
      const query = { limit, page, ...(pipeline ? { pipeline } : {}), ...(status ? { status } : {}) };
      const answer = await unwrap(http.GET('/api/workflow', { params: { query }, signal }));
      return answer.workflows;
    },
  });

export const buildQuery = (id: string) =>
  queryOptions({
    queryKey: ['builds', 'one', id],
    queryFn: ({ signal }) => unwrap(http.GET('/api/builds/{id}', { params: { path: { id } }, signal })),
  });

export const repositoriesQuery = queryOptions({
  queryKey: ['repositories'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/repos', { signal })),
});

export const runtimesQuery = queryOptions({
  queryKey: ['runtimes'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/runtimes', { signal })),
});

export const runtimeQuery = (name: string) =>
  queryOptions({
    queryKey: ['runtimes', name],
    queryFn: ({ signal }) => unwrap(http.GET('/api/runtimes/{name}', { params: { path: { name } }, signal })),
  });

/** What the release feed says; nobody waits for it. */
export const releasesQuery = queryOptions({
  queryKey: ['releases'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/releases', { signal })),
  staleTime: 600_000,
});

/** Old with their runtimes: reports of those tell of them. */
export const clustersQuery = queryOptions({
  queryKey: ['runtimes', '', 'clusters'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/gitops/clusters', { signal })),
});

export const runnersQuery = queryOptions({
  queryKey: ['runners'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/runners', { signal })),
});

/** What the list of applications is narrowed to; several values of one kind with commas. */
export interface ApplicationFilter {
  search?: string | undefined;
  health?: string | undefined;
  sync?: string | undefined;
  runtime?: string | undefined;
  namespace?: string | undefined;
  project?: string | undefined;
  sort?: string | undefined;
}

export const APPLICATIONS_PAGE = 100;

/** One page of them, with the total and how many there are by state. */
export const applicationsQuery = (
  filter: ApplicationFilter,
  { limit = APPLICATIONS_PAGE, offset = 0 }: { limit?: number; offset?: number } = {},
) =>
  queryOptions({
    queryKey: ['applications', 'list', filter, { limit, offset }],
    queryFn: ({ signal }) => {
      const given = Object.entries(filter).filter(([, value]) => value);
      const query = { ...(Object.fromEntries(given) as Record<string, string>), limit, offset };
      return unwrap(http.GET('/api/applications', { params: { query }, signal }));
    },
  });

/** One row of the list as it is now, or nothing when it is gone or not to be seen. */
export async function fetchApplicationRow(ref: ApplicationRef): Promise<ApplicationRow | undefined> {
  const answer = await unwrap(
    http.GET('/api/applications', { params: { query: { ...ref, limit: 1 } }, cache: 'no-store' }),
  );
  return answer.applications[0];
}

export const applicationQuery = (ref: ApplicationRef) =>
  queryOptions({
    queryKey: ['applications', 'one', ref.runtime, ref.namespace, ref.name],
    queryFn: ({ signal }) =>
      unwrap(
        http.GET('/api/applications/{runtime}/{namespace}/{name}', { params: { path: { ...ref } }, signal }),
      ),
  });

/** Of all applications that one may see. */
export const rolloutsQuery = queryOptions({
  queryKey: ['applications', 'rollouts'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/gitops/rollouts', { signal })),
});

export const diffQuery = (ref: ApplicationRef) =>
  queryOptions({
    queryKey: ['applications', 'diff', ref.runtime, ref.namespace, ref.name],
    queryFn: ({ signal }) => appProxy.diff(ref, signal),
  });

const ofResource = (what: string, ref: ApplicationRef, of: ResourceRef) =>
  ['applications', what, ref.runtime, ref.namespace, ref.name, of] as const;

/** Asked whenever somebody opens it, and not again while they read: its place would be lost. */
export const manifestQuery = (ref: ApplicationRef, of: ResourceRef) =>
  queryOptions({
    queryKey: ofResource('resource', ref, of),
    queryFn: ({ signal }) => appProxy.resource(ref, of, signal),
    staleTime: Infinity,
    gcTime: 0,
    refetchInterval: false,
  });

export const eventsQuery = (ref: ApplicationRef, of: ResourceRef) =>
  queryOptions({
    queryKey: ofResource('events', ref, of),
    queryFn: ({ signal }) => appProxy.events(ref, of, signal),
  });

export const actionsQuery = (ref: ApplicationRef, of: ResourceRef) =>
  queryOptions({
    queryKey: ofResource('actions', ref, of),
    queryFn: ({ signal }) => appProxy.actions(ref, of, signal),
  });

/** What a rollback to a deployment would change. */
export const rollbackDiffQuery = (ref: ApplicationRef, deployment: number) =>
  queryOptions({
    queryKey: ['applications', 'diff', ref.runtime, ref.namespace, ref.name, deployment],
    queryFn: ({ signal }) => appProxy.diff(ref, signal, deployment),
  });

export const planQuery = (ref: ApplicationRef, prune?: boolean) =>
  queryOptions({
    queryKey: [
      'applications',
      'plan',
      ref.runtime,
      ref.namespace,
      ref.name,
      ...(prune === undefined ? [] : [prune]),
    ],
    queryFn: ({ signal }) => appProxy.plan(ref, signal, prune),
  });
