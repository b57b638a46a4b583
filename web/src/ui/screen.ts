/**
 * What a terminal printed, as lines to show. In: text with the signs of a terminal, in pieces. Out: lines. It knows
 * carriage return, backspace and erasing in a line, which shells use while a line is typed; colours and the placing of
 * a cursor elsewhere are left out, so programs that draw the whole screen do not show well.
 */
const LINES_MAX = 2000;
/** As far as a sign may place the cursor: letters get there by themselves. */
const PLACED_MAX = 1000;
/** A title that does not end is no title. */
const SIGN_MAX = 8192;
const ESC = '\u001b';
const BEL = '\u0007';
// ESC [ … letter, ESC ] … BEL or ESC \, and the short ones.
const SIGN = new RegExp(
  `${ESC}(?:\\[([0-?]*)[ -/]*([@-~])|\\][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)|[()][A-Za-z0-9]|[@-Z\\\\^_=>])`,
  'y',
);
const BEGUN = new RegExp(`^${ESC}(?:\\[[0-?]*[ -/]*|\\][^${BEL}${ESC}]*${ESC}?|[()]?)?$`);

export class Screen {
  readonly lines: string[] = [''];
  private column = 0;
  /** A sign whose end has not come yet. */
  private rest = '';

  write(text: string): void {
    const all = this.rest + text;
    this.rest = '';
    let at = 0;
    while (at < all.length) {
      const letter = all[at] as string;
      if (letter === ESC) {
        SIGN.lastIndex = at;
        const sign = SIGN.exec(all);
        if (sign) {
          this.obey(sign[2], sign[1] ?? '');
          at = SIGN.lastIndex;
          continue;
        }
        if (all.length - at < SIGN_MAX && BEGUN.test(all.slice(at))) {
          this.rest = all.slice(at);
          return;
        }
      } else {
        this.put(letter);
      }
      at += 1;
    }
  }

  private put(letter: string): void {
    if (letter === '\n') {
      this.lines.push('');
      this.column = 0;
      if (this.lines.length > LINES_MAX) this.lines.splice(0, this.lines.length - LINES_MAX);
    } else if (letter === '\r') {
      this.column = 0;
    } else if (letter === '\b') {
      this.column = Math.max(0, this.column - 1);
    } else if (letter >= ' ' || letter === '\t') {
      const line = this.last();
      // Nearly always at the end, where a line of megabytes must not be copied for each of its letters.
      if (this.column === line.length) this.set(line + letter);
      else {
        const padded = line.padEnd(this.column);
        this.set(padded.slice(0, this.column) + letter + padded.slice(this.column + 1));
      }
      this.column += 1;
    }
  }

  private obey(verb: string | undefined, numbers: string): void {
    const count = Number.parseInt(numbers, 10) || 1;
    if (verb === 'K') this.set(numbers === '2' ? '' : this.last().slice(0, this.column));
    if (verb === 'C') this.column = Math.max(this.column, Math.min(this.column + count, PLACED_MAX));
    if (verb === 'D') this.column = Math.max(0, this.column - count);
    if (verb === 'P') {
      const line = this.last();
      this.set(line.slice(0, this.column) + line.slice(this.column + count));
    }
    if (verb === 'J' && numbers !== '' && numbers !== '0') this.lines.splice(0, this.lines.length, '');
  }

  private last(): string {
    return this.lines[this.lines.length - 1] ?? '';
  }

  private set(line: string): void {
    this.lines[this.lines.length - 1] = line;
  }
}
