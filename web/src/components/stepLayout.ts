import type { BuildStep } from '../api/types';

/** A step of a build, or one that has not run. */
export type GraphStep = Pick<BuildStep, 'name' | 'title' | 'type' | 'stage' | 'needs' | 'tests'> & {
  status?: string;
};

export interface PlacedStep {
  step: GraphStep;
  column: number;
  row: number;
}

export interface StepLayout {
  placed: PlacedStep[];
  /** Whom a step waits for, and the step; from left to right. */
  edges: [PlacedStep, PlacedStep][];
  /** What stands above each column; nothing where there are no stages. */
  heads: string[];
}

/** Under their stages, where there are any; else as far to the right as what they wait for. */
export function layoutOf(steps: GraphStep[]): StepLayout {
  const waits = needsOf(steps);
  const staged = steps.some(({ stage }) => stage);
  const columnOf = staged ? byStage() : byNeeds(waits);
  const heads: string[] = [];
  const rows: number[] = [];
  const placed = steps.map((step): PlacedStep => {
    const { column, head } = columnOf(step);
    heads[column] = head;
    const row = rows[column] ?? 0;
    rows[column] = row + 1;
    return { step, column, row };
  });
  const at = new Map(placed.map((place) => [place.step.name, place]));
  const edges = placed.flatMap((to) =>
    (waits.get(to.step.name) ?? [])
      .flatMap((name) => at.get(name) ?? [])
      .filter((from) => from.column < to.column)
      .map((from): [PlacedStep, PlacedStep] => [from, to]),
  );
  return { placed, edges, heads };
}

/** Whoever waits for nobody waits for the beginning. */
function needsOf(steps: GraphStep[]): Map<string, string[]> {
  const start = steps.find(({ type }) => type === 'init')?.name;
  return new Map(
    steps.map(({ name, needs = [] }) => [
      name,
      needs.length === 0 && start !== undefined && name !== start ? [start] : needs,
    ]),
  );
}

type ColumnOf = (step: GraphStep) => { column: number; head: string };

/** Stages in the order of their first step; what has none stands before them or apart. */
function byStage(): ColumnOf {
  const known: string[] = [];
  return ({ stage }) => {
    const head = stage || (known.some((one) => one !== 'Before') ? 'Other steps' : 'Before');
    if (!known.includes(head)) known.push(head);
    return { column: known.indexOf(head), head };
  };
}

function byNeeds(waits: Map<string, string[]>): ColumnOf {
  const depths = new Map<string, number>();
  const depth = (name: string, path: string[]): number => {
    // A circle never runs; it is drawn all the same.
    if (path.includes(name)) return 0;
    const needs = (waits.get(name) ?? []).filter((other) => waits.has(other));
    const found = depths.get(name) ?? Math.max(0, ...needs.map((other) => depth(other, [...path, name]) + 1));
    depths.set(name, found);
    return found;
  };
  return ({ name }) => ({ column: depth(name, []), head: '' });
}
