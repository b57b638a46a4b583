import { expect, test } from 'vitest';
import { ago, duration } from './time';

const NOW = Date.parse('2026-03-01T12:00:00Z');

test.each([
  ['2026-03-01T11:59:40Z', 'just now'],
  ['2026-03-01T11:58:00Z', '2 minutes ago'],
  ['2026-03-01T09:00:00Z', '3 hours ago'],
  ['2026-02-28T12:00:00Z', 'yesterday'],
  ['2026-01-01T12:00:00Z', '2 months ago'],
  ['not a time', 'not a time'],
])('%s is %s', (iso, expected) => expect(ago(iso, NOW)).toBe(expected));

test.each([
  [0, '0.0 s'],
  [860, '0.9 s'],
  [9_949, '9.9 s'],
  [12_300, '12 s'],
  [59_700, '1 m 00 s'],
  [185_000, '3 m 05 s'],
  [7_800_000, '2 h 10 m'],
  [Number.NaN, '–'],
])('%d ms take %s', (ms, expected) => expect(duration(ms)).toBe(expected));
