import { useCallback, useSyncExternalStore } from 'react';

interface Clock {
  now: number;
  listeners: Set<() => void>;
  timer: ReturnType<typeof setInterval> | undefined;
}

/** One timer per step for the whole page, however many times are on it. */
const clocks = new Map<number, Clock>();

function clockOf(stepMs: number): Clock {
  const found = clocks.get(stepMs) ?? { now: Date.now(), listeners: new Set(), timer: undefined };
  clocks.set(stepMs, found);
  return found;
}

/** The time, renewed every `stepMs` while somebody looks at it. */
export function useNow(stepMs: number): number {
  const subscribe = useCallback(
    (listener: () => void) => {
      const clock = clockOf(stepMs);
      // Nobody was looking, so the time stood still.
      if (clock.listeners.size === 0) clock.now = Date.now();
      clock.listeners.add(listener);
      clock.timer ??= setInterval(() => {
        clock.now = Date.now();
        for (const each of clock.listeners) each();
      }, stepMs);
      return () => {
        clock.listeners.delete(listener);
        if (clock.listeners.size > 0) return;
        clearInterval(clock.timer);
        clock.timer = undefined;
      };
    },
    [stepMs],
  );
  return useSyncExternalStore(subscribe, () => clockOf(stepMs).now);
}
