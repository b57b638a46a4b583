import { useQuery } from '@tanstack/react-query';
import { runnersQuery, runtimesQuery } from '../api/queries';
import type { Runner, Runtime } from '../api/types';
import { OnlineStatus } from '../components/badges';
import { DataTable } from '../ui/DataTable';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Ago } from '../ui/Time';

export function RuntimesPage() {
  const runtimes = useQuery(runtimesQuery);
  const runners = useQuery(runnersQuery);
  return (
    <Page
      title="Runtimes & runners"
      documentTitle="Runtimes & runners"
      subtitle="They dial Slipway; Slipway dials nobody."
    >
      <section className="panel" aria-labelledby="runtimes">
        <header>
          <h2 id="runtimes">GitOps runtimes</h2>
        </header>
        <QueryView
          query={runtimes}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No runtime has reported yet">
                Start one with <code>slipway runtime</code>; without it nothing is deployed.
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
              <Empty title="No runner has reported yet">
                Start one with <code>slipway runner</code>; builds stay pending until then.
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
  return (
    <div className="table-frame">
      <table className="data" aria-labelledby="runtimes">
        <thead>
          <tr>
            <th>Runtime</th>
            <th>State</th>
            <th>Deploys to</th>
            <th className="right">Applications</th>
            <th>Version</th>
            <th>Last seen</th>
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
            </tr>
          ))}
        </tbody>
      </table>
    </div>
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
