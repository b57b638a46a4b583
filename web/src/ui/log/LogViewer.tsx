/**
 * A log of any length: sections that fold, colours, search, line links, following the end. In: a buffer and the
 * order of its sections. It does not know what a section is; the caller draws the headings.
 */
import {
  useCallback,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
  type KeyboardEvent,
  type ReactNode,
  type Ref,
} from 'react';
import { useLocalStorage } from '@mantine/hooks';
import { plain } from './ansi';
import type { LogBuffer } from './buffer';
import styles from './Log.module.css';
import { LogLine } from './LogLine';
import { LogToolbar } from './LogToolbar';
import { Rows, sectionAt, type Row } from './rows';
import {
  extent,
  isScaled,
  lastPosition,
  moveBy,
  positionAt,
  scrollTopAt,
  visible,
  type Geometry,
} from './scroll';
import { useLogSearch } from './useLogSearch';

const LINE_PX = 20;
const HEADING_PX = 32;

export interface HeadingState {
  folded: boolean;
  lines: number;
  dropped: number;
}

export interface LogViewerHandle {
  showSection: (name: string) => void;
}

interface LogViewerProps {
  ref?: Ref<LogViewerHandle>;
  buffer: LogBuffer;
  /** Names in the order to draw them; sections that the buffer has besides come last. */
  order: string[];
  heading: (name: string, state: HeadingState) => ReactNode;
  /** Stands at the right of the toolbar: is it live, has it ended. */
  status: ReactNode;
  /** Start at the end and stay there. */
  follow: boolean;
  /** Sections whose lines are hidden at first. */
  startFolded?: string[];
  /** Start at this section's heading. */
  startAt?: string | undefined;
  target?: { section: string; line: number } | undefined;
  onPick: (section: string, line: number) => void;
  empty: ReactNode;
  extra?: ReactNode;
}

export function LogViewer(props: LogViewerProps) {
  const { buffer, order, target } = props;
  const version = useSyncExternalStore(buffer.subscribe, buffer.current);
  const [folded, setFolded] = useState<ReadonlySet<string>>(() => new Set(props.startFolded));
  const [wrap, setWrap] = useLocalStorage({ key: 'slipway-log-wrap', defaultValue: false });
  const [following, setFollowing] = useState(props.follow && !target);
  const [position, setPosition] = useState(0);
  const box = useBox();
  const searchRef = useRef<HTMLInputElement>(null);
  const anchor = useRef<{ position: number; section?: string; line?: number }>({ position: 0 });
  // A scroll event with this place is an echo of our own move, not a person's.
  const expected = useRef(-1);

  const names = useMemo(() => {
    const extra = [...buffer.sections.keys()].filter((name) => !order.includes(name));
    return [...order, ...extra];
    // The version stands for what the buffer holds.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [buffer, order, version]);

  const rows = useMemo(
    () =>
      new Rows(
        names.map((name) => {
          const section = buffer.sections.get(name);
          return { name, first: section?.dropped ?? 0, lines: section?.lines ?? 0, folded: folded.has(name) };
        }),
      ),
    // oxlint-disable-next-line react/exhaustive-deps
    [buffer, names, folded, version],
  );

  const geometry = useMemo<Geometry>(() => {
    const heightOf = (index: number) => {
      const row = rows.at(index);
      if (!row || row.kind === 'heading') return HEADING_PX;
      if (!wrap) return LINE_PX;
      const text = buffer.sections.get(rows.sections[row.section]?.name ?? '')?.line(row.line) ?? '';
      return Math.max(1, Math.ceil(plain(text).length / box.columns)) * LINE_PX;
    };
    return { rows: rows.count, viewport: box.height, lineHeight: LINE_PX, heightOf };
  }, [buffer, rows, wrap, box.columns, box.height]);
  const last = lastPosition(geometry);

  /** Shows the position and brings the scrollbar to it; a person's own scrolling only needs the first half. */
  const place = useCallback(
    (next: number, moveBar: boolean) => {
      const clamped = Math.max(0, Math.min(next, last));
      const row = rows.at(Math.floor(clamped));
      anchor.current = { position: clamped, ...(row && named(rows, row)) };
      setPosition(clamped);
      const element = box.ref.current;
      if (!moveBar || !element) return;
      expected.current = Math.round(scrollTopAt(clamped, geometry, last));
      element.scrollTop = expected.current;
    },
    [rows, geometry, last, box.ref],
  );

  // After every change of size: stay at the end, or keep the same line at the top, also when lines came above it.
  useLayoutEffect(() => {
    const { position: before, section, line } = anchor.current;
    const row =
      section === undefined ? undefined : line === undefined ? rows.heading(section) : rows.of(section, line);
    place(following ? last : (row ?? Math.floor(before)) + (before % 1), true);
  }, [place, following, last, rows]);

  const showRow = useCallback(
    (row: number, lead: number) => {
      setFollowing(false);
      place(moveBy(row, -lead, geometry), true);
    },
    [geometry, place],
  );

  const unfold = useCallback((name: string) => {
    setFolded((before) =>
      before.has(name) ? new Set([...before].filter((other) => other !== name)) : before,
    );
  }, []);

  // Where to go as soon as it is there: the line may not have arrived, or its section may just be unfolding.
  const [wanted, setWanted] = useState(target);
  const targetKey = target && `${target.section}:${target.line}`;
  useEffect(() => {
    setWanted(target);
    // oxlint-disable-next-line react/exhaustive-deps
  }, [targetKey]);
  useEffect(() => {
    if (!wanted || box.height === 0) return;
    unfold(wanted.section);
    const row = rows.of(wanted.section, wanted.line);
    if (row === undefined || rows.at(row)?.kind !== 'line') return;
    showRow(row, box.height / 3);
    setWanted(undefined);
  }, [wanted, rows, box.height, showRow, unfold]);

  // Once its lines are there: before that there is nothing to scroll to.
  const [start, setStart] = useState(target ? undefined : props.startAt);
  useEffect(() => {
    const row = start === undefined ? undefined : rows.heading(start);
    if (row === undefined || box.height === 0 || (buffer.sections.get(start ?? '')?.lines ?? 0) === 0) return;
    showRow(row, 0);
    setStart(undefined);
  }, [start, rows, box.height, buffer, showRow]);

  const search = useLogSearch(buffer, version, names, (match) => {
    unfold(match.section);
    setWanted(match);
  });

  useImperativeHandle(
    props.ref,
    () => ({
      showSection: (name) => {
        unfold(name);
        const row = rows.heading(name);
        if (row !== undefined) showRow(row, 0);
      },
    }),
    [rows, showRow, unfold],
  );

  const onScroll = () => {
    const element = box.ref.current;
    if (!element || Math.abs(element.scrollTop - expected.current) <= 1.5) return;
    expected.current = -1;
    place(positionAt(element.scrollTop, geometry, last), false);
    setFollowing(element.scrollTop >= element.scrollHeight - element.clientHeight - 2);
  };

  const scaled = isScaled(geometry, wrap);
  const moveByPixels = useCallback(
    (pixels: number) => {
      const next = moveBy(anchor.current.position, pixels, geometry);
      setFollowing(pixels > 0 && next >= last);
      place(next, true);
    },
    [geometry, last, place],
  );
  useWheel(box.ref, scaled, moveByPixels);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === '/' && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      searchRef.current?.focus();
      return;
    }
    const move = keyMove(event, box.height);
    if (move === undefined || event.target !== event.currentTarget) return;
    event.preventDefault();
    if (move === 'start') showRow(0, 0);
    else if (move === 'end') setFollowing(true);
    else moveByPixels(move);
  };

  const toggle = (name: string) =>
    setFolded((before) => {
      const next = new Set(before);
      if (!next.delete(name)) next.add(name);
      return next;
    });

  const allFolded = names.length > 0 && names.every((name) => folded.has(name));
  const shown = visible(Math.min(position, last), geometry);
  const top = sectionAt(rows, shown.first);
  const topRow = rows.at(shown.first);
  const widest = Math.max(0, ...[...buffer.sections.values()].map((section) => section.widest));

  const drawHeading = (name: string, pinned: boolean) => {
    const section = buffer.sections.get(name);
    const isFolded = folded.has(name);
    return (
      <button
        key={pinned ? 'pinned' : `heading-${name}`}
        type="button"
        className={pinned ? styles.pinned : styles.heading}
        aria-expanded={!isFolded}
        // The pinned copy is for the eye; the keyboard has the step list beside the log.
        tabIndex={pinned ? -1 : 0}
        onClick={() => toggle(name)}
      >
        {props.heading(name, {
          folded: isFolded,
          lines: section?.lines ?? 0,
          dropped: section?.dropped ?? 0,
        })}
      </button>
    );
  };

  return (
    <div className={styles.viewer}>
      <LogToolbar
        status={props.status}
        query={search.query}
        onQuery={search.setQuery}
        searchRef={searchRef}
        matches={search.matches.length}
        currentMatch={search.current}
        searching={search.searching}
        onMatch={search.step}
        wrap={wrap}
        onWrap={() => setWrap(!wrap)}
        following={following}
        onFollow={() => setFollowing(!following)}
        allFolded={allFolded}
        onFoldAll={() => setFolded(allFolded ? new Set() : new Set(names))}
        extra={props.extra}
      />
      <div className={styles.frame}>
        {/* The scrolled region takes focus so that arrow and page keys reach it. */}
        {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions */}
        <div
          ref={box.ref}
          className={styles.scroller}
          data-wrap={wrap || undefined}
          tabIndex={0}
          role="region"
          aria-label="Log text"
          onScroll={onScroll}
          onKeyDown={onKeyDown}
        >
          <span ref={box.rulerRef} className={styles.ruler} aria-hidden="true">
            {'0'.repeat(100)}
          </span>
          {rows.count === 0 && <div className={styles.empty}>{props.empty}</div>}
          <div style={{ height: rows.count === 0 ? 0 : extent(geometry, last) }}>
            <div
              className={styles.window}
              style={{
                height: box.height,
                ['--box-width' as string]: `${box.width}px`,
                ...(wrap ? {} : { minWidth: `calc(${Math.min(widest, 20_000)}ch + 7rem)` }),
              }}
            >
              <div style={{ transform: `translateY(${-shown.offset}px)` }}>
                {Array.from({ length: shown.end - shown.first }, (_, index) => {
                  const row = rows.at(shown.first + index);
                  if (!row) return null;
                  const name = rows.sections[row.section]?.name ?? '';
                  if (row.kind === 'heading') return drawHeading(name, false);
                  const section = buffer.sections.get(name);
                  const here = (other: { section: string; line: number } | undefined) =>
                    other?.section === name && other.line === row.line;
                  return (
                    <LogLine
                      key={`${name}:${row.line}`}
                      section={name}
                      number={row.line}
                      text={section?.line(row.line) ?? ''}
                      carry={section?.carry(row.line) ?? ''}
                      wrap={wrap}
                      query={search.query}
                      current={here(search.matches[search.current])}
                      target={here(target)}
                      onPick={props.onPick}
                    />
                  );
                })}
              </div>
            </div>
          </div>
        </div>
        {top && topRow?.kind === 'line' && drawHeading(top.name, true)}
      </div>
    </div>
  );
}

function named(rows: Rows, row: Row): { section?: string; line?: number } {
  const section = rows.sections[row.section]?.name;
  return section === undefined ? {} : row.kind === 'line' ? { section, line: row.line } : { section };
}

/** Size of the scroller, and how many characters fit beside the line numbers. */
function useBox() {
  const ref = useRef<HTMLDivElement>(null);
  const rulerRef = useRef<HTMLSpanElement>(null);
  const [size, setSize] = useState({ height: 0, width: 0, columns: 80 });
  useLayoutEffect(() => {
    const element = ref.current;
    const ruler = rulerRef.current;
    if (!element || !ruler) return;
    const measure = () => {
      const character = ruler.getBoundingClientRect().width / 100 || 8;
      const gutter = 7 * character + 28;
      const columns = Math.max(20, Math.floor((element.clientWidth - gutter) / character));
      setSize({ height: element.clientHeight, width: element.clientWidth, columns });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { ref, rulerRef, ...size };
}

/** React listens to the wheel passively, and a passive listener cannot keep the browser from scrolling as well. */
function useWheel(ref: { current: HTMLElement | null }, active: boolean, move: (pixels: number) => void) {
  useEffect(() => {
    const element = ref.current;
    if (!element || !active) return;
    const onWheel = (event: WheelEvent) => {
      if (event.ctrlKey || event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
      event.preventDefault();
      move(event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * LINE_PX : event.deltaY);
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  }, [ref, active, move]);
}

function keyMove(event: KeyboardEvent, viewport: number): number | 'start' | 'end' | undefined {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  switch (event.key) {
    case 'ArrowDown':
      return LINE_PX;
    case 'ArrowUp':
      return -LINE_PX;
    case 'PageDown':
      return viewport - LINE_PX * 2;
    case 'PageUp':
      return LINE_PX * 2 - viewport;
    case ' ':
      return (viewport - LINE_PX * 2) * (event.shiftKey ? -1 : 1);
    case 'Home':
      return 'start';
    case 'End':
      return 'end';
    default:
      return undefined;
  }
}
