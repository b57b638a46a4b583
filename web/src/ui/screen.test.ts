import { expect, test } from 'vitest';
import { Screen } from './screen';

test('a line is shown as it stands after carriage returns, backspaces and erasing', () => {
  const screen = new Screen();
  screen.write('10%\r20%\r\n$ lx\b \bs\r\n\u001b[31mred\u001b[0m\u001b[K');
  expect(screen.lines).toEqual(['20%', '$ ls', 'red']);
});

test('a sign that comes in two pieces is one sign', () => {
  const screen = new Screen();
  screen.write('a\u001b[3');
  screen.write('2mb\u001b]0;title');
  screen.write('\u0007c');
  expect(screen.lines).toEqual(['abc']);
});

test('what a program prints cannot fill the memory, or stop the page', () => {
  const screen = new Screen();
  screen.write('\u001b[999999999Cx\r\n');
  expect(screen.lines[0]?.length).toBe(1001);
  // A line of a megabyte, as of a script that was made small.
  screen.write(`${'y'.repeat(1_000_000)}\r\n`);
  expect(screen.lines[1]?.length).toBe(1_000_000);
  screen.write(`\u001b]0;${'z'.repeat(10_000)}`);
  screen.write('there\r\n');
  expect(screen.lines[2]?.endsWith('there')).toBe(true);
}, 2000);
