import { Button, CloseButton } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { lazy, Suspense, useEffect, useRef } from 'react';
import { mayQuery } from '../../api/queries';
import { load } from '../../page';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import type { Explanation, ResourceNode, Rollout } from '../../api/types';
import { Action } from '../../ui/Action';
import { Confirm } from '../../ui/Confirm';
import { CopyIcon } from '../../ui/CopyText';
import { Prose } from '../../ui/Prose';
import { sentence } from '../../ui/States';
import { Properties, Property } from '../../ui/Properties';
import { shellWord } from '../../ui/shellWord';
import { HealthStatus, SyncStatus } from '../badges';
import { RolloutBrief } from '../rollout/RolloutBrief';
import { ResourceActions } from './ResourceActions';
import { ResourceEvents } from './ResourceEvents';

interface ResourceDetailsProps {
  resource: ResourceNode;
  /** Where it is one. */
  rollout: Rollout | undefined;
  reference: ApplicationRef;
  /** Why nothing can be asked of the runtime now. */
  disabledReason: string | undefined;
  onClose: () => void;
  onLogs: () => void;
}

const ResourceManifest = lazy(async () => ({
  default: (await load(() => import('./ResourceManifest'))).ResourceManifest,
}));

const PodTerminal = lazy(async () => ({ default: (await load(() => import('./PodTerminal'))).PodTerminal }));

/** Why a terminal cannot be opened; nothing when it can, or nobody knows yet. */
function whyNot(may: UseQueryResult<Explanation>): string | undefined {
  if (may.isPending) return 'Looking whether you may…';
  return may.data && !may.data.allowed ? sentence(may.data.reason) : undefined;
}

/** Kinds that have pods, or are one. */
const WITH_PODS = new Set([
  'CronJob',
  'DaemonSet',
  'Deployment',
  'Job',
  'Pod',
  'ReplicaSet',
  'ReplicationController',
  'Rollout',
  'StatefulSet',
]);

/** Everything that is known of one resource, and what can be done to it. */
export function ResourceDetails(props: ResourceDetailsProps) {
  const { resource, rollout, reference, disabledReason, onClose, onLogs } = props;
  const [deleting, deleteDialog] = useDisclosure();
  const [terminal, terminalDialog] = useDisclosure();
  const [manifest, manifestDialog] = useDisclosure();
  const isPod = resource.kind === 'Pod' && resource.group === '';
  const may = useQuery({ ...mayQuery('EXEC_TO_POD', reference), enabled: isPod && Boolean(resource.uid) });
  const panel = useRef<HTMLElement>(null);
  // On a narrow screen they are below the tree, out of sight.
  useEffect(() => panel.current?.scrollIntoView({ block: 'nearest' }), []);
  const { group, version, kind, namespace, name } = resource;
  const of = { group, kind, namespace, resourceName: name };
  const inNamespace = namespace ? `-n ${shellWord(namespace)} ` : '';
  const command = `kubectl ${inNamespace}get ${shellWord(kind.toLowerCase())} ${shellWord(name)} -o yaml`;
  return (
    <section className="panel" ref={panel} aria-label={`${kind} ${name}`}>
      <header>
        <h2 className="ellipsis">
          {kind} {name}
        </h2>
        <CloseButton size="sm" aria-label="Close the details" onClick={onClose} />
      </header>
      <div className="body stack">
        <span className="row">
          {resource.status && <SyncStatus status={resource.status} />}
          {resource.health && <HealthStatus status={resource.health} />}
        </span>
        {resource.healthMessage && (
          <p>
            <Prose>{sentence(resource.healthMessage)}</Prose>
          </p>
        )}
        {rollout && <RolloutBrief {...{ rollout, reference }} />}
        {resource.requiresPruning && <p>It is no longer in Git; a sync with pruning deletes it.</p>}
        <Properties>
          {resource.info && <Property name="Details">{resource.info}</Property>}
          <Property name="API version">{group ? `${group}/${version}` : version}</Property>
          <Property name="Namespace">{namespace || 'none (cluster-wide)'}</Property>
          {resource.uid && <Property name="UID">{resource.uid}</Property>}
        </Properties>
        <p className="row">
          <code style={{ overflowWrap: 'anywhere', whiteSpace: 'normal' }}>{command}</code>
          <CopyIcon text={command} what="command" />
        </p>
        {resource.uid && (
          <div className="row" style={{ flexWrap: 'wrap' }}>
            <Action disabledReason={disabledReason} size="xs" onClick={manifestDialog.open}>
              Manifest
            </Action>
            {WITH_PODS.has(kind) && (
              <Button size="xs" variant="default" onClick={onLogs}>
                Logs
              </Button>
            )}
            {isPod && (
              <Action
                disabledReason={disabledReason ?? whyNot(may)}
                size="xs"
                variant="default"
                onClick={terminalDialog.open}
              >
                Terminal
              </Action>
            )}
            <ResourceActions {...{ reference, of, disabledReason }} />
            <Action
              disabledReason={disabledReason}
              size="xs"
              variant="default"
              color="red"
              onClick={deleteDialog.open}
            >
              Delete
            </Action>
          </div>
        )}
        {resource.uid && !disabledReason && <ResourceEvents {...{ reference, of }} />}
        {manifest && (
          <Suspense fallback={null}>
            <ResourceManifest {...{ reference, of }} onClose={manifestDialog.close} />
          </Suspense>
        )}
        {terminal && (
          <Suspense fallback={null}>
            <PodTerminal {...{ reference, namespace }} pod={name} onClose={terminalDialog.close} />
          </Suspense>
        )}
        <Confirm
          opened={deleting}
          onClose={deleteDialog.close}
          title={`Delete ${kind} ${name}?`}
          verb="Delete"
          danger
          action={() => appProxy.deleteResource(reference, of)}
        >
          It is deleted in the cluster, with what it owns. What is in Git is made again by the next sync.
        </Confirm>
      </div>
    </section>
  );
}
