import { createContext, use, useEffect, useSyncExternalStore } from 'react';
import type { Live, LiveState } from '../api/live';

export const LiveContext = createContext<Live | null>(null);

function useLive(): Live {
  const live = use(LiveContext);
  if (!live) throw new Error('pages are drawn inside LiveContext');
  return live;
}

/** Keeps the change stream open while the signed-in part of the app is on screen. */
export function useLiveConnection(): LiveState {
  const live = useLive();
  useEffect(() => live.start(), [live]);
  return useSyncExternalStore(live.subscribe, live.current);
}
