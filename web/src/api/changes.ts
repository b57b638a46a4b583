/**
 * What happened on the server → which cached answers are old. In: `{kind, id}` from the change stream. Out:
 * invalidations of the query cache. It holds no connection; see `live.ts`.
 */
import type { Query, QueryClient, QueryKey } from '@tanstack/react-query';
import type { ApplicationRef } from './appProxy';
import { refOf, type ApplicationRows } from './applicationRows';

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
    case 'application': {
      const ref = refOf(change.id);
      if (!ref) return [['applications']];
      const { runtime, namespace, name } = ref;
      // The list's rows are patched one by one; see `applicationRows.ts`.
      const views = ['one', 'diff', 'plan', 'events', 'actions'].map((view) => [
        'applications',
        view,
        runtime,
        namespace,
        name,
      ]);
      return [...views, ['applications', 'rollouts']];
    }
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

const hasNone = ({ state }: Query) => state.data === undefined;

type Cache = Pick<QueryClient, 'invalidateQueries' | 'isFetching'>;

/**
 * Gathers changes for a moment and then invalidates each key once. While a round is being fetched the next one
 * waits: otherwise a busy build would cancel and restart the same slow fetch for ever.
 */
export class Invalidator {
  private pending = new Map<string, QueryKey>();
  private busy = false;
  private readonly cache: Cache;
  private readonly rows: Pick<ApplicationRows, 'changed'> | undefined;
  private readonly windowMs: number;
  private applications = new Map<string, ApplicationRef>();

  constructor(cache: Cache, rows?: Pick<ApplicationRows, 'changed'>, windowMs = WINDOW_MS) {
    this.cache = cache;
    this.rows = rows;
    this.windowMs = windowMs;
  }

  changed(change: Change): void {
    const application = change.kind === 'application' && refOf(change.id);
    if (application) this.applications.set(change.id, application);
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
    const applications = all ? [] : [...this.applications.values()];
    this.pending.clear();
    this.applications.clear();
    await Promise.allSettled([
      ...keys.map((queryKey) => this.renew(queryKey)),
      ...(applications.length > 0 && this.rows ? [this.rows.changed(applications)] : []),
    ]);
    this.busy = false;
    if (this.pending.size > 0) this.schedule();
  }

  /** A first answer that is on its way is waited for and not asked for again: it may be of before the change. */
  private async renew(queryKey: QueryKey): Promise<void> {
    const isFirst = this.cache.isFetching({ queryKey, predicate: hasNone }) > 0;
    await this.cache.invalidateQueries({ queryKey });
    if (isFirst) await this.cache.invalidateQueries({ queryKey });
  }
}
