import { describe, expect, test } from 'vitest';
import { readBrought } from './gitAccess';

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
