import { Button, CloseButton } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useEffect, useRef } from 'react';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import type { ResourceNode, Rollout } from '../../api/types';
import { Action } from '../../ui/Action';
import { Confirm } from '../../ui/Confirm';
import { CopyIcon } from '../../ui/CopyText';
import { Prose } from '../../ui/Prose';
import { sentence } from '../../ui/States';
import { Properties, Property } from '../../ui/Properties';
import { HealthStatus, SyncStatus } from '../badges';
import { RolloutBrief } from '../rollout/RolloutBrief';

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

/** Everything that is known of one resource, without its manifest: that is in the diff. */
export function ResourceDetails(props: ResourceDetailsProps) {
  const { resource, rollout, reference, disabledReason, onClose, onLogs } = props;
  const [deleting, deleteDialog] = useDisclosure();
  const panel = useRef<HTMLElement>(null);
  // On a narrow screen they are below the tree, out of sight.
  useEffect(() => panel.current?.scrollIntoView({ block: 'nearest' }), []);
  const { group, version, kind, namespace, name } = resource;
  const command = `kubectl ${namespace ? `-n ${namespace} ` : ''}get ${kind.toLowerCase()} ${name} -o yaml`;
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
          <div className="row">
            {WITH_PODS.has(kind) && (
              <Button size="xs" variant="default" onClick={onLogs}>
                Logs
              </Button>
            )}
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
        <Confirm
          opened={deleting}
          onClose={deleteDialog.close}
          title={`Delete ${kind} ${name}?`}
          verb="Delete"
          danger
          action={() => appProxy.deleteResource(reference, { group, kind, namespace, resourceName: name })}
        >
          It is deleted in the cluster, with what it owns. What is in Git is made again by the next sync.
        </Confirm>
      </div>
    </section>
  );
}
