/**
 * Colours and sizes of the component library. The page's own tokens are CSS variables in app.css; the two agree on
 * petrol as the accent and on warm grey (light) and ink (dark) as the ground.
 */
import { createTheme, type MantineColorsTuple } from '@mantine/core';

const petrol: MantineColorsTuple = [
  '#e9f5f6',
  '#d5e8ea',
  '#aad3d8',
  '#7cc4cd',
  '#4ba6b2',
  '#3593a0',
  '#268390',
  '#18717e',
  '#12606b',
  '#0b4b54',
];

const gray: MantineColorsTuple = [
  '#faf9f6',
  '#f4f2ed',
  '#eae7e0',
  '#dedad1',
  '#cbc6bb',
  '#a7a399',
  '#7d7b74',
  '#5a5f60',
  '#3a4143',
  '#1d2426',
];

const dark: MantineColorsTuple = [
  '#e3e8e6',
  '#bfc9c9',
  '#9aa8a9',
  '#6d7a7c',
  '#36444a',
  '#2a363a',
  '#1e282c',
  '#172023',
  '#10171a',
  '#0b1113',
];

const red: MantineColorsTuple = [
  '#fdeceb',
  '#f8d5d2',
  '#f0aaa5',
  '#f2857b',
  '#df5f55',
  '#cf443a',
  '#c0352b',
  '#b3261e',
  '#9c2019',
  '#7d1812',
];

export const theme = createTheme({
  primaryColor: 'petrol',
  // White text has to be readable on both.
  primaryShade: { light: 8, dark: 7 },
  colors: { petrol, gray, dark, red },
  fontFamily: 'var(--sans)',
  fontFamilyMonospace: 'var(--mono)',
  fontSizes: { xs: '12px', sm: '13px', md: '14px', lg: '16px', xl: '19px' },
  defaultRadius: 'sm',
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    Tooltip: {
      defaultProps: {
        withArrow: true,
        openDelay: 250,
        multiline: true,
        maw: 360,
        events: { hover: true, focus: true, touch: true },
      },
    },
    Modal: {
      defaultProps: {
        centered: true,
        transitionProps: { duration: 100 },
        closeButtonProps: { 'aria-label': 'Close' },
      },
    },
    Button: { defaultProps: { size: 'xs' } },
    TextInput: { defaultProps: { size: 'sm' } },
  },
});
