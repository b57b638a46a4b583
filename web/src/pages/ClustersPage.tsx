import { Button, Select } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { clustersQuery, runtimesQuery } from '../api/queries';
import type { ManagedCluster } from '../api/types';
import { CopyText } from '../ui/CopyText';
import { DataTable } from '../ui/DataTable';
import { Dialog } from '../ui/Dialog';
import { Plus, Server } from '../ui/icons';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Status, type Tone } from '../ui/Status';
import { Ago } from '../ui/Time';
import { shellWord } from '../ui/shellWord';

const STATES: Record<string, Tone> = { Successful: 'ok', Failed: 'bad', Unknown: 'wait' };

export function ClustersPage() {
  const clusters = useQuery(clustersQuery);
  const [adding, dialog] = useDisclosure();
  const [leaving, setLeaving] = useState<ManagedCluster>();
  return (
    <Page
      title="Clusters"
      documentTitle="Clusters"
      subtitle="Where runtimes deploy to. A runtime reaches its clusters; Slipway itself has no access to them."
      actions={
        <Button leftSection={<Plus />} onClick={dialog.open}>
          Add a cluster
        </Button>
      }
    >
      <div className="panel">
        <QueryView
          query={clusters}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No clusters yet" icon={<Server />}>
                A runtime reports the cluster that it is in as soon as it is connected.
              </Empty>
            )
          }
        >
          {(all) => <ClusterTable clusters={all} onRemove={setLeaving} />}
        </QueryView>
      </div>
      {adding && <AddDialog onClose={dialog.close} />}
      {leaving && <RemoveDialog cluster={leaving} onClose={() => setLeaving(undefined)} />}
    </Page>
  );
}

interface TableProps {
  clusters: ManagedCluster[];
  onRemove: (cluster: ManagedCluster) => void;
}

function ClusterTable({ clusters, onRemove }: TableProps) {
  return (
    <DataTable
      label="Clusters"
      heads={['Cluster', 'State', 'Since', 'Runtime', 'Applications', 'Kubernetes', 'Address', 'Actions']}
    >
      {clusters.map((cluster) => (
        <tr key={`${cluster.runtime}/${cluster.name}/${cluster.server}`}>
          <td className="nowrap">{cluster.name}</td>
          <td>
            <Status tone={STATES[cluster.state] ?? 'wait'}>{cluster.state}</Status>
            {cluster.message && <div className="muted">{cluster.message}</div>}
          </td>
          <td className="nowrap">
            <Ago at={cluster.since} />
          </td>
          <td>
            <Link to="/runtimes/$name" params={{ name: cluster.runtime }}>
              {cluster.runtime}
            </Link>
          </td>
          <td>{cluster.applications}</td>
          <td className="mono">{cluster.serverVersion || '–'}</td>
          <td className="mono">{cluster.server || '–'}</td>
          <td>
            {cluster.isOwn ? (
              <span className="muted">its own</span>
            ) : (
              <Button size="compact-sm" variant="default" onClick={() => onRemove(cluster)}>
                Remove
              </Button>
            )}
          </td>
        </tr>
      ))}
    </DataTable>
  );
}

/** With the person's own kubeconfig: the platform has none. */
function AddDialog({ onClose }: { onClose: () => void }) {
  const runtimes = useQuery(runtimesQuery);
  const names = (runtimes.data ?? []).map(({ name }) => name);
  const [chosen, setChosen] = useState<string | null>(null);
  const runtime = chosen ?? names[0];
  return (
    <Dialog onClose={onClose} title="Add a cluster" size="lg">
      <div className="stack">
        <p>
          Run this where your kubeconfig is. It makes an account in the cluster of that context and gives its
          token to the runtime, which tries it and keeps it in its own cluster.
        </p>
        {names.length > 1 && (
          <Select
            label="Runtime"
            data={names}
            value={runtime ?? null}
            onChange={setChosen}
            allowDeselect={false}
          />
        )}
        {runtime ? (
          <>
            <CopyText text={`slipway cluster add ${shellWord(runtime)} --context CONTEXT`} what="command" />
            <p className="muted">
              With <code>--dry-run</code> it prints the manifests and changes nothing. The runtime has to
              reach the cluster&rsquo;s API; <code>--server</code> names another address than your kubeconfig
              has.
            </p>
          </>
        ) : (
          <p role="status">Register a runtime first: it is what deploys.</p>
        )}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button onClick={onClose}>Done</Button>
        </div>
      </div>
    </Dialog>
  );
}

function RemoveDialog({ cluster, onClose }: { cluster: ManagedCluster; onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title={`Remove cluster ${cluster.name}`} size="lg">
      <div className="stack">
        <p>
          What runs there stays, and nobody looks after it any more.
          {cluster.applications > 0 &&
            ` ${cluster.applications} Applications still go there: delete or move them first, or add --force.`}
        </p>
        <CopyText
          text={`slipway cluster remove ${shellWord(cluster.name)} --runtime ${shellWord(cluster.runtime)} --context CONTEXT`}
          what="command"
        />
        <p className="muted">
          With <code>--context</code>, the account that was made in the cluster is removed too.
        </p>
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button onClick={onClose}>Done</Button>
        </div>
      </div>
    </Dialog>
  );
}
