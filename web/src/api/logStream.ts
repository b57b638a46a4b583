/**
 * A build's log as server-sent events → pieces in order, each once. The browser resumes a broken stream by
 * `Last-Event-ID`; when it gives up (the server was away for the whole answer), the stream is opened afresh and what
 * was seen before is skipped by `seq`.
 */
import { waitMs } from './live';
import type { LogChunk } from './types';

export type LogStreamState = 'connecting' | 'live' | 'reconnecting' | 'ended';

export interface LogStreamHandlers {
  chunk: (chunk: LogChunk) => void;
  state: (state: LogStreamState) => void;
}

export function openLogStream(buildId: string, handlers: LogStreamHandlers): () => void {
  const url = `/api/builds/${encodeURIComponent(buildId)}/logs/stream`;
  let source: EventSource | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let lastSeq = -1;
  let failures = 0;

  const open = () => {
    source = new EventSource(url);
    source.addEventListener('open', () => {
      failures = 0;
      handlers.state('live');
    });
    source.addEventListener('message', (event: MessageEvent<string>) => {
      const chunk = JSON.parse(event.data) as LogChunk;
      if (chunk.seq <= lastSeq) return;
      lastSeq = chunk.seq;
      handlers.chunk(chunk);
    });
    source.addEventListener('end', () => {
      source?.close();
      handlers.state('ended');
    });
    source.addEventListener('error', () => {
      handlers.state('reconnecting');
      if (source?.readyState === EventSource.CLOSED) retry = setTimeout(open, waitMs(failures++));
    });
  };

  handlers.state('connecting');
  open();
  return () => {
    clearTimeout(retry);
    source?.close();
  };
}
