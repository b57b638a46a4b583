import type { Rollout } from '../../api/types';
import { DataTable } from '../../ui/DataTable';
import { Ago } from '../../ui/Time';

/** Versions with their images, newest first. Going back to one is a commit, or a rollback of the application. */
export function RolloutRevisions({ rollout }: { rollout: Rollout }) {
  const revisions = rollout.revisions ?? [];
  return (
    <div className="panel">
      <header>
        <h2>Revisions</h2>
      </header>
      {revisions.length === 0 ? (
        <p className="body muted">It has no version yet.</p>
      ) : (
        <DataTable label="Revisions" heads={['#', 'Images', 'Role', 'Pods', 'Made', 'ReplicaSet']}>
          {revisions.map((one) => (
            <tr key={one.name}>
              <td className="muted">{one.revision}</td>
              <td className="mono">{one.images.join(', ')}</td>
              <td>{one.roles.join(', ') || <span className="muted">–</span>}</td>
              <td className="nowrap">
                {one.available} of {one.desired} available
                {one.leaves && (
                  <div className="muted">
                    leaves <Ago at={one.leaves} />
                  </div>
                )}
              </td>
              <td>
                <Ago at={one.created} />
              </td>
              <td className="mono">{one.name}</td>
            </tr>
          ))}
        </DataTable>
      )}
    </div>
  );
}
