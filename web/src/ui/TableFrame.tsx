import { useLayoutEffect, useRef, useState, type ReactNode } from 'react';

/** Around a table: where it is wider than the window it scrolls by itself, and the keyboard can reach it to do so. */
export function TableFrame({ children, label }: { children: ReactNode; label?: string | undefined }) {
  const frame = useRef<HTMLDivElement>(null);
  const [scrolls, setScrolls] = useState(false);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const look = () => setScrolls(element.scrollWidth > element.clientWidth + 1);
    look();
    const resized = new ResizeObserver(look);
    resized.observe(element);
    for (const child of element.children) resized.observe(child);
    return () => resized.disconnect();
  }, []);
  return (
    <div
      ref={frame}
      className="table-frame"
      data-scrolls={scrolls || undefined}
      {...(scrolls
        ? { tabIndex: 0, role: 'group', 'aria-label': `${label ?? 'Table'}, scrolls sideways` }
        : {})}
    >
      {children}
    </div>
  );
}
