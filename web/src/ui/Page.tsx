import { useEffect, useRef, type ReactNode } from 'react';
import styles from './Page.module.css';

interface PageProps {
  title: ReactNode;
  /** For the tab and the history; the heading may carry more than text. */
  documentTitle: string;
  subtitle?: ReactNode;
  actions?: ReactNode;
  /** Fills the window's height, for pages with something that scrolls by itself. */
  fill?: boolean;
  children: ReactNode;
}

// The first page of a visit leaves the focus where the browser put it; every later one says where the person is.
let visited = false;

/** A page: its heading takes the focus when one arrives, so that keyboards and screen readers start there. */
export function Page({ title, documentTitle, subtitle, actions, fill, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${documentTitle} · Slipway`;
  }, [documentTitle]);
  useEffect(() => {
    if (visited) heading.current?.focus({ preventScroll: true });
    visited = true;
  }, []);
  return (
    <div className={styles.page} data-fill={fill || undefined}>
      <div className={styles.head}>
        <div className={styles.titles}>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {subtitle && <div className={styles.subtitle}>{subtitle}</div>}
        </div>
        {actions && <div className={styles.actions}>{actions}</div>}
      </div>
      {children}
    </div>
  );
}
