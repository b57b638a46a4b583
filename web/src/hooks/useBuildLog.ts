import { useEffect, useState } from 'react';
import { openLogStream, type LogStreamState } from '../api/logStream';
import { LogBuffer } from '../ui/log/buffer';

/** A build's log as it comes, in a buffer that outlives the page's redraws. The caller is keyed by the build. */
export function useBuildLog(buildId: string): { buffer: LogBuffer; state: LogStreamState } {
  const [buffer] = useState(() => new LogBuffer());
  const [state, setState] = useState<LogStreamState>('connecting');
  useEffect(() => {
    buffer.clear();
    return openLogStream(buildId, {
      chunk: (chunk) => buffer.append(chunk.step, chunk.text),
      state: setState,
    });
  }, [buildId, buffer]);
  return { buffer, state };
}
