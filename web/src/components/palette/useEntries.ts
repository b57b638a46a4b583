/** Reads what has a name; the server answers with what the person may see, and with nothing else. */
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import { pipelinesNamedQuery } from '../../api/pipelineQueries';
import {
  applicationsQuery,
  clustersQuery,
  repositoriesQuery,
  rolloutsQuery,
  runtimesQuery,
  userQuery,
} from '../../api/queries';
import { sentence, toFailure } from '../../ui/States';
import { words, type Entry } from './entries';
import { groupsFor } from './places';

const FIRST = 20;
const BUILD_ID = /^[0-9a-f]{24}$/;

async function refresh(ref: ApplicationRef): Promise<void> {
  try {
    await appProxy.refresh(ref);
    notifications.show({ message: `${ref.name} is compared with Git again.` });
  } catch (error) {
    notifications.show({ color: 'red', title: 'Not refreshed', message: sentence(toFailure(error).message) });
  }
}

export function useEntries(text: string): { entries: Entry[]; loading: boolean; failed: string[] } {
  const router = useRouter();
  const { data: user } = useQuery(userQuery);
  const names = words(text);
  // One part of a name is what can be asked for; the other words are looked for here.
  const longest = names.toSorted((a, b) => b.length - a.length)[0] ?? '';
  const pipelines = useQuery(pipelinesNamedQuery(longest, FIRST));
  const applications = useQuery(applicationsQuery({ search: names.join(' ') }, { limit: FIRST }));
  const repositories = useQuery(repositoriesQuery);
  const runtimes = useQuery(runtimesQuery);
  const clusters = useQuery(clustersQuery);
  const rollouts = useQuery(rolloutsQuery);
  const go = (to: string) => () => void router.navigate({ href: to });
  const part = encodeURIComponent;

  const pages = groupsFor(user).flatMap(({ label: of, places }) =>
    places.map(({ to, label }): Entry => ({
      id: `page-${to}`,
      group: 'Pages',
      label,
      ...(of ? { hint: of } : {}),
      run: go(`${to}`),
    })),
  );
  const rows = applications.data?.applications ?? [];
  const pathOf = (ref: ApplicationRef) =>
    `/applications/${part(ref.runtime)}/${part(ref.namespace)}/${part(ref.name)}`;
  const entries: Entry[] = [
    ...(BUILD_ID.test(text)
      ? [{ id: `build-${text}`, group: 'Builds', label: `Build ${text}`, run: go(`/builds/${text}`) }]
      : []),
    ...pages,
    ...(pipelines.data?.docs ?? []).map(({ metadata: { name } }) => ({
      id: `pipeline-${name}`,
      group: 'Pipelines',
      label: name,
      run: go(`/pipelines/${part(name)}`),
    })),
    ...rows.map((row) => ({
      id: `application-${row.runtime}-${row.namespace}-${row.name}`,
      group: 'Applications',
      label: row.name,
      hint: `${row.namespace}, ${row.runtime}`,
      run: go(pathOf(row)),
    })),
    ...(rollouts.data ?? []).map((rollout) => ({
      id: `rollout-${rollout.runtime}-${rollout.namespace}-${rollout.name}`,
      group: 'Rollouts',
      label: rollout.name,
      hint: rollout.namespace,
      run: go(
        `${pathOf({ runtime: rollout.runtime, namespace: rollout.applicationNamespace, name: rollout.application })}/rollouts/${part(rollout.namespace)}/${part(rollout.name)}`,
      ),
    })),
    ...(repositories.data ?? []).map(({ name }) => ({
      id: `repository-${name}`,
      group: 'Repositories',
      label: name,
      run: go('/repositories'),
    })),
    ...(runtimes.data ?? []).map(({ name }) => ({
      id: `runtime-${name}`,
      group: 'Runtimes',
      label: name,
      run: go(`/runtimes/${part(name)}`),
    })),
    ...(clusters.data ?? []).map(({ name, runtime }) => ({
      id: `cluster-${runtime}-${name}`,
      group: 'Clusters',
      label: name,
      hint: runtime,
      run: go('/clusters'),
    })),
    { id: 'do-new-pipeline', group: 'Actions', label: 'New pipeline', run: go('/pipelines/new') },
    ...rows.map((row) => ({
      id: `do-refresh-${row.runtime}-${row.namespace}-${row.name}`,
      group: 'Actions',
      label: `Refresh ${row.name}`,
      hint: row.namespace,
      run: () => void refresh(row),
    })),
  ];
  const queries = { pipelines, applications, rollouts, repositories, runtimes, clusters };
  return {
    entries,
    loading: Object.values(queries).some(({ isFetching }) => isFetching),
    // Who may not read something is offered nothing of it; only what broke is told.
    failed: Object.entries(queries)
      .filter(([, { isError, error }]) => isError && toFailure(error).status !== 403)
      .map(([name]) => name),
  };
}
