import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { useQueryClient } from '@tanstack/react-query';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import type { Application, Deployment } from '../../api/types';
import { Action } from '../../ui/Action';
import { Confirm } from '../../ui/Confirm';
import { Clock, Undo } from '../../ui/icons';
import { Empty, sentence } from '../../ui/States';
import { Ago, Elapsed } from '../../ui/Time';
import { CommitLine } from '../CommitLine';
import { TableFrame } from '../../ui/TableFrame';
import { RollbackChanges } from './RollbackChanges';
import { reasonOf, replacedIn } from './releases';

interface HistoryTabProps {
  application: Application;
  reference: ApplicationRef;
  disabledReason: string | undefined;
}

/** What was deployed, newest first, and the way back to it. */
export function HistoryTab({ application, reference, disabledReason }: HistoryTabProps) {
  const [chosen, setChosen] = useState<Deployment>();
  const queryClient = useQueryClient();
  const history = (application.history ?? []).toSorted((a, b) => b.id - a.id);
  if (history.length === 0) {
    return (
      <Empty title="Nothing deployed yet" icon={<Clock />}>
        Every successful sync is listed here.
      </Empty>
    );
  }
  return (
    <TableFrame>
      <table className="data" aria-label="Deployments">
        <thead>
          <tr>
            <th className="right">#</th>
            <th>Commit</th>
            <th>Images</th>
            <th>Deployed</th>
            <th className="right">Duration</th>
            <th>By</th>
            <th className="right">Actions</th>
          </tr>
        </thead>
        <tbody>
          {history.map((deployment, index) => (
            <tr key={deployment.id} aria-current={index === 0 || undefined}>
              <td className="right muted">{deployment.id}</td>
              <td style={{ maxWidth: 460 }}>
                <CommitLine {...deployment.revision} copy />
              </td>
              <td>
                <Images deployment={deployment} />
              </td>
              <td>
                <Ago at={deployment.deployedAt} />
              </td>
              <td className="right">
                <Elapsed from={deployment.startedAt} to={deployment.deployedAt} />
              </td>
              <td>
                {deployment.initiatedBy}
                <div className="muted" style={{ fontSize: 12 }}>
                  {reasonOf(deployment)}
                </div>
              </td>
              <td className="right">
                {index === 0 ? (
                  <span className="muted">Current</span>
                ) : (
                  <Action
                    size="compact-xs"
                    leftSection={<Undo />}
                    disabledReason={disabledReason}
                    onClick={() => setChosen(deployment)}
                  >
                    Roll back
                  </Action>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm
        opened={chosen !== undefined}
        onClose={() => setChosen(undefined)}
        title={`Roll ${application.name} back?`}
        verb="Roll back"
        danger
        wide
        action={async () => {
          if (!chosen) return;
          const { message } = await appProxy.rollback(reference, chosen.id);
          notifications.show({ message: sentence(message) });
          await queryClient.invalidateQueries({ queryKey: ['applications'] });
        }}
      >
        <p>
          The cluster is rolled back to deployment {chosen?.id}, commit{' '}
          <code>{chosen?.revision.sha.slice(0, 8)}</code>. Git does not change, so the application will be out
          of sync.
        </p>
        {application.automated && (
          <p style={{ marginTop: 8 }}>
            Automatic sync is turned off, so that the older version stays. You can turn it on again under Sync
            policy.
          </p>
        )}
        {chosen && <RollbackChanges reference={reference} deployment={chosen.id} />}
      </Confirm>
    </TableFrame>
  );
}

/** What it brought, as far as it is known what was there before; else what was applied. */
function Images({ deployment }: { deployment: Deployment }) {
  const replaced = replacedIn(deployment);
  if (replaced.length === 0) {
    const count = (deployment.images ?? []).length;
    return (
      <span className="muted" title={(deployment.images ?? []).join('\n')}>
        {count > 0 && (count === 1 ? '1 image' : `${count} images`)}
      </span>
    );
  }
  return replaced.map(({ name, image, before, after }) => (
    <div key={image} title={image} style={{ fontSize: 12 }}>
      {name} {before && <code>{before}</code>} {before && '→'} <code>{after}</code>
    </div>
  ));
}
