import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { shellWord } from './shellWord';

test('names are words as they are', () => {
  for (const name of ['demo', 'in-cluster', 'system:node', 'a.b/c_d@1']) expect(shellWord(name)).toBe(name);
});

test('whatever a name holds, a shell takes it for one word and does nothing else', () => {
  const names = [
    'x; echo no',
    '$(echo no)',
    '`echo no`',
    "it's",
    'two words',
    'a\nb',
    '',
    '~',
    '*',
    '#x',
    'ä',
  ];
  for (const name of names)
    expect(execFileSync('sh', ['-c', `printf %s ${shellWord(name)}`], { encoding: 'utf8' })).toBe(name);
});
