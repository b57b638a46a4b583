import { Button, Switch } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import styles from './Terminal.module.css';

interface TerminalProps {
  /** What it is a terminal of, for its name. */
  of: string;
  text: string;
  /** Why it is over. */
  closed: string | undefined;
  waiting: string;
  onType: (typed: string) => void;
  onClose: () => void;
  closing?: boolean;
  /** How much text fits, when that is known and when it changes. */
  onSize?: (columns: number, rows: number) => void;
}

/** A line at a time, or every key as it is pressed. */
export function Terminal(props: TerminalProps) {
  const { of, text, closed, waiting, onType, onClose, closing, onSize } = props;
  const view = useRef<HTMLPreElement>(null);
  const told = useRef(onSize);
  const [line, setLine] = useState('');
  const [keys, setKeys] = useState(false);
  useEffect(() => {
    told.current = onSize;
  });
  useEffect(() => {
    if (text) view.current?.scrollTo({ top: view.current.scrollHeight });
  }, [text]);
  useEffect(() => {
    const element = view.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      const size = measure(element);
      if (size) told.current?.(...size);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return (
    <div className="stack" style={{ gap: 6 }}>
      <pre
        ref={view}
        className={styles.screen}
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it is scrolled by keys
        tabIndex={0}
        role="log"
        aria-label={`Shell in ${of}`}
      >
        {text || waiting}
      </pre>
      {closed ? (
        <p className="muted" role="status">
          Closed: {closed}.
        </p>
      ) : (
        <>
          <form
            className="row"
            onSubmit={(event) => {
              event.preventDefault();
              onType(`${line}\n`);
              setLine('');
            }}
          >
            <input
              className={styles.line}
              aria-label={`Command for the shell in ${of}`}
              placeholder={
                keys ? 'Keys go straight to the shell; Tab leaves' : 'Type a command and press Enter'
              }
              autoComplete="off"
              spellCheck={false}
              value={line}
              onChange={(event) => {
                const { value } = event.currentTarget;
                const composing =
                  'isComposing' in event.nativeEvent && event.nativeEvent.isComposing === true;
                setLine(keys && !composing ? '' : value);
                // What no key press told of: pasted, with AltGr, by an input method.
                if (keys && !composing && value) onType(value);
              }}
              onCompositionEnd={(event) => {
                if (!keys) return;
                if (event.data) onType(event.data);
                setLine('');
              }}
              onKeyDown={(event) => {
                const typed = keys ? keyText(event.key, event.ctrlKey) : undefined;
                if (typed === undefined || event.metaKey || event.altKey) return;
                event.preventDefault();
                event.stopPropagation();
                onType(typed);
              }}
            />
            <Button variant="default" type="button" onClick={() => onType('\u0003')}>
              Ctrl-C
            </Button>
            <Button variant="default" type="button" loading={closing ?? false} onClick={onClose}>
              Close
            </Button>
          </form>
          <Switch
            label="Send each key press"
            checked={keys}
            onChange={(event) => setKeys(event.currentTarget.checked)}
          />
        </>
      )}
    </div>
  );
}

/** Columns and rows of its own letters that fit into it. */
function measure(element: HTMLElement): [number, number] | undefined {
  const style = getComputedStyle(element);
  const context = document.createElement('canvas').getContext('2d');
  const height = Number.parseFloat(style.lineHeight);
  if (!context || !(height > 0)) return undefined;
  context.font = style.font;
  const width = context.measureText('0'.repeat(20)).width / 20;
  const inner = element.clientWidth - Number.parseFloat(style.paddingLeft) * 2;
  const high = element.clientHeight - Number.parseFloat(style.paddingTop) * 2;
  const columns = Math.floor(inner / width);
  const rows = Math.floor(high / height);
  return columns > 0 && rows > 0 ? [columns, rows] : undefined;
}

const KEYS: Record<string, string> = {
  Enter: '\r',
  Backspace: '\u007f',
  Escape: '\u001b',
  ArrowUp: '\u001b[A',
  ArrowDown: '\u001b[B',
  ArrowRight: '\u001b[C',
  ArrowLeft: '\u001b[D',
};

/** What a terminal sends for a key. Tab stays the browser's: whoever has no mouse must get out again. */
function keyText(key: string, ctrl: boolean): string | undefined {
  if (ctrl && /^[a-z]$/i.test(key)) return String.fromCharCode(key.toUpperCase().charCodeAt(0) - 64);
  if (ctrl) return undefined;
  return KEYS[key] ?? (key.length === 1 ? key : undefined);
}
