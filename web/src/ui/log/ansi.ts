/**
 * Terminal text → spans with classes. In: one line and the colours that earlier lines left switched on. Out: spans,
 * and the colours left on after it. Cursor movement, titles and links of the terminal are dropped: a page is not one.
 */
import Anser from 'anser';

export interface Span {
  text: string;
  className: string;
  style?: { color?: string; backgroundColor?: string };
}

const ESC = '\u001b';
// Operating system commands (titles, links), every control sequence but colours (`m`), and two-byte escapes.
const NOT_COLOUR =
  // oxlint-disable-next-line no-control-regex
  /\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b\[[0-9;?<=>!]*[ -/]*[@-ln-~]|\u001b[@-Z\\^_cn-~=>78]/g;
// oxlint-disable-next-line no-control-regex
const COLOUR = /\u001b\[([\d;]*)m/g;
// What is left of control characters shows as nothing; tab is kept.
// oxlint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b-\u001a\u001c-\u001f\u007f]/g;

const TAB = 8;

/** Colours that stay on from one line to the next, as the shortest sequence that switches them on again. */
export type Carry = string;

interface State {
  foreground: string;
  background: string;
  decorations: Set<string>;
}

/** The colours after `line`, when `carry` was on before it. */
export function advance(carry: Carry, line: string): Carry {
  const last = line.lastIndexOf(`${ESC}[`);
  if (last < 0) return carry;
  // Most coloured lines end with a reset, and logs have millions of them.
  if (line.startsWith('0m', last + 2) || line[last + 2] === 'm') return '';
  const state: State = { foreground: '', background: '', decorations: new Set() };
  for (const [, params] of (carry + line).matchAll(COLOUR)) apply(state, (params ?? '').split(';'));
  const codes = [...state.decorations, state.foreground, state.background].filter(Boolean);
  return codes.length > 0 ? `${ESC}[${codes.join(';')}m` : '';
}

// Which decoration each "off" code ends.
const OFF: Record<string, string[]> = {
  22: ['1', '2'],
  23: ['3'],
  24: ['4'],
  25: ['5', '6'],
  27: ['7'],
  28: ['8'],
  29: ['9'],
};

function apply(state: State, params: string[]): void {
  for (let index = 0; index < params.length; index++) {
    const code = Number(params[index] || 0);
    if (code === 0) {
      state.foreground = '';
      state.background = '';
      state.decorations.clear();
    } else if (code === 38 || code === 48) {
      const length = params[index + 1] === '5' ? 3 : 5;
      const value = params.slice(index, index + length).join(';');
      if (code === 38) state.foreground = value;
      else state.background = value;
      index += length - 1;
    } else if (code <= 9) state.decorations.add(String(code));
    else if (OFF[code]) for (const ended of OFF[code]) state.decorations.delete(ended);
    else if (code === 39) state.foreground = '';
    else if (code === 49) state.background = '';
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) state.foreground = String(code);
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) state.background = String(code);
  }
}

/** The line as a terminal would leave it: a carriage return starts it over, as progress bars do. */
function settle(raw: string): string {
  let line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
  const restart = line.lastIndexOf('\r');
  if (restart >= 0) line = line.slice(restart + 1);
  if (line.includes(ESC)) line = line.replace(NOT_COLOUR, '');
  return line.replace(CONTROL, '');
}

/** Tabs as spaces, so that a column is a column when the viewer counts them. */
function expandTabs(text: string, column: number): string {
  if (!text.includes('\t')) return text;
  let out = '';
  for (const char of text) {
    out += char === '\t' ? ' '.repeat(TAB - ((column + out.length) % TAB)) : char;
  }
  return out;
}

/** What a person reads: no colours, no control characters. Search looks at this. */
export function plain(raw: string): string {
  const line = settle(raw);
  return expandTabs(line.includes(ESC) ? line.replace(COLOUR, '') : line, 0);
}

/** A stretch of lines as `plain` would show them, but for tabs and restarts: more text may stand here, never less. */
export function roughly(text: string): string {
  return text.includes(ESC) ? text.replace(NOT_COLOUR, '').replace(COLOUR, '') : text;
}

export function spans(raw: string, carry: Carry): Span[] {
  const line = settle(raw);
  if (!carry && !line.includes(ESC)) return [{ text: expandTabs(line, 0), className: '' }];
  const out: Span[] = [];
  let column = 0;
  for (const part of Anser.ansiToJson(carry + line, { use_classes: true, remove_empty: true })) {
    const text = expandTabs(part.content, column);
    column += text.length;
    out.push(toSpan(part, text));
  }
  return out;
}

function toSpan(part: Anser.AnserJsonEntry, text: string): Span {
  const foreground = colour(part.fg, part.fg_truecolor);
  const background = colour(part.bg, part.bg_truecolor);
  const names = [
    ...(foreground?.name ? [foreground.name] : []),
    ...(background?.name ? [`${background.name}-bg`] : []),
    ...part.decorations.map((decoration) => `ansi-${decoration}`),
  ];
  const span: Span = { text, className: names.join(' ') };
  if (foreground?.value || background?.value) {
    span.style = {
      ...(foreground?.value ? { color: foreground.value } : {}),
      ...(background?.value ? { backgroundColor: background.value } : {}),
    };
  }
  return span;
}

/** The first 16 colours follow the page's theme by name; the rest of the palette and true colours are fixed values. */
function colour(
  name: string | null,
  trueColour: string | null,
): { name?: string; value?: string } | undefined {
  if (!name) return undefined;
  if (name === 'ansi-truecolor') return { value: `rgb(${trueColour})` };
  const index = /^ansi-palette-(\d+)$/.exec(name)?.[1];
  return index === undefined ? { name } : { value: paletteColour(Number(index)) };
}

/** The six steps of the colour cube. */
const level = (value: number) => (value === 0 ? 0 : 55 + value * 40);

export function paletteColour(index: number): string {
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return `rgb(${grey}, ${grey}, ${grey})`;
  }
  const cube = index - 16;
  return `rgb(${level(Math.floor(cube / 36))}, ${level(Math.floor(cube / 6) % 6)}, ${level(cube % 6)})`;
}
