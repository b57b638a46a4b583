import { Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { runtimeLog } from '../api/runtimeLog';
import { Action } from '../ui/Action';
import { QueryView } from '../ui/States';

/** What the runtime's own process says of its work: asked of the runtime when somebody wants it, and recorded. */
export function RuntimeLogPanel({ runtime }: { runtime: string }) {
  const [wanted, setWanted] = useState(false);
  const [component, setComponent] = useState('');
  const query = useQuery({
    queryKey: ['runtimes', runtime, 'log', component],
    queryFn: ({ signal }) => runtimeLog(runtime, component, signal),
    enabled: wanted,
    staleTime: Infinity,
  });
  return (
    <section className="panel" aria-labelledby="own-log">
      <header>
        <h2 id="own-log">Log</h2>
        <Action onClick={() => (wanted ? void query.refetch() : setWanted(true))}>
          {wanted ? 'Read again' : 'Read its log'}
        </Action>
      </header>
      {wanted && (
        <QueryView query={query}>
          {(log) => (
            <div className="body stack">
              <Select
                label="Component"
                data={[{ value: '', label: 'All' }, ...log.components.filter(Boolean)]}
                value={component}
                onChange={(value) => setComponent(value ?? '')}
                allowDeselect={false}
              />
              <p className="muted">
                Process {log.process || 'of the runtime'}
                {log.dropped > 0 && `; ${log.dropped} earlier lines are not kept`}
              </p>
              <pre
                className="mono"
                style={{ fontSize: 12, whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}
                aria-label="Lines"
              >
                {log.lines
                  .map(({ at, level, component: of, message }) => `${at} ${level} ${of}: ${message}`)
                  .join('\n')}
              </pre>
            </div>
          )}
        </QueryView>
      )}
    </section>
  );
}
