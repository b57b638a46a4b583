import { expect, test } from 'vitest';
import { counted } from './counted';

test('one is singular, none and many are plural', () => {
  expect(counted(1, 'warning')).toBe('1 warning');
  expect(counted(0, 'resource')).toBe('0 resources');
  expect(counted(2, 'entry', 'entries')).toBe('2 entries');
  expect(counted(300_002, 'line')).toBe('300,002 lines');
});
