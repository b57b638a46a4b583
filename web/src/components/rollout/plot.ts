/** Measurements → points of a plot. In: what was measured. Out: places in a box of 100 × 100, and the scale. */
import type { RolloutMeasurement } from '../../api/types';

export interface Point {
  x: number;
  y: number;
  measurement: RolloutMeasurement;
}

export interface Plot {
  points: Point[];
  least: number;
  most: number;
}

/** Only numbers can be drawn. One value alone, or the same one always, lies in the middle. */
export function plotOf(measurements: RolloutMeasurement[]): Plot | undefined {
  const drawn = measurements.flatMap((measurement) =>
    typeof measurement.number === 'number' ? [{ measurement, value: measurement.number }] : [],
  );
  if (drawn.length === 0) return undefined;
  const values = drawn.map(({ value }) => value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const points = drawn.map(({ measurement, value }, index) => ({
    x: drawn.length === 1 ? 50 : (index / (drawn.length - 1)) * 100,
    y: most === least ? 50 : 100 - ((value - least) / (most - least)) * 100,
    measurement,
  }));
  return { points, least, most };
}
