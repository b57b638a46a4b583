import styles from './UnifiedDiff.module.css';

/** A unified diff as text, with its lines coloured; `+` and `-` say the same without colour. */
export function UnifiedDiff({ text, label }: { text: string; label: string }) {
  return (
    // Scrolls sideways, so the keyboard has to reach it.
    <div className={styles.diff} tabIndex={0} role="region" aria-label={label}>
      {text
        .replace(/\n$/, '')
        .split('\n')
        .map((line, index) => (
          <div key={index} className={styles.line} data-kind={kindOf(line)}>
            {line || ' '}
          </div>
        ))}
    </div>
  );
}

type Kind = 'add' | 'delete' | 'hunk' | 'file' | undefined;

export function kindOf(line: string): Kind {
  if (line.startsWith('+++') || line.startsWith('---')) return 'file';
  if (line.startsWith('@@')) return 'hunk';
  if (line.startsWith('+')) return 'add';
  if (line.startsWith('-')) return 'delete';
  return undefined;
}
