import type { ReactNode } from 'react';

/** The server's sentences, with what stands in backticks set as code: steps, files and commands are easy to find. */
export function Prose({ children }: { children: string }) {
  return <>{toParts(children)}</>;
}

export function toParts(text: string): ReactNode[] {
  return text.split('`').map((part, index, all) => {
    // An odd part stands between two backticks, unless the last one was never closed.
    const code = index % 2 === 1 && index < all.length - 1;
    if (code) return <code key={index}>{part}</code>;
    return index % 2 === 1 ? `\`${part}` : part;
  });
}
