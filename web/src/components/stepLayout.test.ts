import { describe, expect, it } from 'vitest';
import type { BuildStep } from '../api/types';
import { layoutOf } from './stepLayout';

const step = (name: string, needs: string[] = [], stage?: string, type = 'freestyle') =>
  ({ name, title: name, type, status: 'success', needs, ...(stage ? { stage } : {}) }) as BuildStep;
const init = step('Initializing Process', [], undefined, 'init');
const columns = (steps: BuildStep[]) =>
  layoutOf(steps).placed.map(({ step: { name }, column, row }) => `${name} ${column}.${row}`);

describe('layoutOf', () => {
  it('goes to the right as steps wait for each other', () => {
    const steps = [init, step('a'), step('b'), step('c', ['a', 'b']), step('d', ['c'])];
    expect(columns(steps)).toEqual(['Initializing Process 0.0', 'a 1.0', 'b 1.1', 'c 2.0', 'd 3.0']);
    const edges = layoutOf(steps).edges.map(([from, to]) => `${from.step.name} > ${to.step.name}`);
    expect(edges).toEqual([
      'Initializing Process > a',
      'Initializing Process > b',
      'a > c',
      'b > c',
      'c > d',
    ]);
  });

  it('stands under stages, with what has none before them or apart', () => {
    const steps = [
      init,
      step('a', [], 'build'),
      step('b', ['a'], 'test'),
      step('c', ['a'], 'test'),
      step('d', ['b']),
    ];
    expect(layoutOf(steps).heads).toEqual(['Before', 'build', 'test', 'Other steps']);
    expect(columns(steps).slice(2)).toEqual(['b 2.0', 'c 2.1', 'd 3.0']);
  });

  it('draws a circle, and names that nobody has, without end or error', () => {
    expect(columns([step('a', ['b']), step('b', ['a', 'nobody'])])).toHaveLength(2);
    expect(layoutOf([]).placed).toEqual([]);
  });
});
