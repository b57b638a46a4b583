import { expect, test } from 'vitest';
import { windowOf } from './useWindow';

test('only what is in sight is drawn, and the heights add up', () => {
  const window = windowOf(44_000, 880, 10_000, 44);
  expect(window.first).toBe(992);
  expect(window.last).toBe(1028);
  expect(window.above + (window.last - window.first) * 44 + window.below).toBe(440_000);
});

test('a short list is drawn whole, and one that shrank under the scroll has no row', () => {
  expect(windowOf(0, 600, 3, 44)).toEqual({ first: 0, last: 3, above: 0, below: 0 });
  expect(windowOf(44_000, 600, 3, 44)).toMatchObject({ first: 3, last: 3 });
});
