import { afterEach, describe, expect, test, vi } from 'vitest';
import { auditCsvUrl, readinessText } from './adminQueries';
import { ApiError, endsSession } from './client';
import { askWith, confirmed } from './confirm';

const stale = () => new ApiError(403, 'confirm that it is you', '2005');
let forget: (() => void) | undefined;
afterEach(() => forget?.());

describe('a change that needs a recent sign-in', () => {
  test('is made after the person confirmed, once', async () => {
    const ask = vi.fn(async () => true);
    forget = askWith(ask);
    const call = vi.fn<() => Promise<string>>().mockRejectedValueOnce(stale()).mockResolvedValue('done');
    expect(await confirmed(call)).toBe('done');
    expect([ask.mock.calls.length, call.mock.calls.length]).toEqual([1, 2]);
  });

  test('stays refused when the person would rather not, or is asked in vain', async () => {
    forget = askWith(async () => false);
    const call = vi.fn(() => Promise.reject(stale()));
    await expect(confirmed(call)).rejects.toThrow('confirm that it is you');
    expect(call).toHaveBeenCalledTimes(1);
    forget();
    forget = askWith(async () => true);
    // The second refusal is the answer: asking for ever helps nobody.
    await expect(confirmed(call)).rejects.toThrow('confirm that it is you');
    expect(call).toHaveBeenCalledTimes(3);
  });

  test('without anybody to ask it is a refusal like others', async () => {
    await expect(confirmed(() => Promise.reject(stale()))).rejects.toThrow('confirm that it is you');
  });

  test('other refusals ask nobody', async () => {
    const ask = vi.fn(async () => true);
    forget = askWith(ask);
    const refusal = new ApiError(403, 'only an Administrator may', '2004');
    await expect(confirmed(() => Promise.reject(refusal))).rejects.toBe(refusal);
    expect(ask).not.toHaveBeenCalled();
  });
});

test('a mistyped password does not end a session, a session that is over does', () => {
  expect(endsSession(new ApiError(401, 'wrong', '2002'))).toBe(false);
  expect(endsSession(new ApiError(401, 'sign in first', '2001'))).toBe(true);
  expect(endsSession(new ApiError(403, 'no', '2004'))).toBe(false);
  expect(endsSession(new Error('other'))).toBe(false);
});

test('the export has the filters of the page', () => {
  expect(auditCsvUrl({})).toBe('/api/audit/download');
  expect(auditCsvUrl({ userName: 'a b', outcome: '', from: 5, action: undefined })).toBe(
    '/api/audit/download?userName=a+b&from=5',
  );
});

test('readiness speaks in words or in the shape of a refusal', () => {
  expect(readinessText('ready\n')).toBe('ready');
  expect(readinessText('{"status":503,"message":"the database does not answer"}')).toBe(
    'the database does not answer',
  );
});
