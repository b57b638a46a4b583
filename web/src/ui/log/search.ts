/**
 * Finds text in a log that is still growing. In: a query and the sections. Out: the lines that hold it, in order.
 * It works in slices of a few milliseconds, so that typing stays smooth in a log of millions of lines.
 */
import { plain, roughly } from './ansi';
import type { Section } from './buffer';

export interface Match {
  section: string;
  line: number;
}

/** More than a person will step through; the page says "10000+". */
export const MATCHES_MAX = 10_000;
const SLICE_MS = 8;

export class Search {
  readonly query: string;
  private readonly needle: string;
  private readonly found = new Map<string, number[]>();
  private readonly next = new Map<string, number>();
  private total = 0;

  constructor(query: string) {
    this.query = query;
    this.needle = query.toLowerCase();
  }

  get full(): boolean {
    return this.total >= MATCHES_MAX;
  }

  get count(): number {
    return this.total;
  }

  /** Looks on for a moment; true when all there is now has been looked at. */
  step(sections: Iterable<Section>, now: () => number = () => performance.now()): boolean {
    const until = now() + SLICE_MS;
    for (const section of sections) {
      let line = Math.max(this.next.get(section.name) ?? 0, section.dropped);
      while (line < section.lines) {
        if (this.full) return true;
        if (now() > until) {
          this.next.set(section.name, line);
          return false;
        }
        line = this.look(section, line);
      }
      // The last line may still be growing, so it is looked at again next time.
      this.next.set(section.name, Math.max(0, section.lines - 1));
    }
    return true;
  }

  /** Looks at one stretch of lines; most have no match, and that is seen without cutting them into lines. */
  private look(section: Section, from: number): number {
    const { text, end } = section.stretch(from);
    const tabs = this.needle.includes(' ') && text.includes('\t');
    if (!tabs && !roughly(text).toLowerCase().includes(this.needle)) return end;
    for (let line = from; line < end && !this.full; line++) {
      if (plain(section.line(line)).toLowerCase().includes(this.needle)) this.add(section.name, line);
    }
    return end;
  }

  /** All matches, in the given order of sections. */
  matches(order: string[]): Match[] {
    return order.flatMap((section) => (this.found.get(section) ?? []).map((line) => ({ section, line })));
  }

  private add(section: string, line: number): void {
    const lines = this.found.get(section) ?? [];
    if (lines.at(-1) === line) return;
    lines.push(line);
    this.found.set(section, lines);
    this.total++;
  }
}

/** Where `query` stands in a line, for highlighting. */
export function occurrences(text: string, query: string): [number, number][] {
  const out: [number, number][] = [];
  if (!query) return out;
  const haystack = text.toLowerCase();
  const needle = query.toLowerCase();
  for (let at = haystack.indexOf(needle); at >= 0; at = haystack.indexOf(needle, at + needle.length)) {
    out.push([at, at + needle.length]);
  }
  return out;
}
