import { QueryClient, QueryObserver } from '@tanstack/react-query';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Invalidator, keysOf } from './changes';
import { waitMs } from './live';
import {
  applicationQuery,
  applicationsQuery,
  buildQuery,
  buildsQuery,
  eventsQuery,
  repositoriesQuery,
  runtimesQuery,
} from './queries';

describe('which answers a change makes old', () => {
  const demo = { runtime: 'local', namespace: 'argocd', name: 'demo' };
  const pod = { group: '', kind: 'Pod', namespace: 'demo', resourceName: 'web-1' };
  const queries = {
    build: buildQuery('a'),
    otherBuild: buildQuery('b'),
    builds: buildsQuery({ limit: 25 }),
    application: applicationQuery(demo),
    events: eventsQuery(demo, pod),
    applications: applicationsQuery({}),
    runtimes: runtimesQuery,
    repositories: repositoriesQuery,
  };

  function oldAfter(kind: string, id: string): string[] {
    const client = new QueryClient();
    for (const { queryKey } of Object.values(queries))
      client.setQueryData(queryKey as readonly unknown[], {});
    for (const queryKey of keysOf({ kind, id })) void client.invalidateQueries({ queryKey });
    return Object.entries(queries).flatMap(([name, { queryKey }]) =>
      client.getQueryState(queryKey as readonly unknown[])?.isInvalidated ? [name] : [],
    );
  }

  test.each([
    ['build', 'a', ['build', 'builds']],
    ['application', 'local/argocd/demo', ['application', 'events']],
    ['application', 'local/argocd/other', []],
    ['application', 'an id of another form', ['application', 'events', 'applications']],
    ['runtime', 'local', ['runtimes']],
    ['repository', 'x', ['repositories']],
    ['all', '', Object.keys(queries)],
    ['something newer', 'x', Object.keys(queries)],
  ])('%s %s', (kind, id, expected) => expect(oldAfter(kind, id)).toEqual(expected));
});

describe('the invalidator', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test('tells of each key once in a moment, however often it changed', async () => {
    const invalidateQueries = vi.fn().mockResolvedValue(undefined);
    const invalidator = new Invalidator({ invalidateQueries, isFetching: () => 0 }, undefined, 100);
    for (let index = 0; index < 50; index++) invalidator.changed({ kind: 'build', id: 'a' });
    await vi.advanceTimersByTimeAsync(100);
    expect(invalidateQueries.mock.calls.map(([{ queryKey }]) => queryKey)).toEqual([
      ['builds', 'one', 'a'],
      ['builds', 'list'],
    ]);
  });

  test('lets a slow round finish before the next, and loses nothing that came meanwhile', async () => {
    let finish = () => {};
    const invalidateQueries = vi.fn(() => new Promise<void>((done) => (finish = done)));
    const invalidator = new Invalidator({ invalidateQueries, isFetching: () => 0 }, undefined, 100);
    invalidator.changed({ kind: 'repository', id: 'a' });
    await vi.advanceTimersByTimeAsync(100);
    invalidator.changed({ kind: 'repository', id: 'a' });
    await vi.advanceTimersByTimeAsync(5000);
    expect(invalidateQueries).toHaveBeenCalledTimes(1);
    finish();
    await vi.advanceTimersByTimeAsync(100);
    expect(invalidateQueries).toHaveBeenCalledTimes(2);
  });

  test('a first answer of before the change is not the last one', async () => {
    const client = new QueryClient();
    const answers: ((answer: string) => void)[] = [];
    const queryFn = () => new Promise<string>((done) => answers.push(done));
    const observer = new QueryObserver(client, { queryKey: ['repositories'], queryFn, staleTime: Infinity });
    const leave = observer.subscribe(() => {});
    new Invalidator(client, undefined, 100).changed({ kind: 'repository', id: 'a' });
    await vi.advanceTimersByTimeAsync(100);
    expect(answers).toHaveLength(1);
    answers[0]?.('before');
    await vi.advanceTimersByTimeAsync(1);
    expect(observer.getCurrentResult().data).toBe('before');
    answers[1]?.('after');
    await vi.advanceTimersByTimeAsync(1);
    expect(observer.getCurrentResult().data).toBe('after');
    leave();
  });

  test('everything is told as one', async () => {
    const invalidateQueries = vi.fn().mockResolvedValue(undefined);
    const invalidator = new Invalidator({ invalidateQueries, isFetching: () => 0 }, undefined, 100);
    invalidator.changed({ kind: 'build', id: 'a' });
    invalidator.everything();
    await vi.advanceTimersByTimeAsync(100);
    expect(invalidateQueries.mock.calls).toEqual([[{ queryKey: [] }]]);
  });
});

test('waits grow, are spread, and have an end', () => {
  expect([waitMs(0, 0), waitMs(0, 1)]).toEqual([250, 500]);
  expect([waitMs(3, 0), waitMs(3, 1)]).toEqual([2000, 4000]);
  expect(waitMs(50, 1)).toBe(20_000);
});
