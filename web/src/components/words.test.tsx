// @vitest-environment happy-dom
import { render } from '@testing-library/react';
import { expect, test } from 'vitest';
import { Prose } from '../ui/Prose';
import { sentence } from '../ui/States';
import { kindOf } from '../ui/UnifiedDiff';
import { spaced } from './badges';
import { nameOf } from './CommitLine';
import { groupByStage } from './StepList';
import { buildTone, healthTone } from './tones';

test('words of the API are spaced for reading, not changed', () => {
  expect(['OutOfSync', 'Synced', 'Unknown'].map(spaced)).toEqual(['Out of sync', 'Synced', 'Unknown']);
});

test('a word that a newer server says is drawn neutrally', () => {
  expect([buildTone('celebrating'), healthTone('Radiant')]).toEqual(['off', 'off']);
});

test('errors become sentences', () => {
  expect(sentence('the name is taken; choose another')).toBe('The name is taken; choose another.');
  expect(sentence('Is it running?')).toBe('Is it running?');
});

test('what stands in backticks is code, also when the last one is not closed', () => {
  const { container } = render(<Prose>{'step `test` of `demo'}</Prose>);
  expect(container.innerHTML).toBe('step <code>test</code> of `demo');
});

test('an author is shown by name', () => {
  expect(['Ada <ada@example.com>', 'ada', '<ada@example.com>'].map(nameOf)).toEqual([
    'Ada',
    'ada',
    '<ada@example.com>',
  ]);
});

test('steps stand under their stage and keep their order', () => {
  const step = (name: string, stage?: string) => ({
    name,
    title: name,
    type: 'freestyle',
    status: 'success',
    ...(stage ? { stage } : {}),
  });
  const groups = groupByStage([step('a', 'one'), step('b', 'one'), step('c'), step('d', 'one')]);
  expect(groups.map(({ stage, steps }) => [stage, steps.map(({ name }) => name)])).toEqual([
    ['one', ['a', 'b']],
    ['', ['c']],
    ['one', ['d']],
  ]);
});

test('lines of a diff are told apart', () => {
  expect(['+++ b', '--- a', '@@ -1 +1 @@', '+x', '-x', ' x'].map(kindOf)).toEqual([
    'file',
    'file',
    'hunk',
    'add',
    'delete',
    undefined,
  ]);
});
