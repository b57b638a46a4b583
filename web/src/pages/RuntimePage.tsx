import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { deleteRuntime, renewRuntimeToken, revokeRuntimeToken } from '../api/mutations';
import { runtimeQuery } from '../api/queries';
import type { RuntimeDetail, RuntimeToken } from '../api/types';
import { RenameRuntimeDialog, RuntimeTokenDialog } from '../components/RuntimeDialogs';
import {
  ClustersPanel,
  ComponentsPanel,
  ConnectivityPanel,
  HealthReasons,
  RuntimeHealthState,
  StatusPanel,
} from '../components/RuntimeHealth';
import { accessText, RuntimeState, VersionText } from '../components/RuntimeState';
import { RuntimeLogPanel } from '../components/RuntimeLogPanel';
import { bytesText, typeText } from '../components/runtimeView';
import { useChange } from '../hooks/useChange';
import { Action } from '../ui/Action';
import { Confirm } from '../ui/Confirm';
import { DataTable } from '../ui/DataTable';
import { Page } from '../ui/Page';
import { Properties, Property } from '../ui/Properties';
import { Empty, QueryView } from '../ui/States';
import { Ago } from '../ui/Time';

const route = getRouteApi('/signed-in/runtimes/$name');

export function RuntimePage() {
  const { name } = route.useParams();
  const runtime = useQuery(runtimeQuery(name));
  return (
    <Page
      title={name}
      documentTitle={`Runtime ${name}`}
      subtitle="A GitOps runtime: its cluster, how it is connected, and its token."
      actions={runtime.data && <RuntimeActions runtime={runtime.data} />}
    >
      <QueryView query={runtime}>{(data) => <RuntimeFacts runtime={data} />}</QueryView>
    </Page>
  );
}

type Asking = 'rename' | 'token' | 'revoke' | 'delete' | undefined;

function RuntimeActions({ runtime }: { runtime: RuntimeDetail }) {
  const { name } = runtime;
  const navigate = route.useNavigate();
  const change = useChange(['runtimes'], ['applications']);
  const [asking, setAsking] = useState<Asking>();
  const [made, setMade] = useState<RuntimeToken>();
  const close = () => setAsking(undefined);
  return (
    <>
      <Action onClick={() => setAsking('rename')}>Rename</Action>
      <Action onClick={() => setAsking('token')}>New token</Action>
      <Action
        onClick={() => setAsking('revoke')}
        disabledReason={runtime.state === 'revoked' ? 'Its token is revoked already.' : undefined}
      >
        Revoke token
      </Action>
      <Action onClick={() => setAsking('delete')}>Delete</Action>
      {asking === 'rename' && (
        <RenameRuntimeDialog
          name={name}
          onClose={close}
          onRenamed={(renamed) => void navigate({ to: '/runtimes/$name', params: { name: renamed } })}
        />
      )}
      <Confirm
        opened={asking === 'token'}
        onClose={close}
        title={`New token for runtime ${name}?`}
        verb="Create token"
        action={async () => setMade(await change(renewRuntimeToken(name)))}
      >
        The old token stops working at once; the runtime is offline until it has the new one.
      </Confirm>
      <Confirm
        opened={asking === 'revoke'}
        onClose={close}
        title={`Revoke the token of runtime ${name}?`}
        verb="Revoke"
        danger
        action={() => change(revokeRuntimeToken(name))}
      >
        Its connections end at once. Engines in its cluster go on; nothing is reported and nothing can be
        asked of it.
      </Confirm>
      <Confirm
        opened={asking === 'delete'}
        onClose={close}
        title={`Delete runtime ${name}?`}
        verb="Delete"
        danger
        action={async () => {
          await change(deleteRuntime(name));
          void navigate({ to: '/runtimes' });
        }}
      >
        Its token stops working and its applications are no longer shown. Nothing changes in its cluster.
      </Confirm>
      {made && <RuntimeTokenDialog made={made} onClose={() => setMade(undefined)} />}
    </>
  );
}

function RuntimeFacts({ runtime }: { runtime: RuntimeDetail }) {
  return (
    <>
      <StatusPanel runtime={runtime} />
      <section className="panel" aria-label="Facts">
        <div className="body">
          <Properties>
            <Property name="State">
              <RuntimeState runtime={runtime} />
            </Property>
            <Property name="Health">
              <RuntimeHealthState runtime={runtime} />
              <HealthReasons runtime={runtime} />
            </Property>
            <Property name="Access">{accessText(runtime)}</Property>
            <Property name="Deploys to">{runtime.cluster || '–'}</Property>
            <Property name="Namespace">{runtime.namespace || '–'}</Property>
            {typeText(runtime) && (
              <Property name="Type">
                {typeText(runtime)}
                {runtime.chart ? `, ${runtime.chart}` : ''}
              </Property>
            )}
            {(runtime.modules ?? []).length > 0 && (
              <Property name="Modules">{(runtime.modules ?? []).join(', ')}</Property>
            )}
            <Property name="Version">
              <VersionText runtime={runtime} />
            </Property>
            <Property name="Last seen">
              <Ago at={runtime.lastSeen} />
            </Property>
            <Property name="Registered">
              <Ago at={runtime.created} />
            </Property>
            <Property name="Applications">
              <Link to="/applications" search={{ runtime: runtime.name }}>
                {runtime.applications}
              </Link>
            </Property>
            <Property name="Your Git access">
              <Link to="/runtimes/$name/git" params={{ name: runtime.name }}>
                Tokens and sign-ins
              </Link>
            </Property>
            <Property name="Allowed networks">
              {runtime.allowedAddresses.length > 0 ? runtime.allowedAddresses.join(', ') : 'All'}
            </Property>
          </Properties>
        </div>
      </section>
      <ClustersPanel runtime={runtime} />
      <ConnectivityPanel runtime={runtime} />
      <ComponentsPanel components={runtime.components ?? []} />
      <RuntimeLogPanel runtime={runtime.name} />
      <section className="panel" aria-labelledby="tunnels">
        <header>
          <h2 id="tunnels">Tunnels</h2>
        </header>
        {runtime.sessions.length === 0 ? (
          <Empty
            title={runtime.accessMode === 'ingress' ? 'It is reached by its ingress' : 'No tunnel to show'}
          >
            {whyNoTunnel(runtime)}
          </Empty>
        ) : (
          <DataTable
            labelledBy="tunnels"
            heads={['From', 'Open since', 'In flight', 'Answered', 'Received', 'Sent']}
          >
            {runtime.sessions.map((session) => (
              <tr key={`${session.peer} ${session.since}`}>
                <td className="mono">{session.peer}</td>
                <td>
                  <Ago at={session.since} />
                </td>
                <td>{session.inFlight}</td>
                <td>{session.served}</td>
                <td>{bytesText(session.receivedBytes)}</td>
                <td>{bytesText(session.sentBytes)}</td>
              </tr>
            ))}
          </DataTable>
        )}
      </section>
    </>
  );
}

function whyNoTunnel(runtime: RuntimeDetail): string {
  if (runtime.accessMode === 'ingress') return `Browsers and CLIs ask it at ${runtime.ingressUrl}.`;
  if ((runtime.tunnels ?? 0) > 0) return 'A tunnel is open; where it comes from is shown to Administrators.';
  if (runtime.state === 'never-connected')
    return 'Start it where its cluster is; “New token” shows the command again.';
  if (runtime.state === 'revoked') return 'Its token is revoked: give it a new one.';
  return 'Start the runtime, and check that it reaches this platform; its log says why it does not.';
}
