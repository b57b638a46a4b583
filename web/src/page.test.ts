import { expect, test, vi } from 'vitest';
import { load } from './page';

const wait = () => Promise.resolve();

test('a part that cannot be fetched while the server is away is fetched when it is back', async () => {
  const importer = vi.fn().mockRejectedValueOnce(new Error('away')).mockRejectedValueOnce(new Error('away'));
  importer.mockResolvedValue('the page');
  const reload = vi.fn();
  const answers = vi.fn().mockResolvedValueOnce(false).mockResolvedValue(true);
  expect(await load(importer, { answers, wait, reload })).toBe('the page');
  expect(reload).not.toHaveBeenCalled();
});

test('a part that a newer server does not have loads the whole app anew', async () => {
  const importer = vi.fn().mockRejectedValue(new Error('404'));
  const reload = vi.fn();
  await expect(load(importer, { answers: () => Promise.resolve(true), wait, reload })).rejects.toThrow('404');
  expect(reload).toHaveBeenCalledTimes(1);
});
