import { ActionIcon, Tooltip } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { Check, Copy } from './icons';
import styles from './CopyText.module.css';

interface CopyTextProps {
  text: string;
  /** What is copied, for the button's name: "clone address". */
  what: string;
  prompt?: boolean;
}

/** One line to copy: an address or a command. */
export function CopyText({ text, what, prompt }: CopyTextProps) {
  return (
    <span className={styles.box}>
      {prompt && (
        <span className={styles.prompt} aria-hidden="true">
          $
        </span>
      )}
      <code className={styles.text}>{text}</code>
      <CopyIcon text={text} what={what} />
    </span>
  );
}

export function CopyIcon({ text, what }: { text: string; what: string }) {
  const clipboard = useClipboard({ timeout: 1500 });
  return (
    <Tooltip label={clipboard.copied ? 'Copied' : `Copy the ${what}`}>
      <ActionIcon
        size="sm"
        variant="subtle"
        color="gray"
        aria-label={clipboard.copied ? 'Copied' : `Copy the ${what}`}
        onClick={() => clipboard.copy(text)}
      >
        {clipboard.copied ? <Check /> : <Copy />}
      </ActionIcon>
    </Tooltip>
  );
}
