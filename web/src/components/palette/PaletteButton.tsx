import { UnstyledButton } from '@mantine/core';
import { lazy, Suspense, useEffect, useSyncExternalStore } from 'react';
import { Search } from '../../ui/icons';
import styles from './Palette.module.css';

const Palette = lazy(() => import('./Palette').then((module) => ({ default: module.Palette })));

// Opened from the menu, which is on the page once or twice, and by a key on every page.
let opened = false;
const watchers = new Set<() => void>();
function open(next: boolean): void {
  opened = next;
  for (const watcher of watchers) watcher();
}
const subscribe = (watcher: () => void) => {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
};

const APPLE = /Mac|iP(hone|ad)/.test(globalThis.navigator?.platform ?? '');

export function PaletteButton() {
  return (
    <UnstyledButton className={styles.button} onClick={() => open(true)} aria-keyshortcuts="Control+K Meta+K">
      <Search />
      <span>Go to…</span>
      <kbd aria-hidden="true">{APPLE ? '⌘K' : 'Ctrl K'}</kbd>
    </UnstyledButton>
  );
}

/** Listens for Ctrl-K (⌘K on a Mac) as long as the frame is there, and draws what it opens. */
export function PaletteKeys() {
  const shown = useSyncExternalStore(subscribe, () => opened);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (
        event.key.toLowerCase() !== 'k' ||
        !(event.ctrlKey || event.metaKey) ||
        event.altKey ||
        event.shiftKey
      )
        return;
      event.preventDefault();
      // Above a dialog it would take the next Escape from it, and lead away from what is typed there.
      if (!opened && document.querySelector('[aria-modal="true"]')) return;
      open(!opened);
    };
    window.addEventListener('keydown', pressed);
    return () => {
      window.removeEventListener('keydown', pressed);
      opened = false;
    };
  }, []);
  return (
    shown && (
      <Suspense>
        <Palette onClose={() => open(false)} />
      </Suspense>
    )
  );
}
