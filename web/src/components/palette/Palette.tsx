import { TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useId, useState, type KeyboardEvent } from 'react';
import { Dialog } from '../../ui/Dialog';
import { Search } from '../../ui/icons';
import { choose, type Entry } from './entries';
import styles from './Palette.module.css';
import { useEntries } from './useEntries';

/** Everything that has a name, every page and what can be done to them, under one key. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [asked] = useDebouncedValue(text.trim(), 120);
  const [at, setAt] = useState(0);
  const list = useId();
  const { entries, loading, failed } = useEntries(asked);
  const found = choose(entries, text.trim());
  const current = found[Math.min(at, found.length - 1)];
  const go = (entry: Entry) => {
    onClose();
    entry.run();
  };
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) {
      event.preventDefault();
      setAt((Math.min(at, found.length - 1) + step + found.length) % found.length);
    }
    if (event.key === 'Enter' && current) {
      event.preventDefault();
      go(current);
    }
  };
  return (
    <Dialog
      onClose={onClose}
      withCloseButton={false}
      size="lg"
      yOffset="12vh"
      attributes={{ content: { 'aria-label': 'Go to' } }}
    >
      <TextInput
        data-autofocus
        role="combobox"
        aria-label="Go to a page, pipeline, application or another name"
        aria-expanded={found.length > 0}
        aria-controls={list}
        {...(current ? { 'aria-activedescendant': `${list}-${current.id}` } : {})}
        placeholder="A page, a pipeline, an application…"
        leftSection={<Search />}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={keys}
      />
      <div id={list} role="listbox" aria-label="Found" className={styles.list}>
        {found.map((entry, index) => (
          <div key={entry.id} role="presentation">
            {entry.group !== found[index - 1]?.group && (
              <div className={styles.group} role="presentation">
                {entry.group}
              </div>
            )}
            <button
              type="button"
              id={`${list}-${entry.id}`}
              role="option"
              tabIndex={-1}
              aria-selected={entry === current}
              className={styles.entry}
              ref={(row) => {
                if (entry === current) row?.scrollIntoView({ block: 'nearest' });
              }}
              onMouseMove={() => setAt(index)}
              onClick={() => go(entry)}
            >
              <span className="ellipsis">{entry.label}</span>
              {entry.hint && <span className="muted ellipsis">{entry.hint}</span>}
            </button>
          </div>
        ))}
      </div>
      <p className={styles.foot} role="status">
        {failed.length > 0 && `Could not be read: ${failed.join(', ')}. `}
        {found.length === 0 && (loading ? 'Looking…' : text.trim() && `Nothing is called “${text.trim()}”.`)}
      </p>
    </Dialog>
  );
}
