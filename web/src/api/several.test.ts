import { expect, test } from 'vitest';
import { eachOf, type Outcome } from './several';

test('one that fails holds up no other, and only a few run at once', async () => {
  const ends: (() => void)[] = [];
  let running = 0;
  let most = 0;
  const outcomes: Outcome[] = [];
  const order = async (item: number) => {
    most = Math.max(most, ++running);
    await new Promise<void>((done) => ends.push(done));
    running -= 1;
    if (item === 2) throw new Error('refused');
  };
  const heard = (index: number, outcome: Outcome) => void (outcomes[index] = outcome);
  const all = eachOf([1, 2, 3, 4, 5], order, heard, new AbortController().signal, 2);
  while (outcomes.filter((one) => one && one.state !== 'running').length < 5) {
    ends.shift()?.();
    await Promise.resolve();
  }
  await all;
  expect(most).toBe(2);
  expect(outcomes.map((one) => one.state)).toEqual(['done', 'failed', 'done', 'done', 'done']);
});

test('what has not begun when nobody wants more does not begin', async () => {
  const stop = new AbortController();
  const begun: number[] = [];
  const order = (item: number) => {
    begun.push(item);
    stop.abort();
    return Promise.resolve();
  };
  await eachOf([1, 2, 3], order, () => {}, stop.signal, 1);
  expect(begun).toEqual([1]);
});
