import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { rolloutsQuery } from '../api/queries';
import type { ListedRollout } from '../api/types';
import { rolloutTone } from '../components/tones';
import { DataTable } from '../ui/DataTable';
import { Ship } from '../ui/icons';
import { Page } from '../ui/Page';
import { Prose } from '../ui/Prose';
import { Empty, QueryView, sentence } from '../ui/States';
import { Status } from '../ui/Status';

export function RolloutsPage() {
  const rollouts = useQuery(rolloutsQuery);
  return (
    <Page
      title="Rollouts"
      documentTitle="Rollouts"
      subtitle="New versions that take over step by step. Those that wait for somebody come first."
    >
      <div className="panel">
        <QueryView
          query={rollouts}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No Rollouts yet" icon={<Ship />}>
                A Rollout among the manifests of an application is listed here.
              </Empty>
            )
          }
        >
          {(all) => <RolloutTable rollouts={all} />}
        </QueryView>
      </div>
    </Page>
  );
}

function RolloutTable({ rollouts }: { rollouts: ListedRollout[] }) {
  return (
    <DataTable
      label="Rollouts"
      heads={['Rollout', 'Phase', 'Waits for', 'Step', 'New version', 'Pods', 'Application', 'Runtime']}
    >
      {rollouts.map((one) => (
        <tr
          key={`${one.runtime}/${one.applicationNamespace}/${one.application}/${one.namespace}/${one.name}`}
        >
          <td className="nowrap">
            <Link
              to="/applications/$runtime/$namespace/$name/rollouts/$within/$rollout"
              params={{
                runtime: one.runtime,
                namespace: one.applicationNamespace,
                name: one.application,
                within: one.namespace,
                rollout: one.name,
              }}
            >
              {one.name}
            </Link>
            <div className="muted">{one.namespace}</div>
          </td>
          <td>
            <Status tone={rolloutTone(one.phase)}>{one.phase || 'Unknown'}</Status>
          </td>
          <td>
            {one.waiting ? <Prose>{sentence(one.waiting)}</Prose> : <span className="muted">nothing</span>}
          </td>
          <td className="nowrap">
            {one.steps > 0 ? `${one.step} of ${one.steps}` : <span className="muted">–</span>}
          </td>
          <td>
            <span className="mono">{one.images.join(', ')}</span>
            {one.weights && (
              <div className="muted">
                {one.weights.now} of {one.weights.most}
              </div>
            )}
          </td>
          <td className="nowrap">
            {one.available} of {one.desired}
          </td>
          <td>
            <Link
              to="/applications/$runtime/$namespace/$name"
              params={{ runtime: one.runtime, namespace: one.applicationNamespace, name: one.application }}
            >
              {one.application}
            </Link>
          </td>
          <td>{one.runtime}</td>
        </tr>
      ))}
    </DataTable>
  );
}
