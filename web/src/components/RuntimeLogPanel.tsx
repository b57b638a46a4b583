import { Select } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { runtimeLog } from '../api/runtimeLog';
import type { RuntimeLogs } from '../api/types';
import { Action } from '../ui/Action';
import { FormError } from '../ui/FormDialog';
import { Loading } from '../ui/States';

/**
 * What the runtime's own process says of its work. Each reading is recorded, so it is read when somebody asks and never again by
 * itself, whatever becomes of the runtime or of the connection.
 */
export function RuntimeLogPanel({ runtime }: { runtime: string }) {
  const [log, setLog] = useState<RuntimeLogs>();
  const [component, setComponent] = useState('');
  const read = useMutation({
    mutationFn: (wanted: string) => runtimeLog(runtime, wanted),
    onSuccess: setLog,
  });
  return (
    <section className="panel" aria-labelledby="own-log">
      <header>
        <h2 id="own-log">Log</h2>
        <Action loading={read.isPending} onClick={() => read.mutate(component)}>
          {log ? 'Read again' : 'Read its log'}
        </Action>
      </header>
      {(log || read.isPending || read.isError) && (
        <div className="body stack">
          {log && (
            <Select
              label="Component"
              data={[{ value: '', label: 'All' }, ...log.components.filter(Boolean)]}
              value={component}
              // What was asked for first would come last, and stand there under the other's name.
              readOnly={read.isPending}
              onChange={(value) => {
                setComponent(value ?? '');
                read.mutate(value ?? '');
              }}
              allowDeselect={false}
            />
          )}
          <FormError error={read.error} />
          {read.isPending ? <Loading /> : log && !read.isError && <Lines log={log} />}
        </div>
      )}
    </section>
  );
}

function Lines({ log }: { log: RuntimeLogs }) {
  return (
    <>
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
    </>
  );
}
