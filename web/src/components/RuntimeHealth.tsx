import { Button } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { tryReach, type Reached } from '../api/reach';
import type { Component, Connectivity, ManagedCluster, Runtime, RuntimeDetail } from '../api/types';
import { DataTable } from '../ui/DataTable';
import { Empty } from '../ui/States';
import { Status, type Tone } from '../ui/Status';
import { Ago } from '../ui/Time';
import { statusBoxes } from './runtimeView';
import styles from './RuntimeHealth.module.css';

const HEALTH: Record<string, [Tone, string]> = {
  healthy: ['ok', 'Healthy'],
  degraded: ['warn', 'Degraded'],
  unreachable: ['bad', 'Unreachable'],
  unknown: ['wait', 'Unknown'],
};

export function RuntimeHealthState({ runtime }: { runtime: Runtime }) {
  const [tone, text] = HEALTH[runtime.health ?? ''] ?? ['wait', 'Unknown'];
  const reasons = runtime.healthReasons ?? [];
  return (
    <Status tone={tone} title={reasons.join('\n') || undefined}>
      {text}
    </Status>
  );
}

/** Why it is not healthy, as the platform says. */
export function HealthReasons({ runtime }: { runtime: Runtime }) {
  const reasons = runtime.healthReasons ?? [];
  if (reasons.length === 0) return null;
  return (
    <ul className={styles.reasons} aria-label="Why">
      {reasons.map((reason) => (
        <li key={reason}>{reason}</li>
      ))}
    </ul>
  );
}

const CLUSTER: Record<string, Tone> = { Successful: 'ok', Failed: 'bad', Unknown: 'wait' };
const COMPONENT: Record<string, [Tone, string]> = {
  healthy: ['ok', 'Healthy'],
  degraded: ['warn', 'Degraded'],
  off: ['off', 'Off'],
};
const WAY: Record<string, [Tone, string]> = {
  connected: ['ok', 'Connected'],
  unreachable: ['bad', 'Unreachable'],
  silent: ['warn', 'Silent'],
  never: ['wait', 'Never'],
  'not-known': ['wait', 'Not known'],
};

/** A runtime and the clusters that it deploys to, with a line to each. */
export function Topology({ runtime, title }: { runtime: Runtime; title: ReactNode }) {
  const clusters = runtime.clusters ?? [];
  return (
    <div className={styles.topology}>
      <div className={styles.box} data-tone={(HEALTH[runtime.health ?? ''] ?? ['wait'])[0]}>
        <strong>{title}</strong>
        <RuntimeHealthState runtime={runtime} />
      </div>
      {clusters.length === 0 ? (
        <span className="muted">No cluster is known yet.</span>
      ) : (
        <ul className={styles.clusters} aria-label={`Clusters of ${runtime.name}`}>
          {clusters.map((cluster) => (
            <ClusterBox key={`${cluster.name} ${cluster.server}`} cluster={cluster} />
          ))}
        </ul>
      )}
    </div>
  );
}

/** The same on the page of one runtime. */
export function ClustersPanel({ runtime }: { runtime: Runtime }) {
  return (
    <section className="panel" aria-labelledby="topology">
      <header>
        <h2 id="topology">Clusters</h2>
      </header>
      {(runtime.clusters ?? []).length === 0 ? (
        <Empty title="No cluster is known">
          The runtime says which ones it deploys to when it has connected.
        </Empty>
      ) : (
        <Topology runtime={runtime} title={runtime.name} />
      )}
    </section>
  );
}

/** How each part of it stands, each with the way to where more is said. */
export function StatusPanel({ runtime }: { runtime: RuntimeDetail }) {
  return (
    <ul className={styles.summary} aria-label="Status">
      {statusBoxes(runtime).map(({ name, target, tone, text }) => (
        <li key={name} className={styles.box} data-tone={tone}>
          <a href={`#${target}`}>{name}</a>
          <Status tone={tone} plain>
            {text}
          </Status>
        </li>
      ))}
    </ul>
  );
}

function ClusterBox({ cluster }: { cluster: ManagedCluster }) {
  const { applications, state } = cluster;
  return (
    <li className={styles.box} data-tone={CLUSTER[state] ?? 'wait'}>
      <strong>{cluster.name}</strong>
      <Status tone={CLUSTER[state] ?? 'wait'} plain>
        {state}
      </Status>
      <span>
        {applications === 1 ? '1 application' : `${applications} applications`}
        {cluster.serverVersion ? `, Kubernetes ${cluster.serverVersion}` : ''}
      </span>
      {cluster.server && <span className="mono">{cluster.server}</span>}
      {cluster.message && <span>{cluster.message}</span>}
      {cluster.since && (
        <span>
          since <Ago at={cluster.since} />
        </span>
      )}
    </li>
  );
}

/** The ways between platform and runtime; the one from this browser is tried here, because only the browser can tell. */
export function ConnectivityPanel({ runtime }: { runtime: RuntimeDetail }) {
  const [reached, setReached] = useState<Reached>();
  const [trying, setTrying] = useState(false);
  const url = runtime.url ?? '';
  const attempt = async () => {
    setTrying(true);
    setReached(await tryReach(url));
    setTrying(false);
  };
  return (
    <section className="panel" aria-labelledby="connectivity">
      <header>
        <h2 id="connectivity">Connectivity</h2>
        <Button size="compact-sm" variant="default" onClick={() => void attempt()} loading={trying}>
          Try from this browser
        </Button>
      </header>
      <DataTable labelledBy="connectivity" heads={['Way', 'State', 'Last activity', 'What it means']}>
        {(runtime.connectivity ?? []).map((way) => (
          <WayRow key={way.name} way={way} />
        ))}
        {reached && <BrowserRow reached={reached} url={url} />}
      </DataTable>
    </section>
  );
}

function WayRow({ way }: { way: Connectivity }) {
  const [tone, text] = WAY[way.state] ?? ['wait', way.state];
  return (
    <tr>
      <td>{way.name}</td>
      <td>
        <Status tone={tone} plain>
          {text}
        </Status>
      </td>
      <td>{way.lastActivity ? <Ago at={way.lastActivity} /> : '–'}</td>
      <td>{way.message}</td>
    </tr>
  );
}

function BrowserRow({ reached, url }: { reached: Reached; url: string }) {
  const tone: Tone = reached.state === 'unreached' ? 'bad' : 'ok';
  return (
    <tr>
      <td>this browser → app-proxy</td>
      <td>
        <Status tone={tone} plain>
          {reached.state === 'unreached' ? 'Unreachable' : 'Connected'}
        </Status>
      </td>
      <td>now</td>
      <td>{browserText(reached, url)}</td>
    </tr>
  );
}

function browserText(reached: Reached, url: string): string {
  if (reached.state === 'through-platform') return 'through this platform, which has the tunnel';
  if (reached.state === 'reached') return `${url} answered within ${reached.ms} ms`;
  return reached.why;
}

export function ComponentsPanel({ components }: { components: Component[] }) {
  return (
    <section className="panel" aria-labelledby="components">
      <header>
        <h2 id="components">Components</h2>
      </header>
      {components.length === 0 ? (
        <Empty title="Nothing is known of its components">It says so with its reports.</Empty>
      ) : (
        <DataTable labelledBy="components" heads={['Component', 'State', 'Process', 'Last activity', 'Why']}>
          {components.map((component) => {
            const [tone, text] = COMPONENT[component.state ?? ''] ?? ['wait', component.state ?? 'Unknown'];
            return (
              <tr key={`${component.replica} ${component.name}`}>
                <td>{component.name}</td>
                <td>
                  <Status tone={tone} plain>
                    {text}
                  </Status>
                </td>
                <td className="mono">{component.replica || '–'}</td>
                <td>{component.lastActivity ? <Ago at={component.lastActivity} /> : '–'}</td>
                <td>{component.message || '–'}</td>
              </tr>
            );
          })}
        </DataTable>
      )}
    </section>
  );
}
