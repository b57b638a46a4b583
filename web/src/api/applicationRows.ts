/**
 * A changed application → its row in every cached page of the list, and nothing else redrawn. In: ids of the change
 * stream. Out: patched pages; the pages on screen are asked for again a little later, because the order and the
 * counters may have changed too. When much changes at once, only the latter.
 */
import type { QueryClient } from '@tanstack/react-query';
import type { ApplicationRef } from './appProxy';
import type { ApplicationList, ApplicationRow } from './types';

const LISTS = ['applications', 'list'];
const ROWS_AT_ONCE = 10;
const SETTLE_MS = 2500;

type Cache = Pick<QueryClient, 'getQueriesData' | 'setQueriesData' | 'invalidateQueries'>;
type FetchRow = (ref: ApplicationRef) => Promise<ApplicationRow | undefined>;

/** `runtime/namespace/name`, as the server writes it. */
export function refOf(id: string): ApplicationRef | undefined {
  const [runtime, namespace, ...rest] = id.split('/');
  const name = rest.join('/');
  return runtime && namespace && name ? { runtime, namespace, name } : undefined;
}

const isThe = (row: ApplicationRow, ref: ApplicationRef) =>
  row.name === ref.name && row.namespace === ref.namespace && row.runtime === ref.runtime;

export class ApplicationRows {
  private settling: ReturnType<typeof setTimeout> | undefined;
  private readonly cache: Cache;
  private readonly fetchRow: FetchRow;
  private readonly settleMs: number;

  constructor(cache: Cache, fetchRow: FetchRow, settleMs = SETTLE_MS) {
    this.cache = cache;
    this.fetchRow = fetchRow;
    this.settleMs = settleMs;
  }

  /** What changed since the last call. Ends when the rows on screen are true. */
  async changed(refs: ApplicationRef[]): Promise<void> {
    const lists = this.cache.getQueriesData<ApplicationList>({ queryKey: LISTS });
    if (lists.length === 0) return;
    this.settle();
    const shown = refs.filter((ref) =>
      lists.some(([, list]) => list?.applications.some((row) => isThe(row, ref))),
    );
    if (shown.length > ROWS_AT_ONCE) return;
    await Promise.allSettled(shown.map((ref) => this.patch(ref)));
  }

  private async patch(ref: ApplicationRef): Promise<void> {
    const row = await this.fetchRow(ref);
    // One that is gone stays until the pages come again: taking it out alone would shift every page after it.
    if (!row) return;
    this.cache.setQueriesData<ApplicationList>({ queryKey: LISTS }, (list) => {
      if (!list?.applications.some((old) => isThe(old, ref))) return list;
      return { ...list, applications: list.applications.map((old) => (isThe(old, ref) ? row : old)) };
    });
  }

  /** At most one round of lists in this time, however much changes. */
  private settle(): void {
    this.settling ??= setTimeout(() => {
      this.settling = undefined;
      void this.cache.invalidateQueries({ queryKey: LISTS });
    }, this.settleMs);
  }
}
