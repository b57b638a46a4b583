import { Button, Checkbox } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { appProxy } from '../api/appProxy';
import { eachOf, type Outcome } from '../api/several';
import type { ApplicationRow } from '../api/types';
import { counted } from '../ui/counted';
import { DataTable } from '../ui/DataTable';
import { Dialog } from '../ui/Dialog';
import { sentence, toFailure } from '../ui/States';
import { Status, type Tone } from '../ui/Status';
import { keyOf } from './ApplicationTable';

export type Order = 'sync' | 'refresh';

const VERBS: Record<Order, { name: string; past: string }> = {
  sync: { name: 'Sync', past: 'The sync was asked for' },
  refresh: { name: 'Refresh', past: 'The refresh was asked for' },
};

const TONES: Record<Outcome['state'], Tone> = { waiting: 'queue', running: 'run', done: 'ok', failed: 'bad' };

interface SeveralDialogProps {
  applications: ApplicationRow[];
  order: Order;
  /** With those that nothing was asked for. */
  onClose: (left: ApplicationRow[]) => void;
}

/** The same for several applications. Each is asked of its own runtime, by its own right, and says how that went. */
export function SeveralDialog({ applications, order, onClose }: SeveralDialogProps) {
  const [outcomes, setOutcomes] = useState<Outcome[]>();
  const [ended, setEnded] = useState(false);
  const [prune, setPrune] = useState(false);
  // What is under way ends, the rest does not begin; the dialog stays and says which are which.
  const stop = useRef<AbortController>(undefined);
  const [stopped, setStopped] = useState(false);
  useEffect(() => () => stop.current?.abort(), []);
  const queryClient = useQueryClient();
  const { name } = VERBS[order];
  const ask = (one: ApplicationRow) =>
    order === 'sync' ? appProxy.sync(one, { prune, dryRun: false, force: false }) : appProxy.refresh(one);
  const run = async () => {
    setOutcomes(applications.map(() => ({ state: 'waiting' })));
    const heard = (index: number, outcome: Outcome) =>
      setOutcomes((before) => before?.map((old, at) => (at === index ? outcome : old)));
    stop.current = new AbortController();
    await eachOf(applications, ask, heard, stop.current.signal);
    setEnded(true);
    await queryClient.invalidateQueries({ queryKey: ['applications'] });
  };
  const running = outcomes !== undefined && !ended;
  const close = () => {
    if (!running)
      return onClose(applications.filter((_, at) => (outcomes?.[at]?.state ?? 'waiting') === 'waiting'));
    stop.current?.abort();
    setStopped(true);
  };
  const counts = (state: Outcome['state']) => outcomes?.filter((one) => one.state === state).length ?? 0;
  const [failed, left] = [counts('failed'), counts('waiting')];
  const title = `${name} ${counted(applications.length, 'application')}`;
  return (
    <Dialog onClose={close} title={title} size="lg" closeOnClickOutside={!running}>
      <div className="stack">
        {!outcomes && order === 'sync' && (
          <Checkbox
            label="Prune: delete what is no longer in Git"
            checked={prune}
            onChange={(event) => setPrune(event.currentTarget.checked)}
          />
        )}
        {!outcomes && prune && (
          <p role="alert" style={{ color: 'var(--bad)' }}>
            Objects that Git does not declare any more are deleted in all of them. What those are, the plan of
            each application says.
          </p>
        )}
        <div style={{ maxHeight: '50dvh', overflow: 'auto' }}>
          <DataTable label="Chosen applications" heads={['Application', 'Runtime', 'Outcome']}>
            {applications.map((one, index) => (
              <tr key={keyOf(one)}>
                <td>
                  {one.name}
                  <div className="muted" style={{ fontSize: 12 }}>
                    {one.namespace}
                  </div>
                </td>
                <td>{one.runtime}</td>
                <td>
                  <Said outcome={outcomes?.[index]} order={order} ended={ended} />
                </td>
              </tr>
            ))}
          </DataTable>
        </div>
        {ended && (
          <p role="status">
            {failed === 0 && left === 0
              ? `Asked for all ${applications.length}; the list shows how they fare.`
              : [
                  failed > 0 ? `${failed} of ${applications.length} failed.` : '',
                  left > 0 ? `${left} of ${applications.length} were not asked.` : '',
                ].join(' ')}
          </p>
        )}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" loading={stopped && !ended} onClick={close}>
            {ended ? 'Close' : running ? 'Stop' : 'Cancel'}
          </Button>
          {!ended && (
            <Button loading={running} onClick={() => void run()} {...(prune ? { color: 'red' } : {})}>
              {name}
            </Button>
          )}
        </div>
      </div>
    </Dialog>
  );
}

function Said({ outcome, order, ended }: { outcome: Outcome | undefined; order: Order; ended: boolean }) {
  if (!outcome) return <span className="muted">–</span>;
  const words = {
    waiting: ended ? 'Not asked' : 'Waiting',
    running: 'Asking…',
    done: VERBS[order].past,
    failed: outcome.state === 'failed' ? sentence(toFailure(outcome.error).message) : '',
  };
  return (
    <Status plain tone={TONES[outcome.state]}>
      {words[outcome.state]}
    </Status>
  );
}
