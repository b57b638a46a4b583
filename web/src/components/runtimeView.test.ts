import { expect, test } from 'vitest';
import type { ReleaseStatus, Runtime, RuntimeDetail } from '../api/types';
import { bytesText, fits, optionalColumns, statusBoxes, typeText, updateOf } from './runtimeView';

const cluster = (name: string, state: string) => ({
  runtime: 'prod',
  name,
  server: `https://${name}.example`,
  state,
  message: '',
  serverVersion: '',
  applications: 0,
  isOwn: false,
});

const runtime = (more: Partial<RuntimeDetail> = {}): RuntimeDetail => ({
  name: 'prod',
  version: '1',
  cluster: 'Kubernetes in Paris',
  ingressUrl: '',
  online: true,
  applications: 0,
  allowedAddresses: [],
  sessions: [],
  ...more,
});

test('a column that nobody has data for is not shown', () => {
  const silent: Runtime = runtime();
  expect(optionalColumns([silent])).toEqual({ type: false, modules: false });
  const said = runtime({ installedBy: 'helm', modules: ['GitOps'] });
  expect(optionalColumns([silent, said])).toEqual({ type: true, modules: true });
  expect([said, silent, runtime({ installedBy: 'newer' })].map(typeText)).toEqual(['Helm', '', 'newer']);
});

test('one is found by its name, its place and its clusters', () => {
  const one = runtime({ clusters: [cluster('tokyo', 'Successful')] });
  for (const search of ['', 'PROD', 'paris', 'tokyo', 'tokyo.example']) expect(fits(one, search)).toBe(true);
  expect(fits(one, 'london')).toBe(false);
});

test('an update is what the feed says, and of this runtime alone', () => {
  const component = { component: 'runtime', name: 'prod', version: '1' };
  const releases = (update: string): ReleaseStatus => ({
    feed: 'ok',
    latest: '2',
    components: [
      { ...component, name: 'other', update: 'required' },
      { ...component, update, message: 'it closes a hole' },
    ],
  });
  expect(updateOf(undefined, 'prod')).toBeUndefined();
  expect(updateOf(releases(''), 'prod')).toBeUndefined();
  expect(updateOf(releases('available'), 'prod')?.text).toBe('Update available');
  expect(updateOf(releases('required'), 'prod')).toEqual({
    tone: 'bad',
    text: 'Update required',
    why: 'it closes a hole',
  });
});

test('a box shows the worst of what is in it', () => {
  const way = (state: string) => ({ name: state, state, message: '' });
  const component = (state: string) => ({ name: state, state, heard: '', message: '', lastActivity: '' });
  const good = runtime({
    connectivity: [way('connected'), way('not-known')],
    components: [component('healthy'), component('off')],
    clusters: [cluster('a', 'Successful')],
  });
  expect(statusBoxes(good).map(({ tone, text }) => [tone, text])).toEqual([
    ['ok', '1 of 2 ways connected'],
    ['ok', '1 healthy'],
    ['ok', '1 successful'],
  ]);
  const bad = runtime({
    connectivity: [way('connected'), way('unreachable'), way('silent')],
    components: [component('healthy'), component('degraded')],
    clusters: [cluster('a', 'Successful'), cluster('b', 'Failed'), cluster('c', 'Unknown')],
  });
  expect(statusBoxes(bad).map(({ tone, text }) => [tone, text])).toEqual([
    ['bad', '1 of 3 ways unreachable'],
    ['warn', '1 of 2 degraded'],
    ['bad', '1 of 3 failed'],
  ]);
  expect(statusBoxes(runtime()).map(({ tone }) => tone)).toEqual(['wait', 'wait', 'wait']);
});

test('bytes are said shortly', () => {
  const texts = [undefined, 0, 1023, 1536, 52_428_800, 3 * 1024 ** 4].map(bytesText);
  expect(texts).toEqual(['–', '0 B', '1023 B', '1.5 KiB', '50 MiB', '3.0 TiB']);
});
