import { describe, expect, test } from 'vitest';
import { plotOf } from './plot';

const measured = (number?: number) => ({
  at: '',
  phase: 'Successful',
  value: String(number),
  number: number ?? null,
  message: '',
});

describe('measurements as points', () => {
  test('lie between the least and the most, oldest on the left', () => {
    const plot = plotOf([measured(1), measured(3), measured(2)]);
    expect(plot?.points.map(({ x, y }) => [x, y])).toEqual([
      [0, 100],
      [50, 0],
      [100, 50],
    ]);
    expect([plot?.least, plot?.most]).toEqual([1, 3]);
  });

  test('what is no number is not drawn, and a single one lies in the middle', () => {
    expect(plotOf([measured()])).toBeUndefined();
    expect(plotOf([measured(), measured(7)])?.points).toMatchObject([{ x: 50, y: 50 }]);
  });
});
