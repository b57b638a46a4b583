/** One order to many applications: a few at once, each with its own outcome; one that fails holds up no other. */

/** Each order asks the platform and a runtime; more at once would only queue there. */
const AT_ONCE = 4;

export type Outcome = { state: 'waiting' | 'running' | 'done' } | { state: 'failed'; error: unknown };

/** `heard` is told of every change, by the place of the item. Ends when all have ended, or when nobody wants more. */
export async function eachOf<T>(
  items: readonly T[],
  order: (item: T) => Promise<unknown>,
  heard: (index: number, outcome: Outcome) => void,
  stop: AbortSignal,
  atOnce = AT_ONCE,
): Promise<void> {
  let next = 0;
  const work = async () => {
    while (next < items.length && !stop.aborted) {
      const index = next++;
      heard(index, { state: 'running' });
      try {
        await order(items[index] as T);
        heard(index, { state: 'done' });
      } catch (error) {
        heard(index, { state: 'failed', error });
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, work));
}
