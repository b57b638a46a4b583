/**
 * Text in sections, held so that millions of lines fit and any line is found at once. In: pieces of text, cut
 * anywhere. Out: lines by number. It knows nothing of the network, of React or of what a section means.
 *
 * A section is a list of blocks of about 64 kB, each one string with the offsets of its lines: per line four bytes
 * beside the text itself. Colours that run over line ends are kept only where they change.
 */
import { advance, type Carry } from './ansi';

const BLOCK_CHARS = 64 * 1024;
/** Of all sections together. Beyond it the oldest lines of the growing section go, and the page says so. */
const CHARS_MAX = 256 * 1024 * 1024;

interface Block {
  firstLine: number;
  text: string;
  starts: number[] | Uint32Array;
}

export class Section {
  readonly name: string;
  /** Lines that were given up to stay within the limit; numbering goes on unchanged. */
  dropped = 0;
  /** Longest line so far in characters, colours included: how wide the page has to be. */
  widest = 0;
  chars = 0;
  /** The last line, while its newline has not come. */
  private open = '';
  private blocks: Block[] = [];
  private carries: { line: number; carry: Carry }[] = [];

  constructor(name: string) {
    this.name = name;
  }

  /** Lines that there are, the dropped ones included. A last line without its newline counts. */
  get lines(): number {
    const last = this.blocks.at(-1);
    if (!last) return 0;
    const open = last.starts.at(-1) === last.text.length ? 1 : 0;
    return last.firstLine + last.starts.length - open;
  }

  append(text: string): void {
    if (!text) return;
    let block = this.blocks.at(-1);
    if (!block) {
      block = { firstLine: 0, text: '', starts: [0] };
      this.blocks.push(block);
    }
    const starts = block.starts as number[];
    // Only the piece is looked at, never the block: that stays a rope until somebody reads from it.
    const base = block.text.length;
    let from = 0;
    for (let newline = text.indexOf('\n'); newline >= 0; newline = text.indexOf('\n', from)) {
      this.endLine(this.open + text.slice(from, newline), block.firstLine + starts.length);
      this.open = '';
      from = newline + 1;
      starts.push(base + from);
    }
    this.open += text.slice(from);
    this.widest = Math.max(this.widest, this.open.length);
    block.text += text;
    this.chars += text.length;
    if (block.text.length >= BLOCK_CHARS) this.seal(block, starts);
  }

  /** One line without its newline; nothing for a line that was dropped or is not there yet. */
  line(number: number): string {
    const block = this.blockOf(number);
    if (!block) return '';
    const index = number - block.firstLine;
    const start = block.starts[index];
    if (start === undefined) return '';
    const next = block.starts[index + 1];
    return block.text.slice(start, next === undefined ? undefined : next - 1);
  }

  /** The lines around one that are kept together: their text, and the number of the first line after them. */
  stretch(number: number): { text: string; end: number } {
    const block = this.blockOf(number);
    if (!block) return { text: '', end: number + 1 };
    const next = this.blocks[this.blocks.indexOf(block) + 1];
    return { text: block.text, end: next ? next.firstLine : this.lines };
  }

  /** The colours that are on where the line begins. */
  carry(number: number): Carry {
    let low = 0;
    let high = this.carries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.carries[middle]?.line ?? Infinity) <= number) low = middle + 1;
      else high = middle;
    }
    return this.carries[low - 1]?.carry ?? '';
  }

  /** Gives up the oldest block; false when only the growing one is left. */
  dropOldest(): boolean {
    const next = this.blocks[1];
    const oldest = this.blocks[0];
    if (!next || !oldest) return false;
    this.blocks.shift();
    this.chars -= oldest.text.length;
    this.dropped = next.firstLine;
    return true;
  }

  private endLine(line: string, next: number): void {
    this.widest = Math.max(this.widest, line.length);
    const before = this.carries.at(-1)?.carry ?? '';
    const after = advance(before, line);
    if (after !== before) this.carries.push({ line: next, carry: after });
  }

  /** Full lines stay, the open line moves to a new block. */
  private seal(block: Block, starts: number[]): void {
    const open = starts.at(-1) ?? 0;
    if (open === 0) return;
    const rest = block.text.slice(open);
    block.text = block.text.slice(0, open);
    // The offset of the open line stays as the end of the last full one, but is not a line of this block.
    block.starts = Uint32Array.from(starts);
    this.blocks.push({ firstLine: block.firstLine + starts.length - 1, text: rest, starts: [0] });
  }

  private blockOf(number: number): Block | undefined {
    let low = 0;
    let high = this.blocks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.blocks[middle]?.firstLine ?? Infinity) <= number) low = middle + 1;
      else high = middle;
    }
    return this.blocks[low - 1];
  }
}

export class LogBuffer {
  /** In the order in which text for them first came. */
  readonly sections = new Map<string, Section>();
  private version = 0;
  private frame = 0;
  private readonly listeners = new Set<() => void>();
  private readonly charsMax: number;

  constructor(charsMax = CHARS_MAX) {
    this.charsMax = charsMax;
  }

  append(name: string, text: string): void {
    let section = this.sections.get(name);
    if (!section) {
      section = new Section(name);
      this.sections.set(name, section);
    }
    section.append(text);
    while (this.chars() > this.charsMax && section.dropOldest());
    this.notify();
  }

  /** Forgets everything, before the same log is read again from its start. */
  clear(): void {
    this.sections.clear();
    this.notify();
  }

  chars(): number {
    let sum = 0;
    for (const section of this.sections.values()) sum += section.chars;
    return sum;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Changes when lines came since it was last asked for, at most once per frame. */
  current = (): number => this.version;

  /** Thousands of pieces may come between two frames; the page is drawn once. */
  private notify(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.version++;
      for (const listener of this.listeners) listener();
    });
  }
}
