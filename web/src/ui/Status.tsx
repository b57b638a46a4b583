import type { ReactNode } from 'react';
import { Check, Clock, Cross, Dash, Dots, NotEqual, Warn } from './icons';
import styles from './Status.module.css';

/** How a state is drawn. What the state is called, and when it holds, the server says. */
export type Tone = 'ok' | 'run' | 'wait' | 'queue' | 'drift' | 'bad' | 'warn' | 'off';

interface StatusProps {
  tone: Tone;
  children: ReactNode;
  /** Only the sign and the words, for table cells. */
  plain?: boolean;
  title?: string | undefined;
  /** Instead of the tone's own sign. */
  sign?: ReactNode;
}

/** A state as a sign, a colour and a word: the colour is never the only bearer. */
export function Status({ tone, children, plain, title, sign }: StatusProps) {
  return (
    <span className={styles.status} data-tone={tone} data-plain={plain || undefined} title={title}>
      {sign === undefined ? (
        <ToneIcon tone={tone} />
      ) : (
        <span className={styles.icon} data-tone={tone} aria-hidden="true">
          {sign}
        </span>
      )}
      <span>{children}</span>
    </span>
  );
}

export function ToneIcon({ tone }: { tone: Tone }) {
  return (
    <span className={styles.icon} data-tone={tone} aria-hidden="true">
      {signOf(tone)}
    </span>
  );
}

function signOf(tone: Tone): ReactNode {
  switch (tone) {
    case 'ok':
      return <Check />;
    case 'bad':
      return <Cross />;
    case 'warn':
      return <Warn />;
    case 'wait':
      return <Clock />;
    case 'queue':
      return <Dots />;
    case 'drift':
      return <NotEqual />;
    case 'run':
      return <span className={styles.spinner} />;
    case 'off':
      return <Dash />;
  }
}
