import { expect, test } from 'vitest';
import { choose, fits, PER_GROUP, words, type Entry } from './entries';

const entry = (group: string, label: string): Entry => ({
  id: `${group}/${label}`,
  group,
  label,
  run: () => {},
});
const labels = (entries: Entry[]) => entries.map(({ label }) => label);

test('every word has to be there, and beginnings count more', () => {
  expect(fits('platform/api', 'web')).toBe(0);
  expect(fits('platform/api', 'api plat')).toBeGreaterThan(0);
  expect(fits('api', 'api')).toBeGreaterThan(fits('rapid', 'api'));
  expect(fits('platform/api', 'api')).toBeGreaterThan(fits('platform/rapid', 'api'));
});

test('the best of each group, in the order of the groups', () => {
  const entries = [
    entry('Pages', 'Pipelines'),
    ...Array.from({ length: 20 }, (_, at) => entry('Pipelines', `team/service-${at}`)),
    entry('Pipelines', 'pipeline'),
    entry('Applications', 'payments'),
  ];
  const found = choose(entries, 'pipeline');
  expect(labels(found).slice(0, 2)).toEqual(['Pipelines', 'pipeline']);
  expect(found.filter(({ group }) => group === 'Pipelines')).toHaveLength(PER_GROUP);
  expect(labels(choose(entries, 'payments'))).toEqual(['payments']);
  expect(labels(choose(entries, 'applications pay'))).toEqual(['payments']);
  expect(choose(entries, 'nothing of this name')).toEqual([]);
});

test('what names a group or an action is not looked for in names', () => {
  expect(words('refresh shop front')).toEqual(['shop', 'front']);
  expect(words(' applications  pay')).toEqual(['pay']);
  expect(words('refresh')).toEqual(['refresh']);
  expect(words('new pipeline')).toEqual([]);
});
