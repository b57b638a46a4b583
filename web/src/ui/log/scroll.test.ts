import { describe, expect, test } from 'vitest';
import {
  extent,
  isScaled,
  lastPosition,
  moveBy,
  positionAt,
  scrollTopAt,
  visible,
  type Geometry,
} from './scroll';

const even = (rows: number): Geometry => ({ rows, viewport: 600, lineHeight: 20, heightOf: () => 20 });
const uneven: Geometry = {
  rows: 1000,
  viewport: 600,
  lineHeight: 20,
  heightOf: (row) => (row % 10 === 0 ? 200 : 20),
};

describe('with equal rows it is ordinary scrolling', () => {
  test('a pixel is a pixel', () => {
    expect(extent(even(1000))).toBe(20_000);
    expect(positionAt(500, even(1000))).toBe(25);
    expect(scrollTopAt(25, even(1000))).toBe(500);
    expect(isScaled(even(1000), false)).toBe(false);
  });

  test('what fits does not scroll', () => {
    expect(lastPosition(even(10))).toBe(0);
    expect(extent(even(10))).toBe(600);
    expect(positionAt(0, even(10))).toBe(0);
  });
});

describe('with millions of rows', () => {
  const huge = even(5_000_000);

  test('the scrolled element stays within what browsers can do', () => {
    expect(extent(huge)).toBeLessThan(17_000_000);
    expect(isScaled(huge, false)).toBe(true);
  });

  test('both ends can be reached', () => {
    expect(positionAt(0, huge)).toBe(0);
    expect(positionAt(extent(huge) - 600, huge)).toBe(4_999_970);
    expect(visible(4_999_970, huge)).toEqual({ first: 4_999_970, end: 5_000_000, offset: 0 });
  });

  test('the wheel moves by text, not by scrollbar', () => {
    expect(moveBy(1_000_000, 100, huge)).toBe(1_000_005);
    expect(moveBy(1_000_000, -50, huge)).toBe(999_997.5);
    expect(moveBy(3, -1000, huge)).toBe(0);
    expect(moveBy(4_999_960, 1e6, huge)).toBe(4_999_970);
  });
});

describe('with wrapped rows', () => {
  test('the last row touches the bottom at the end', () => {
    const last = lastPosition(uneven);
    const { first, end, offset } = visible(last, uneven);
    let height = -offset;
    for (let row = first; row < end; row++) height += uneven.heightOf(row);
    expect(end).toBe(1000);
    expect(height).toBeCloseTo(600);
  });

  test('going down and up again comes back', () => {
    let position = 12.25;
    for (let step = 0; step < 40; step++) position = moveBy(position, 73, uneven);
    for (let step = 0; step < 40; step++) position = moveBy(position, -73, uneven);
    expect(position).toBeCloseTo(12.25);
  });
});

test('an empty list draws nothing', () => {
  expect(visible(0, even(0))).toEqual({ first: 0, end: 0, offset: 0 });
});
