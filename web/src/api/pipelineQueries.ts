/** What the pages of projects, pipelines and triggers read. */
import { queryOptions } from '@tanstack/react-query';
import { http, unwrap } from './client';

export const projectsQuery = queryOptions({
  // A project changes with its pipelines: one noun for the change stream.
  queryKey: ['pipelines', 'projects'],
  queryFn: async ({ signal }) => (await unwrap(http.GET('/api/projects', { signal }))).projects,
});

export const projectPipelinesQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['pipelines', 'of-project', projectId],
    queryFn: ({ signal }) =>
      unwrap(http.GET('/api/pipelines', { params: { query: { projectId, limit: 500 } }, signal })),
  });

export const revisionsQuery = (name: string) =>
  queryOptions({
    queryKey: ['pipelines', 'revisions', name],
    queryFn: ({ signal }) =>
      unwrap(http.GET('/api/pipelines/{name}/revisions', { params: { path: { name } }, signal })),
  });

export const revisionDiffQuery = (name: string, from: number, to: number) =>
  queryOptions({
    queryKey: ['pipelines', 'diff', name, from, to],
    queryFn: ({ signal }) =>
      unwrap(
        http.GET('/api/pipelines/{name}/diff', { params: { path: { name }, query: { from, to } }, signal }),
      ),
  });

export const hooksQuery = queryOptions({
  queryKey: ['pipelines', 'hooks'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/hooks', { signal })),
});

/** Those with this in their name. */
export const pipelinesNamedQuery = (part: string, limit: number) =>
  queryOptions({
    queryKey: ['pipelines', 'named', part, limit],
    queryFn: ({ signal }) => {
      const query = { limit, ...(part ? { id: part } : {}) };
      return unwrap(http.GET('/api/pipelines', { params: { query }, signal }));
    },
  });
