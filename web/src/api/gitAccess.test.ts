import { describe, expect, test } from 'vitest';
import { page, readBrought } from './gitAccess';

describe('what a provider sent the browser back with', () => {
  test('is a code or an error, with the state', () => {
    expect(readBrought('#code=a%2Bb&provider=gitea&state=s')).toEqual({
      provider: 'gitea',
      code: 'a+b',
      state: 's',
      error: '',
    });
    expect(readBrought('#error=access_denied&state=s')?.error).toBe('access_denied');
  });
  test('and nothing else', () => {
    for (const hash of ['', '#', '#code=a', '#state=s', '#section'])
      expect(readBrought(hash)).toBeUndefined();
  });
});

test('a runtime sends the browser to pages alone', () => {
  const from = 'https://slipway.example.com';
  expect(page('https://git.example.com/login?a=b', from)).toBe('https://git.example.com/login?a=b');
  for (const url of ['javascript:alert(1)', ' JavaScript:alert(1)', 'data:text/html,x', 'blob:https://x'])
    expect(() => page(url, from)).toThrow('names no page');
});
