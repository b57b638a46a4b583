/**
 * One connection for the whole app: the change stream over the graphql-ws protocol. It reconnects for ever with a
 * growing, jittered wait; after a gap everything that is on screen is fetched again.
 */
import { createClient, type Client } from 'graphql-ws';
import type { Invalidator } from './changes';

export type LiveState = 'connecting' | 'live' | 'reconnecting';

const SUBSCRIPTION = 'subscription Changes { changes { kind id } }';
const WAIT_MIN_MS = 500;
const WAIT_MAX_MS = 20_000;

/** Full jitter, so that a thousand browsers do not return in the same second after a restart. */
export function waitMs(attempt: number, random = Math.random()): number {
  const ceiling = Math.min(WAIT_MAX_MS, WAIT_MIN_MS * 2 ** attempt);
  return Math.round(ceiling / 2 + (random * ceiling) / 2);
}

export class Live {
  private state: LiveState = 'connecting';
  private readonly listeners = new Set<() => void>();
  private client: Client | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private stopped = false;
  private readonly invalidator: Pick<Invalidator, 'changed' | 'everything'>;
  private readonly url: string;

  constructor(url: string, invalidator: Pick<Invalidator, 'changed' | 'everything'>) {
    this.url = url;
    this.invalidator = invalidator;
  }

  /** Opens the connection; the answer closes it. */
  start(): () => void {
    this.stopped = false;
    let connectedBefore = false;
    this.client = createClient({
      url: this.url,
      keepAlive: 15_000,
      retryAttempts: Infinity,
      shouldRetry: () => !this.stopped,
      retryWait: async (attempt) => {
        this.set('reconnecting');
        await new Promise((done) => setTimeout(done, waitMs(attempt)));
      },
      on: {
        connected: () => {
          this.set('live');
          if (connectedBefore) this.invalidator.everything();
          connectedBefore = true;
        },
        closed: () => {
          if (!this.stopped) this.set('reconnecting');
        },
      },
    });
    this.listen(this.client);
    return () => this.stop();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  current = (): LiveState => this.state;

  private listen(client: Client): void {
    const again = () => {
      if (this.stopped) return;
      this.set('reconnecting');
      clearTimeout(this.retry);
      this.retry = setTimeout(() => {
        // A subscription that ended on a live connection: whatever happened in between was not told.
        this.invalidator.everything();
        this.listen(client);
      }, waitMs(this.failures++));
    };
    client.subscribe<{ changes: { kind: string; id: string } }>(
      { query: SUBSCRIPTION },
      {
        next: ({ data, errors }) => {
          if (errors?.length) return;
          this.failures = 0;
          this.set('live');
          if (data?.changes) this.invalidator.changed(data.changes);
        },
        error: again,
        complete: again,
      },
    );
  }

  private stop(): void {
    this.stopped = true;
    clearTimeout(this.retry);
    void this.client?.dispose();
  }

  private set(state: LiveState): void {
    if (this.state === state) return;
    this.state = state;
    for (const listener of this.listeners) listener();
  }
}
