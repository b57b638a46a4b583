import { QueryClient } from '@tanstack/react-query';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ApplicationRef } from './appProxy';
import { ApplicationRows, refOf } from './applicationRows';
import type { ApplicationList, ApplicationRow } from './types';

const row = (name: string, health: string): ApplicationRow =>
  ({ runtime: 'local', namespace: 'argocd', name, healthStatus: health }) as ApplicationRow;
const list = (...rows: ApplicationRow[]): ApplicationList => ({
  applications: rows,
  total: rows.length,
  facets: { health: {}, sync: {}, runtime: {}, namespace: {}, project: {} },
});
const ref = (name: string): ApplicationRef => ({ runtime: 'local', namespace: 'argocd', name });
const KEY = ['applications', 'list', {}, { limit: 100, offset: 0 }];

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test('an id is runtime, namespace and name', () => {
  expect(refOf('local/argocd/demo')).toEqual({ runtime: 'local', namespace: 'argocd', name: 'demo' });
  expect(refOf('demo')).toBeUndefined();
});

test('one changed application replaces one row; the others stay the very same objects', async () => {
  const cache = new QueryClient();
  cache.setQueryData(KEY, list(row('a', 'Healthy'), row('b', 'Healthy')));
  const before = cache.getQueryData<ApplicationList>(KEY)?.applications ?? [];
  const fetchRow = vi.fn(async () => row('b', 'Degraded'));
  await new ApplicationRows(cache, fetchRow).changed([ref('b')]);
  const after = cache.getQueryData<ApplicationList>(KEY)?.applications ?? [];
  expect(fetchRow).toHaveBeenCalledTimes(1);
  expect(after[1]?.healthStatus).toBe('Degraded');
  expect(after[0]).toBe(before[0]);
});

test('what is on no page is not asked for, and the pages are asked for again once', async () => {
  const cache = new QueryClient();
  cache.setQueryData(KEY, list(row('a', 'Healthy')));
  const again = vi.spyOn(cache, 'invalidateQueries');
  const fetchRow = vi.fn(async () => undefined);
  const rows = new ApplicationRows(cache, fetchRow, 50);
  await rows.changed([ref('z')]);
  await rows.changed([ref('z')]);
  expect(fetchRow).not.toHaveBeenCalled();
  vi.advanceTimersByTime(60);
  expect(again).toHaveBeenCalledTimes(1);
});

test('many changes at once are one round of pages, not many calls', async () => {
  const cache = new QueryClient();
  const names = Array.from({ length: 30 }, (_, at) => `app-${at}`);
  cache.setQueryData(KEY, list(...names.map((name) => row(name, 'Healthy'))));
  const fetchRow = vi.fn(async () => undefined);
  await new ApplicationRows(cache, fetchRow).changed(names.map((name) => ref(name)));
  expect(fetchRow).not.toHaveBeenCalled();
});
