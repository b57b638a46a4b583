import { describe, expect, test } from 'vitest';
import { advance, paletteColour, plain, spans } from './ansi';

const ESC = '\u001b';

describe('spans', () => {
  test('colours become classes and the text stays', () => {
    expect(spans(`a ${ESC}[1;31mred${ESC}[0m b`, '')).toEqual([
      { text: 'a ', className: '' },
      { text: 'red', className: 'ansi-red ansi-bold' },
      { text: ' b', className: '' },
    ]);
  });

  test('a colour from an earlier line goes on', () => {
    expect(spans('still green', `${ESC}[32m`)).toEqual([{ text: 'still green', className: 'ansi-green' }]);
  });

  test('true colour and the large palette become styles', () => {
    expect(spans(`${ESC}[38;2;1;2;3mx`, '')[0]?.style).toEqual({ color: 'rgb(1, 2, 3)' });
    expect(spans(`${ESC}[38;5;196mx`, '')[0]?.style).toEqual({ color: 'rgb(255, 0, 0)' });
    expect(paletteColour(244)).toBe('rgb(128, 128, 128)');
  });

  test('the large palette colours the ground as well', () => {
    expect(spans(`${ESC}[48;5;21mx`, '')[0]?.style).toEqual({ backgroundColor: 'rgb(0, 0, 255)' });
  });

  test('markup in a log is text', () => {
    expect(spans('<b>&amp;</b>', '')).toEqual([{ text: '<b>&amp;</b>', className: '' }]);
    expect(spans(`${ESC}[31m<b>&amp;`, '')[0]?.text).toBe('<b>&amp;');
  });
});

describe('plain', () => {
  test.each([
    ['a progress bar shows its last state', 'Receiving 10%\rReceiving 100%', 'Receiving 100%'],
    ['a Windows line end is no restart', 'done\r', 'done'],
    ['cursor movement is dropped', `${ESC}[2K${ESC}[1Gready${ESC}[?25h`, 'ready'],
    [
      'titles and links are dropped, their text stays',
      `${ESC}]8;;http://x${ESC}\\link${ESC}]8;;${ESC}\\`,
      'link',
    ],
    ['colours are dropped', `${ESC}[31mred${ESC}[m`, 'red'],
    ['tabs reach the next column of eight', 'a\tb', 'a       b'],
    ['bells and other controls show as nothing', 'a\u0007b\u0000', 'ab'],
  ])('%s', (_, raw, expected) => expect(plain(raw)).toBe(expected));
});

describe('advance', () => {
  test.each([
    ['nothing on, nothing said', '', 'text', ''],
    ['a colour stays on', '', `${ESC}[31mred`, `${ESC}[31m`],
    ['a reset ends it', `${ESC}[31m`, `red${ESC}[0m`, ''],
    ['an empty code is a reset', `${ESC}[31m`, `red${ESC}[m`, ''],
    ['the newest colour counts', `${ESC}[31m`, `${ESC}[32m`, `${ESC}[32m`],
    ['bold ends alone', `${ESC}[1;31m`, `${ESC}[22m`, `${ESC}[31m`],
    ['default colour ends the colour alone', `${ESC}[1;31m`, `${ESC}[39m`, `${ESC}[1m`],
    ['long colours stay whole', '', `${ESC}[38;5;208;1mx`, `${ESC}[1;38;5;208m`],
    ['reset and set in one', `${ESC}[1m`, `${ESC}[0;34m`, `${ESC}[34m`],
  ])('%s', (_, carry, line, expected) => expect(advance(carry, line)).toBe(expected));
});
