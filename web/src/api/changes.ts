/**
 * What happened on the server → which cached answers are old. In: `{kind, id}` from the change stream. Out:
 * invalidations of the query cache. It holds no connection; see `live.ts`.
 */
import type { QueryClient, QueryKey } from '@tanstack/react-query';

export interface Change {
  kind: string;
  id: string;
}

/** Every key that may be old after the change. An unknown kind makes everything old: too much is right, too little is not. */
export function keysOf(change: Change): QueryKey[] {
  switch (change.kind) {
    case 'build':
      return [
        ['builds', 'one', change.id],
        ['builds', 'list'],
      ];
    case 'pipeline':
      return [['pipelines']];
    case 'application':
      // The id's form is the runtime's business, and a person rarely looks at more than one application at a time.
      return [['applications']];
    case 'runtime':
    case 'runner':
      return [['runtimes'], ['runners']];
    case 'repository':
      return [['repositories']];
    default:
      return [[]];
  }
}

const WINDOW_MS = 120;

/**
 * Gathers changes for a moment and then invalidates each key once. While a round is being fetched the next one
 * waits: otherwise a busy build would cancel and restart the same slow fetch for ever.
 */
export class Invalidator {
  private pending = new Map<string, QueryKey>();
  private busy = false;
  private readonly cache: Pick<QueryClient, 'invalidateQueries'>;
  private readonly windowMs: number;

  constructor(cache: Pick<QueryClient, 'invalidateQueries'>, windowMs = WINDOW_MS) {
    this.cache = cache;
    this.windowMs = windowMs;
  }

  changed(change: Change): void {
    for (const key of keysOf(change)) this.pending.set(JSON.stringify(key), key);
    this.schedule();
  }

  /** After a gap in the stream nobody knows what changed. */
  everything(): void {
    this.pending.set('[]', []);
    this.schedule();
  }

  private schedule(): void {
    if (this.busy) return;
    this.busy = true;
    setTimeout(() => void this.flush(), this.windowMs);
  }

  private async flush(): Promise<void> {
    const all = this.pending.get('[]');
    const keys = all ? [all] : [...this.pending.values()];
    this.pending.clear();
    await Promise.allSettled(keys.map((queryKey) => this.cache.invalidateQueries({ queryKey })));
    this.busy = false;
    if (this.pending.size > 0) this.schedule();
  }
}
