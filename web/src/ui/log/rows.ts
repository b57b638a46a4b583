/**
 * Sections, some folded, as one list of rows: a heading, then its lines. In: the order and what is folded. Out: which
 * row is what, and back. It holds positions only, never the text.
 */
export interface RowSection {
  name: string;
  /** First line that is still held. */
  first: number;
  lines: number;
  folded: boolean;
}

export type Row = { kind: 'heading'; section: number } | { kind: 'line'; section: number; line: number };

export class Rows {
  readonly sections: RowSection[];
  readonly count: number;
  /** Row of each section's heading. */
  private readonly starts: number[] = [];

  constructor(sections: RowSection[]) {
    this.sections = sections;
    let row = 0;
    for (const section of sections) {
      this.starts.push(row);
      row += 1 + (section.folded ? 0 : section.lines - section.first);
    }
    this.count = row;
  }

  at(row: number): Row | undefined {
    if (row < 0 || row >= this.count) return undefined;
    let low = 0;
    let high = this.starts.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.starts[middle] ?? Infinity) <= row) low = middle + 1;
      else high = middle;
    }
    const section = low - 1;
    const offset = row - (this.starts[section] ?? 0);
    if (offset === 0) return { kind: 'heading', section };
    return { kind: 'line', section, line: (this.sections[section]?.first ?? 0) + offset - 1 };
  }

  heading(name: string): number | undefined {
    const index = this.sections.findIndex((section) => section.name === name);
    return index < 0 ? undefined : this.starts[index];
  }

  /** Row of a line; its heading's when the section is folded, nothing when the line is not there. */
  of(name: string, line: number): number | undefined {
    const index = this.sections.findIndex((section) => section.name === name);
    const section = this.sections[index];
    const start = this.starts[index];
    if (!section || start === undefined || line >= section.lines || line < section.first) return undefined;
    return section.folded ? start : start + 1 + line - section.first;
  }
}

/** The heading that a row belongs to: what stays visible at the top while its lines scroll by. */
export function sectionAt(rows: Rows, row: number): RowSection | undefined {
  const found = rows.at(Math.max(0, Math.min(row, rows.count - 1)));
  return found && rows.sections[found.section];
}
