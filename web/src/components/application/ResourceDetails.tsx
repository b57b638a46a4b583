import { CloseButton } from '@mantine/core';
import { useEffect, useRef } from 'react';
import type { ResourceNode } from '../../api/types';
import { CopyIcon } from '../../ui/CopyText';
import { Prose } from '../../ui/Prose';
import { sentence } from '../../ui/States';
import { Properties, Property } from '../../ui/Properties';
import { HealthStatus, SyncStatus } from '../badges';

interface ResourceDetailsProps {
  resource: ResourceNode;
  onClose: () => void;
}

/** Everything that is known of one resource, without its manifest: that is in the diff. */
export function ResourceDetails({ resource, onClose }: ResourceDetailsProps) {
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
      </div>
    </section>
  );
}
