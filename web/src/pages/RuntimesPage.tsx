import { Button } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { runnersQuery, runtimesQuery } from '../api/queries';
import type { Runner, Runtime, RuntimeToken } from '../api/types';
import { OnlineStatus } from '../components/badges';
import { RegisterRuntimeDialog, RuntimeTokenDialog } from '../components/RuntimeDialogs';
import { accessText, RuntimeState } from '../components/RuntimeState';
import { DataTable } from '../ui/DataTable';
import { Plus } from '../ui/icons';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Ago } from '../ui/Time';

export function RuntimesPage() {
  const runtimes = useQuery(runtimesQuery);
  const runners = useQuery(runnersQuery);
  const [registering, dialog] = useDisclosure();
  const [made, setMade] = useState<RuntimeToken>();
  return (
    <Page
      title="Runtimes & runners"
      documentTitle="Runtimes & runners"
      subtitle="Runtimes and runners connect to Slipway; no inbound access is needed."
      actions={
        <Button leftSection={<Plus />} onClick={dialog.open}>
          Register a runtime
        </Button>
      }
    >
      <section className="panel" aria-labelledby="runtimes">
        <header>
          <h2 id="runtimes">GitOps runtimes</h2>
        </header>
        <QueryView
          query={runtimes}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No runtimes yet">
                Register one: you get a command that connects a cluster, wherever it is.{' '}
                <code>slipway up</code> runs one in its own process.
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
      {registering && (
        <RegisterRuntimeDialog
          onClose={dialog.close}
          onRegistered={(token) => {
            dialog.close();
            setMade(token);
          }}
        />
      )}
      {made && <RuntimeTokenDialog made={made} onClose={() => setMade(undefined)} />}
    </Page>
  );
}

function RuntimeTable({ runtimes }: { runtimes: Runtime[] }) {
  return (
    <DataTable
      labelledBy="runtimes"
      heads={['Runtime', 'State', 'Access', 'Deploys to', 'Applications', 'Version', 'Last seen']}
    >
      {runtimes.map((runtime) => (
        <tr key={runtime.name}>
          <td>
            <Link to="/runtimes/$name" params={{ name: runtime.name }}>
              {runtime.name}
            </Link>
          </td>
          <td>
            <RuntimeState runtime={runtime} />
          </td>
          <td>{accessText(runtime)}</td>
          <td>{runtime.cluster || '–'}</td>
          <td>{runtime.applications}</td>
          <td className="mono">{runtime.version || '–'}</td>
          <td>
            <Ago at={runtime.lastSeen} />
          </td>
        </tr>
      ))}
    </DataTable>
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
