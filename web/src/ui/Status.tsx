import type { ReactNode } from 'react';
import { Check, Clock, Cross, Dash, Warn } from './icons';
import styles from './Status.module.css';

/** How a state is drawn. What the state is called, and when it holds, the server says. */
export type Tone = 'ok' | 'run' | 'wait' | 'bad' | 'warn' | 'off';

interface StatusProps {
  tone: Tone;
  children: ReactNode;
  /** Only the sign and the words, for table cells. */
  plain?: boolean;
  title?: string | undefined;
}

/** A state as a sign, a colour and a word: the colour is never the only bearer. */
export function Status({ tone, children, plain, title }: StatusProps) {
  return (
    <span className={styles.status} data-tone={tone} data-plain={plain || undefined} title={title}>
      <ToneIcon tone={tone} />
      <span>{children}</span>
    </span>
  );
}

export function ToneIcon({ tone }: { tone: Tone }) {
  return (
    <span className={styles.icon} data-tone={tone} aria-hidden="true">
      {sign(tone)}
    </span>
  );
}

function sign(tone: Tone): ReactNode {
  switch (tone) {
    case 'ok':
      return <Check />;
    case 'bad':
      return <Cross />;
    case 'warn':
      return <Warn />;
    case 'wait':
      return <Clock />;
    case 'run':
      return <span className={styles.spinner} />;
    case 'off':
      return <Dash />;
  }
}
