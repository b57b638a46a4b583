import { UnstyledButton, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { Moon, Sun } from '../ui/icons';
import styles from './Shell.module.css';

const NEXT = { auto: 'light', light: 'dark', dark: 'auto' } as const;
const LABEL = { auto: 'System colours', light: 'Light', dark: 'Dark' } as const;

/** System, light, dark, in turn; remembered by the browser. */
export function ColorSchemeSwitch() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const computed = useComputedColorScheme('light');
  return (
    <UnstyledButton
      className={styles.scheme}
      aria-label={`Colours: ${LABEL[colorScheme]}. Change to ${LABEL[NEXT[colorScheme]]}`}
      onClick={() => setColorScheme(NEXT[colorScheme])}
    >
      {computed === 'dark' ? <Moon /> : <Sun />}
      {LABEL[colorScheme]}
    </UnstyledButton>
  );
}
