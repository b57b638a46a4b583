import { CopyIcon } from '../ui/CopyText';
import { Commit } from '../ui/icons';
import styles from './CommitLine.module.css';

interface CommitLineProps {
  sha: string | null | undefined;
  message?: string | null | undefined;
  author?: string | null | undefined;
  copy?: boolean;
}

/** Which commit, what it says, by whom: the same everywhere. */
export function CommitLine({ sha, message, author, copy }: CommitLineProps) {
  if (!sha) return <span className="muted">no commit</span>;
  return (
    <span className={styles.line}>
      <span className={styles.sha} title={sha}>
        <Commit />
        <code>{sha.slice(0, 8)}</code>
      </span>
      {copy && <CopyIcon text={sha} what="commit id" />}
      {message && (
        <span className={styles.message} title={message}>
          {message.split('\n', 1)[0]}
        </span>
      )}
      {author && <span className={styles.author}>by {nameOf(author)}</span>}
    </span>
  );
}

/** `Ada <ada@example.com>` → `Ada`. */
export function nameOf(author: string): string {
  return author.replace(/\s*<[^>]*>\s*$/, '') || author;
}
