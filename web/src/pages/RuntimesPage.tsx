import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { deleteRuntime } from '../api/mutations';
import { runnersQuery, runtimesQuery } from '../api/queries';
import type { Runner, Runtime } from '../api/types';
import { OnlineStatus } from '../components/badges';
import { useChange } from '../hooks/useChange';
import { Action } from '../ui/Action';
import { Confirm } from '../ui/Confirm';
import { DataTable } from '../ui/DataTable';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Ago } from '../ui/Time';
import { TableFrame } from '../ui/TableFrame';

export function RuntimesPage() {
  const runtimes = useQuery(runtimesQuery);
  const runners = useQuery(runnersQuery);
  return (
    <Page
      title="Runtimes & runners"
      documentTitle="Runtimes & runners"
      subtitle="Runtimes and runners connect to Slipway; no inbound access is needed."
    >
      <section className="panel" aria-labelledby="runtimes">
        <header>
          <h2 id="runtimes">GitOps runtimes</h2>
        </header>
        <QueryView
          query={runtimes}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No runtime is connected">
                <code>slipway up</code> runs one in its own process. A runtime elsewhere cannot be connected
                to this server yet; <code>slipway engine gitops</code> runs the engine on a cluster without
                it.
              </Empty>
            )
          }
        >
          {(all) => <RuntimeTable runtimes={all} />}
        </QueryView>
      </section>
      <section className="panel" aria-labelledby="runners">
        <header>
          <h2 id="runners">Build runners</h2>
        </header>
        <QueryView
          query={runners}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No runner is connected">
                Create a token with <code>slipway runner token</code> and start <code>slipway runner</code>{' '}
                with it; builds stay pending until then.
              </Empty>
            )
          }
        >
          {(all) => <RunnerTable runners={all} />}
        </QueryView>
      </section>
    </Page>
  );
}

function RuntimeTable({ runtimes }: { runtimes: Runtime[] }) {
  const [deleting, setDeleting] = useState<Runtime>();
  const change = useChange(['runtimes'], ['applications']);
  return (
    <TableFrame>
      <table className="data" aria-labelledby="runtimes">
        <thead>
          <tr>
            <th>Runtime</th>
            <th>State</th>
            <th>Deploys to</th>
            <th className="right">Applications</th>
            <th>Version</th>
            <th>Last seen</th>
            <th className="right">Actions</th>
          </tr>
        </thead>
        <tbody>
          {runtimes.map((runtime) => (
            <tr key={runtime.name}>
              <td>{runtime.name}</td>
              <td>
                <OnlineStatus online={runtime.online} />
              </td>
              <td>{runtime.cluster}</td>
              <td className="right">{runtime.applications}</td>
              <td className="mono">{runtime.version}</td>
              <td>
                <Ago at={runtime.lastSeen} />
              </td>
              <td className="right">
                <Action
                  size="compact-xs"
                  onClick={() => setDeleting(runtime)}
                  disabledReason={runtime.online ? 'Stop it first: it would report again.' : undefined}
                >
                  Delete
                </Action>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm
        opened={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        title={`Delete runtime ${deleting?.name ?? ''}?`}
        verb="Delete"
        danger
        action={() => change(deleteRuntime(deleting?.name ?? ''))}
      >
        Its key stops working and its applications are no longer shown. Nothing changes in its cluster.
      </Confirm>
    </TableFrame>
  );
}

function RunnerTable({ runners }: { runners: Runner[] }) {
  return (
    <DataTable labelledBy="runners" heads={['Runner', 'State', 'Runs steps with', 'Version', 'Last seen']}>
      {runners.map((runner) => (
        <tr key={runner.name}>
          <td>{runner.name}</td>
          <td>
            <OnlineStatus online={runner.online} />
          </td>
          <td>{runner.executor}</td>
          <td className="mono">{runner.version}</td>
          <td>
            <Ago at={runner.lastSeen} />
          </td>
        </tr>
      ))}
    </DataTable>
  );
}
