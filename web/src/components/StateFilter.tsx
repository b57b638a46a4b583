import { UnstyledButton } from '@mantine/core';
import { ToneIcon, type Tone } from '../ui/Status';
import styles from './StateFilter.module.css';

interface StateFilterProps {
  label: string;
  counts: Record<string, number>;
  /** Several with commas. */
  chosen: string | undefined;
  tone: (state: string) => Tone;
  text: (state: string) => string;
  onChange: (chosen: string) => void;
}

/** How many there are of each state; a press shows only those, another one all again. */
export function StateFilter({ label, counts, chosen = '', tone, text, onChange }: StateFilterProps) {
  const picked = chosen.split(',').filter(Boolean);
  const states = [...new Set([...Object.keys(counts), ...picked])];
  if (states.length === 0) return null;
  return (
    <div className={styles.group} role="group" aria-label={label}>
      {states.map((state) => {
        const pressed = picked.includes(state);
        const next = pressed ? picked.filter((each) => each !== state) : [...picked, state];
        return (
          <UnstyledButton
            key={state}
            className={styles.chip}
            aria-pressed={pressed}
            onClick={() => onChange(next.join(','))}
          >
            <ToneIcon tone={tone(state)} />
            {text(state)} <span className={styles.count}>{(counts[state] ?? 0).toLocaleString('en')}</span>
          </UnstyledButton>
        );
      })}
    </div>
  );
}
