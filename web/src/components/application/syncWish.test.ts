import { expect, test } from 'vitest';
import { chosenSteps, stepId, syncRequest, type Step, type SyncWish } from './syncWish';

const step = (action: string, kind: string, name: string): Step => ({
  phase: 'Sync',
  wave: 0,
  action,
  resource: `${kind} web/${name}`,
  group: kind === 'Deployment' ? 'apps' : '',
  kind,
  namespace: 'web',
  name,
  why: '',
});
const steps = [
  step('run hook', 'Job', 'migrate'),
  step('apply', 'Deployment', 'api'),
  step('prune', 'ConfigMap', 'old'),
];
const wish: SyncWish = {
  revision: ' ',
  prune: true,
  dryRun: false,
  force: false,
  replace: false,
  serverSide: false,
  withoutHooks: false,
  retries: '',
};

test('with every tick the whole application is synced, with its hooks', () => {
  expect(chosenSteps(steps, new Set(), false)).toEqual(steps);
  expect(syncRequest(wish, steps, new Set())).toEqual({ prune: true, dryRun: false, force: false });
});

test('a tick taken away names the others, and hooks do not run', () => {
  const left = new Set(steps.slice(2).map(stepId));
  expect(syncRequest({ ...wish, serverSide: true, retries: 0 }, steps, left)).toEqual({
    prune: true,
    dryRun: false,
    force: false,
    syncOptions: ['ServerSideApply=true'],
    retry: { limit: 0 },
    resources: [{ group: 'apps', kind: 'Deployment', namespace: 'web', name: 'api' }],
  });
});

test('without hooks none is counted, and the strategy says so', () => {
  expect(chosenSteps(steps, new Set(), true).map(({ kind }) => kind)).toEqual(['Deployment', 'ConfigMap']);
  expect(syncRequest({ ...wish, withoutHooks: true }, steps, new Set())).toMatchObject({ strategy: 'apply' });
});

test('what was left out of an earlier plan makes no part of this one', () => {
  const left = new Set(steps.slice(2).map(stepId));
  const now = steps.slice(0, 2);
  expect(chosenSteps(now, left, false)).toEqual(now);
  expect(syncRequest({ ...wish, prune: false }, now, left)).toEqual({
    prune: false,
    dryRun: false,
    force: false,
  });
});
