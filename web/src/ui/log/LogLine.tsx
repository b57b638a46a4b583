import { memo, type ReactNode } from 'react';
import { spans, type Carry, type Span } from './ansi';
import styles from './Log.module.css';
import { occurrences } from './search';

/** A page would stand still over a line of megabytes; the rest of it is in the raw log. */
const LINE_CHARS_MAX = 20_000;

interface LogLineProps {
  section: string;
  number: number;
  text: string;
  carry: Carry;
  wrap: boolean;
  query: string;
  current: boolean;
  target: boolean;
  onPick: (section: string, line: number) => void;
}

export const LogLine = memo(function LogLine(props: LogLineProps) {
  const { section, number, text, carry, wrap, query, current, target, onPick } = props;
  const cut = text.length > LINE_CHARS_MAX;
  const parts = spans(cut ? text.slice(0, LINE_CHARS_MAX) : text, carry);
  return (
    <div
      className={styles.line}
      data-wrap={wrap || undefined}
      data-current={current || undefined}
      data-target={target || undefined}
    >
      {/* Not a tab stop: a screenful of line numbers would stand between the log and the rest of the page. */}
      <a
        className={styles.number}
        href={`#${lineHash(section, number)}`}
        tabIndex={-1}
        aria-label={`Link to line ${number + 1} of ${section}`}
        onClick={(event) => {
          event.preventDefault();
          onPick(section, number);
        }}
      >
        {number + 1}
      </a>
      <span className={styles.text}>
        {query ? highlighted(parts, query) : parts.map(drawSpan)}
        {cut && <span className={styles.cut}> … {text.length - LINE_CHARS_MAX} more characters</span>}
      </span>
    </div>
  );
});

/** `test:120`: the line as people count, from one. */
export function lineHash(section: string, line: number): string {
  return `${encodeURIComponent(section)}:${line + 1}`;
}

export function parseLineHash(hash: string): { section: string; line: number } | undefined {
  const found = /^#?([^#].*):(\d+)$/.exec(hash);
  if (!found?.[1] || !found[2]) return undefined;
  try {
    return { section: decodeURIComponent(found[1]), line: Number(found[2]) - 1 };
  } catch {
    // Somebody cut the address in the middle of a letter.
    return undefined;
  }
}

function drawSpan(span: Span, index: number): ReactNode {
  if (!span.className && !span.style) return span.text;
  return (
    <span key={index} className={span.className} style={span.style}>
      {span.text}
    </span>
  );
}

/** Marks what was searched for, also where it runs over a change of colour. */
function highlighted(parts: Span[], query: string): ReactNode[] {
  const whole = parts.map((part) => part.text).join('');
  const hits = occurrences(whole, query);
  if (hits.length === 0) return parts.map(drawSpan);
  let start = 0;
  return parts.map((part, index) => {
    const from = start;
    start += part.text.length;
    const pieces: ReactNode[] = [];
    let at = from;
    for (const [hitFrom, hitTo] of hits) {
      const left = Math.max(hitFrom, at);
      const right = Math.min(hitTo, start);
      if (left >= right) continue;
      pieces.push(whole.slice(at, left), <mark key={left}>{whole.slice(left, right)}</mark>);
      at = right;
    }
    pieces.push(whole.slice(at, start));
    return (
      <span key={index} className={part.className || undefined} style={part.style}>
        {pieces}
      </span>
    );
  });
}
