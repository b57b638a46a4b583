import { Checkbox, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import type { LogsRequest, ResourceNode } from '../../api/types';
import { ChevronDown, ChevronRight, Scroll } from '../../ui/icons';
import { counted } from '../../ui/counted';
import { LogBuffer } from '../../ui/log/buffer';
import { LogViewer } from '../../ui/log/LogViewer';
import { Empty, sentence, toFailure } from '../../ui/States';

/** Of each pod; the CLI prints more. */
const TAIL = 1000;

interface LogsTabProps {
  reference: ApplicationRef;
  /** Whose pods are meant; without it, all pods of the Application. */
  resource: ResourceNode | undefined;
  disabledReason: string | undefined;
}

/** What the pods of an Application print, from its runtime and through no store. */
export function LogsTab({ reference, resource, disabledReason }: LogsTabProps) {
  const [container, setContainer] = useState('');
  const [previous, setPrevious] = useState(false);
  if (disabledReason) {
    return (
      <Empty title="Logs are with the runtime" icon={<Scroll />}>
        {disabledReason}
      </Empty>
    );
  }
  const request: LogsRequest = {
    ...(resource && {
      group: resource.group,
      kind: resource.kind,
      namespace: resource.namespace,
      resourceName: resource.name,
    }),
    ...(container && { container }),
    follow: !previous,
    previous,
    tail: TAIL,
    timestamps: false,
  };
  return (
    <div className="stack" style={{ padding: 14 }}>
      <div className="row" style={{ flexWrap: 'wrap' }}>
        <span>
          {resource ? (
            <>
              Pods of {resource.kind} <strong>{resource.name}</strong>
            </>
          ) : (
            'All pods of the application; select a resource in the tree to see only its pods'
          )}
        </span>
        <TextInput
          size="xs"
          aria-label="Container"
          placeholder="Default container"
          defaultValue={container}
          onKeyDown={(event) => event.key === 'Enter' && setContainer(event.currentTarget.value.trim())}
          onBlur={(event) => setContainer(event.currentTarget.value.trim())}
        />
        <Checkbox
          size="xs"
          label="Before the last restart"
          checked={previous}
          onChange={(event) => setPrevious(event.currentTarget.checked)}
        />
      </div>
      <PodLogs key={JSON.stringify(request)} {...{ reference, request }} />
    </div>
  );
}

type State = 'connecting' | 'live' | 'ended' | 'broken';

const STATES: Record<State, string> = {
  connecting: 'Loading log…',
  live: 'Live',
  ended: 'Complete',
  broken: 'Disconnected',
};

/** Keyed by the request: another one is another log. */
function PodLogs({ reference, request }: { reference: ApplicationRef; request: LogsRequest }) {
  const [buffer] = useState(() => new LogBuffer());
  const [state, setState] = useState<State>('connecting');
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    const stop = new AbortController();
    buffer.clear();
    const heard = {
      open: () => setState('live'),
      text: ({ pod, container, text }: { pod: string; container: string; text: string }) =>
        buffer.append(`${pod}/${container}`, text),
      failed: ({ pod, message }: { pod?: string; message: string }) =>
        setProblem(pod ? `${pod}: ${message}` : message),
    };
    appProxy
      .logs(reference, request, heard, stop.signal)
      .then((whole) => setState(whole ? 'ended' : 'broken'))
      .catch((error: unknown) => {
        if (stop.signal.aborted) return;
        setState('broken');
        setProblem(toFailure(error).message);
      });
    return () => stop.abort();
    // The key stands for the request.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [buffer]);
  return (
    <>
      {problem && (
        <p role="alert" style={{ color: 'var(--bad)' }}>
          {sentence(problem)}
        </p>
      )}
      <div style={{ height: '60vh', minHeight: 320 }}>
        <LogViewer
          buffer={buffer}
          order={[]}
          follow
          onPick={() => undefined}
          heading={(name, { folded, lines }) => (
            <span className="row" style={{ width: '100%' }}>
              {folded ? <ChevronRight /> : <ChevronDown />}
              <strong className="ellipsis">{name}</strong>
              <span className="muted nowrap" style={{ marginLeft: 'auto', fontSize: 12 }}>
                {counted(lines, 'line')}
              </span>
            </span>
          )}
          status={STATES[state]}
          empty={state === 'connecting' ? 'Loading log…' : 'No output yet.'}
        />
      </div>
    </>
  );
}
