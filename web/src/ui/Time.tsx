import { ago, duration, full } from './time';
import { useNow } from './useNow';

/** "3 minutes ago", with the exact time under the pointer. */
export function Ago({ at }: { at: string | null | undefined }) {
  const now = useNow(15_000);
  if (!at) return <span className="muted">–</span>;
  return (
    <time dateTime={at} title={full(at)} className="nowrap">
      {ago(at, now)}
    </time>
  );
}

interface ElapsedProps {
  from: string | null | undefined;
  /** Absent: it goes on, and the figure with it. */
  to: string | null | undefined;
}

export function Elapsed({ from, to }: ElapsedProps) {
  const now = useNow(from && !to ? 1000 : 60_000);
  if (!from) return <span className="muted">–</span>;
  const end = to ? Date.parse(to) : now;
  return <span className="nowrap">{duration(Math.max(0, end - Date.parse(from)))}</span>;
}
