import type { ReactNode } from 'react';
import styles from './Properties.module.css';

/** Names and values, as a description list. A value that is not there is left out by the caller, not drawn empty. */
export function Properties({ children, inline }: { children: ReactNode; inline?: boolean }) {
  return (
    <dl className={styles.list} data-inline={inline || undefined}>
      {children}
    </dl>
  );
}

export function Property({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className={styles.item}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
