/** What the palette offers for a text: pure, so that a test can ask it. */

export interface Entry {
  /** Unique among those on screen. */
  id: string;
  group: string;
  label: string;
  hint?: string;
  run: () => void;
}

/** Every word has to be in it; where a word begins a name it counts more. Zero: it does not fit. */
export function fits(label: string, text: string): number {
  const name = label.toLowerCase();
  let score = 1;
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const at = name.indexOf(word);
    if (at < 0) return 0;
    score += at === 0 ? 4 : /[\s/_.-]/.test(name[at - 1] ?? '') ? 2 : 1;
    if (name === word) score += 8;
  }
  return score;
}

const OURS =
  /^(pages?|pipelines?|applications?|rollouts?|repositor(y|ies)|runtimes?|clusters?|builds?|actions?|refresh|new)$/i;

/** The words that may be part of a name: those that say which group is meant, the server knows nothing of. */
export function words(text: string): string[] {
  const all = text.split(/\s+/).filter(Boolean);
  const names = all.filter((word) => !OURS.test(word));
  return names.length > 0 || all.length > 1 ? names : all;
}

export const PER_GROUP = 6;

/** The best of each group, groups in their given order. With no text the first few of each. */
export function choose(entries: Entry[], text: string): Entry[] {
  const groups = new Map<string, { entry: Entry; score: number }[]>();
  for (const entry of entries) {
    const score = Math.max(fits(entry.label, text), fits(`${entry.group} ${entry.label}`, text));
    if (score === 0) continue;
    const group = groups.get(entry.group) ?? [];
    group.push({ entry, score });
    groups.set(entry.group, group);
  }
  return [...groups.values()].flatMap((group) =>
    group
      .toSorted((a, b) => b.score - a.score)
      .slice(0, PER_GROUP)
      .map(({ entry }) => entry),
  );
}
