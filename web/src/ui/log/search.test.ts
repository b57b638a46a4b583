import { expect, test } from 'vitest';
import { Section } from './buffer';
import { MATCHES_MAX, occurrences, Search } from './search';

function section(name: string, text: string): Section {
  const made = new Section(name);
  made.append(text);
  return made;
}

function all(search: Search, sections: Section[], clock?: () => number): number {
  let steps = 1;
  while (!search.step(sections, clock)) steps++;
  return steps;
}

test('finds lines in any case and through colours, in the order of sections', () => {
  const sections = [
    section('b', 'nothing\nan ERROR here\n'),
    section('a', 'er\u001b[31mror\u001b[0m in colour\n'),
  ];
  const search = new Search('error');
  all(search, sections);
  expect(search.matches(['a', 'b'])).toEqual([
    { section: 'a', line: 0 },
    { section: 'b', line: 1 },
  ]);
});

test('goes on where it stopped when lines come, and looks again at a line that grew', () => {
  const growing = section('a', 'one\ntw');
  const search = new Search('two');
  all(search, [growing]);
  expect(search.count).toBe(0);
  growing.append('o\nthree two\n');
  all(search, [growing]);
  all(search, [growing]);
  expect(search.matches(['a']).map(({ line }) => line)).toEqual([1, 2]);
});

test('tabs are found as the spaces that they show', () => {
  const search = new Search('a   b');
  all(search, [section('s', 'xxxxa\tb\n')]);
  expect(search.count).toBe(1);
});

test('works in slices', () => {
  let now = 0;
  const long = section('a', '');
  for (let piece = 0; piece < 20; piece++) long.append('line\n'.repeat(20_000));
  const steps = all(new Search('x'), [long], () => (now += 3));
  expect(steps).toBeGreaterThan(3);
});

test('stops at the limit', () => {
  const search = new Search('line');
  all(search, [section('a', 'line\n'.repeat(MATCHES_MAX + 5))]);
  expect(search.count).toBe(MATCHES_MAX);
  expect(search.full).toBe(true);
});

test('occurrences do not overlap', () => {
  expect(occurrences('Aaaa', 'aa')).toEqual([
    [0, 2],
    [2, 4],
  ]);
  expect(occurrences('text', '')).toEqual([]);
});
