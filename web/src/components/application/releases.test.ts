import { expect, test } from 'vitest';
import type { Deployment } from '../../api/types';
import { reasonOf, replacedIn } from './releases';

const deployment: Deployment = {
  id: 2,
  revision: { sha: 'a', author: '', message: '', date: '' },
  deployedAt: '2026-01-01T00:00:00Z',
  initiatedBy: 'ada',
};

test('a reason is said in words, one of a newer runtime as it came, and none is none', () => {
  expect(reasonOf({ why: 'drift' })).toBe('the cluster had changed');
  expect(reasonOf({ why: 'moon' })).toBe('moon');
  expect(reasonOf({ why: '' })).toBeUndefined();
  expect(reasonOf({})).toBeUndefined();
});

test('images are named shortly, with what they replaced', () => {
  const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;
  const imageChanges = [
    { image: 'reg:5000/shop/web', before: ['1'], after: [`2@${digest}`] },
    { image: 'db', before: [], after: [''] },
  ];
  expect(replacedIn({ ...deployment, imageChanges })).toEqual([
    { name: 'web', image: 'reg:5000/shop/web', before: '1', after: '2@sha256:01234567' },
    { name: 'db', image: 'db', before: '', after: 'no tag' },
  ]);
  expect(replacedIn(deployment)).toEqual([]);
});
