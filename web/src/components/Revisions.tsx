import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useState } from 'react';
import { restoreRevision } from '../api/pipelineMutations';
import { revisionDiffQuery, revisionsQuery } from '../api/pipelineQueries';
import type { PipelineRevision } from '../api/types';
import { useChange } from '../hooks/useChange';
import { Confirm } from '../ui/Confirm';
import { Dialog } from '../ui/Dialog';
import { QueryView } from '../ui/States';
import { Ago } from '../ui/Time';
import { TableFrame } from '../ui/TableFrame';

const SideBySide = lazy(() => import('../ui/SideBySide').then((module) => ({ default: module.SideBySide })));
const SHOWN = 10;

/** The states that a pipeline had: who changed it when, what changed, and the way back. */
export function Revisions({ name }: { name: string }) {
  const revisions = useQuery(revisionsQuery(name));
  const [compared, compare] = useState<number>();
  const [back, goBack] = useState<number>();
  const renew = useChange(['pipelines']);
  return (
    <section className="panel" aria-labelledby="revisions">
      <header>
        <h2 id="revisions">Revisions</h2>
      </header>
      <QueryView query={revisions}>
        {(all) => (
          <TableFrame>
            <table className="data" aria-label="Revisions">
              <thead>
                <tr>
                  <th>Revision</th>
                  <th>By</th>
                  <th>When</th>
                  <th className="right">
                    <span className="muted">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {all.slice(0, SHOWN).map((revision, index) => (
                  <Row
                    key={revision.revision}
                    revision={revision}
                    current={index === 0}
                    onCompare={() => compare(revision.revision)}
                    onBack={() => goBack(revision.revision)}
                  />
                ))}
              </tbody>
            </table>
          </TableFrame>
        )}
      </QueryView>
      {compared !== undefined && (
        <Comparison name={name} revision={compared} onClose={() => compare(undefined)} />
      )}
      <Confirm
        opened={back !== undefined}
        onClose={() => goBack(undefined)}
        title={`Restore revision ${back}?`}
        verb="Restore"
        action={() => renew(restoreRevision(name, back ?? 0))}
      >
        It becomes a new revision; the current one stays in the list.
      </Confirm>
    </section>
  );
}

interface RowProps {
  revision: PipelineRevision;
  current: boolean;
  onCompare: () => void;
  onBack: () => void;
}

function Row({ revision, current, onCompare, onBack }: RowProps) {
  return (
    <tr>
      <td>
        {revision.revision} {current && <span className="muted">(current)</span>}
      </td>
      <td>{revision.author}</td>
      <td>
        <Ago at={revision.at} />
      </td>
      <td className="right">
        {revision.revision > 0 && (
          <Button variant="subtle" size="compact-sm" onClick={onCompare}>
            View changes
          </Button>
        )}
        {!current && (
          <Button variant="subtle" size="compact-sm" onClick={onBack}>
            Restore
          </Button>
        )}
      </td>
    </tr>
  );
}

function Comparison({ name, revision, onClose }: { name: string; revision: number; onClose: () => void }) {
  const diff = useQuery(revisionDiffQuery(name, revision - 1, revision));
  return (
    <Dialog onClose={onClose} size="90%" title={`Changes in revision ${revision}`}>
      <QueryView query={diff}>
        {({ before, after }) => (
          <Suspense fallback={null}>
            <SideBySide
              before={before}
              after={after}
              beforeLabel={`Revision ${revision - 1}`}
              afterLabel={`Revision ${revision}`}
            />
          </Suspense>
        )}
      </QueryView>
    </Dialog>
  );
}
