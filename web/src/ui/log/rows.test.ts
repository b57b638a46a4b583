import { expect, test } from 'vitest';
import { Rows, sectionAt } from './rows';

const rows = new Rows([
  { name: 'clone', first: 0, lines: 3, folded: false },
  { name: 'empty', first: 0, lines: 0, folded: false },
  { name: 'test', first: 0, lines: 100, folded: true },
  { name: 'build', first: 40, lines: 50, folded: false },
]);

test('every row is a heading or a line, and back', () => {
  expect(rows.count).toBe(1 + 3 + 1 + 1 + 1 + 10);
  expect(rows.at(0)).toEqual({ kind: 'heading', section: 0 });
  expect(rows.at(3)).toEqual({ kind: 'line', section: 0, line: 2 });
  expect(rows.at(4)).toEqual({ kind: 'heading', section: 1 });
  expect(rows.at(5)).toEqual({ kind: 'heading', section: 2 });
  expect(rows.at(7)).toEqual({ kind: 'line', section: 3, line: 40 });
  for (let row = 0; row < rows.count; row++) {
    const found = rows.at(row);
    const name = rows.sections[found?.section ?? -1]?.name ?? '';
    expect(found?.kind === 'line' ? rows.of(name, found.line) : rows.heading(name)).toBe(row);
  }
});

test('a line in a folded section is at its heading', () => {
  expect(rows.of('test', 50)).toBe(rows.heading('test'));
});

test('what is not there has no row', () => {
  expect(rows.at(-1)).toBeUndefined();
  expect(rows.at(rows.count)).toBeUndefined();
  expect(rows.of('build', 39)).toBeUndefined();
  expect(rows.of('build', 50)).toBeUndefined();
  expect(rows.of('nowhere', 0)).toBeUndefined();
});

test('the section at a row is the one whose lines are there', () => {
  expect(sectionAt(rows, 2)?.name).toBe('clone');
  expect(sectionAt(rows, 10_000)?.name).toBe('build');
  expect(sectionAt(new Rows([]), 0)).toBeUndefined();
});
