/**
 * Which rows of a long list are in sight. In: how many rows there are and how high each is. Out: the range to draw, and
 * the height of what is above and below it. Every row has the same height; the caller keeps it so.
 */
import { useLayoutEffect, useState } from 'react';

const OVERSCAN = 8;

export interface Window {
  /** From this row on. */
  first: number;
  /** Up to, not with, this one. */
  last: number;
  above: number;
  below: number;
}

export function windowOf(scrollTop: number, height: number, count: number, rowHeight: number): Window {
  const first = Math.min(count, Math.max(0, Math.floor(scrollTop / rowHeight) - OVERSCAN));
  const last = Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + OVERSCAN);
  return { first, last, above: first * rowHeight, below: Math.max(0, count - last) * rowHeight };
}

export function useWindow(count: number, rowHeight: number) {
  const [frame, setFrame] = useState<HTMLElement | null>(null);
  const [{ top, height }, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    if (!frame) return undefined;
    const look = () => {
      // Whole rows only: scrolling within one redraws nothing.
      const next = { top: Math.floor(frame.scrollTop / rowHeight) * rowHeight, height: frame.clientHeight };
      setView((now) => (now.top === next.top && now.height === next.height ? now : next));
    };
    frame.addEventListener('scroll', look, { passive: true });
    // It tells of the first size, too.
    const resized = new ResizeObserver(look);
    resized.observe(frame);
    return () => {
      frame.removeEventListener('scroll', look);
      resized.disconnect();
    };
  }, [frame, rowHeight]);
  return { ref: setFrame, ...windowOf(top, height, count, rowHeight) };
}
