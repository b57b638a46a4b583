import { Button, SegmentedControl, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { runnersQuery, runtimesQuery } from '../api/queries';
import type { Runner, Runtime, RuntimeToken } from '../api/types';
import { OnlineStatus } from '../components/badges';
import { RegisterRuntimeDialog, RuntimeTokenDialog } from '../components/RuntimeDialogs';
import { RuntimeHealthState, Topology } from '../components/RuntimeHealth';
import styles from '../components/RuntimeHealth.module.css';
import { accessText, RuntimeState, VersionText } from '../components/RuntimeState';
import { fits, optionalColumns, typeText } from '../components/runtimeView';
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
          {(all) => <Runtimes runtimes={all} />}
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

type View = 'list' | 'topology';

function Runtimes({ runtimes }: { runtimes: Runtime[] }) {
  const [search, setSearch] = useState('');
  const [view, setView] = useState<View>('list');
  const shown = runtimes.filter((runtime) => fits(runtime, search));
  return (
    <>
      <div className="body row">
        <TextInput
          className={styles.search}
          aria-label="Search runtimes and clusters"
          placeholder="Search runtimes and clusters"
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
        />
        <SegmentedControl
          size="xs"
          aria-label="How to show the runtimes"
          value={view}
          onChange={(value) => setView(value === 'topology' ? 'topology' : 'list')}
          data={[
            { value: 'list', label: 'List' },
            { value: 'topology', label: 'Topology' },
          ]}
        />
      </div>
      {shown.length === 0 ? (
        <Empty title="No runtime fits">Search for another name.</Empty>
      ) : view === 'list' ? (
        <RuntimeTable runtimes={shown} />
      ) : (
        shown.map((runtime) => (
          <Topology key={runtime.name} runtime={runtime} title={<RuntimeLink name={runtime.name} />} />
        ))
      )}
    </>
  );
}

function RuntimeLink({ name }: { name: string }) {
  return (
    <Link to="/runtimes/$name" params={{ name }}>
      {name}
    </Link>
  );
}

function RuntimeTable({ runtimes }: { runtimes: Runtime[] }) {
  const columns = optionalColumns(runtimes);
  return (
    <DataTable
      labelledBy="runtimes"
      heads={[
        'Runtime',
        'State',
        'Health',
        ...(columns.type ? ['Type'] : []),
        ...(columns.modules ? ['Modules'] : []),
        'Access',
        'Deploys to',
        'Namespace',
        'Clusters',
        'Applications',
        'Version',
        'Last seen',
      ]}
    >
      {runtimes.map((runtime) => (
        <tr key={runtime.name}>
          <td>
            <RuntimeLink name={runtime.name} />
          </td>
          <td>
            <RuntimeState runtime={runtime} />
          </td>
          <td>
            <RuntimeHealthState runtime={runtime} />
          </td>
          {columns.type && <td title={runtime.chart || undefined}>{typeText(runtime) || '–'}</td>}
          {columns.modules && <td>{(runtime.modules ?? []).join(', ') || '–'}</td>}
          <td>{accessText(runtime)}</td>
          <td style={{ minWidth: '11rem' }}>{runtime.cluster || '–'}</td>
          <td>{runtime.namespace || '–'}</td>
          <td>{runtime.clusters?.length ?? 0}</td>
          <td>{runtime.applications}</td>
          <td>
            <VersionText runtime={runtime} />
          </td>
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
