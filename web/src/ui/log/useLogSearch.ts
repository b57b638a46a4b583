import { useDebouncedValue } from '@mantine/hooks';
import { useEffect, useEffectEvent, useMemo, useRef, useState } from 'react';
import type { LogBuffer } from './buffer';
import { Search, type Match } from './search';

/** Searches in slices while the page stays usable, goes on as lines come, and steps through what it found. */
export function useLogSearch(
  buffer: LogBuffer,
  version: number,
  order: string[],
  show: (match: Match) => void,
) {
  const [query, setQuery] = useState('');
  const [settled] = useDebouncedValue(query, 150);
  const [progress, setProgress] = useState(0);
  const [searching, setSearching] = useState(false);
  const [current, setCurrent] = useState(-1);
  const search = useMemo(() => new Search(settled), [settled]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  useEffect(() => setCurrent(-1), [search]);

  useEffect(() => {
    clearTimeout(timer.current);
    if (!search.query) {
      setSearching(false);
      return;
    }
    const slice = () => {
      const done = search.step(buffer.sections.values());
      setProgress((before) => before + 1);
      setSearching(!done);
      if (!done) timer.current = setTimeout(slice, 0);
    };
    slice();
    return () => clearTimeout(timer.current);
  }, [search, buffer, version]);

  const matches = useMemo(
    () => (search.query ? search.matches(order) : []),
    // `progress` stands for what the search has found so far.
    // oxlint-disable-next-line react/exhaustive-deps
    [search, order, progress],
  );

  const step = (by: 1 | -1) => {
    if (matches.length === 0) return;
    const next =
      current < 0 ? (by === 1 ? 0 : matches.length - 1) : (current + by + matches.length) % matches.length;
    setCurrent(next);
    const match = matches[next];
    if (match) show(match);
  };

  // As browsers do: the first match shows itself once, and Enter goes on from there.
  const first = matches[0];
  const arrived = current < 0 && first !== undefined;
  const showFirst = useEffectEvent(() => step(1));
  useEffect(() => {
    if (arrived) showFirst();
  }, [arrived]);

  return { query, setQuery, matches, current, searching, step };
}
