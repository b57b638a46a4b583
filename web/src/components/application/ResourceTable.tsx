import { UnstyledButton } from '@mantine/core';
import { useMemo } from 'react';
import type { ResourceNode } from '../../api/types';
import { DataTable } from '../../ui/DataTable';
import { Status } from '../../ui/Status';
import { spaced } from '../badges';
import { healthTone, syncTone } from '../tones';
import { buildTree, flatten } from './resourceTree';

interface ResourceTableProps {
  resources: ResourceNode[];
  selected: string | undefined;
  onSelect: (id: string | undefined) => void;
}

/** The resource tree as rows: parents above their children, indented. */
export function ResourceTable({ resources, selected, onSelect }: ResourceTableProps) {
  const rows = useMemo(() => flatten(buildTree(resources)), [resources]);
  return (
    <DataTable label="Resources" heads={['Resource', 'Kind', 'Namespace', 'Sync', 'Health', 'Details']}>
      {rows.map(({ node: { id, resource }, depth }) => (
        <tr
          key={id}
          aria-selected={id === selected}
          style={id === selected ? { background: 'var(--accent-soft)' } : {}}
        >
          <td style={{ paddingLeft: 14 + depth * 20 }}>
            <UnstyledButton
              style={{ color: 'var(--accent)', fontSize: 13 }}
              onClick={() => onSelect(id === selected ? undefined : id)}
            >
              {depth > 0 && (
                <span className="muted" aria-hidden="true">
                  └{' '}
                </span>
              )}
              {resource.name}
            </UnstyledButton>
          </td>
          <td>{resource.kind}</td>
          <td>{resource.namespace || <span className="muted">cluster</span>}</td>
          <td>
            {resource.status ? (
              <Status plain tone={syncTone(resource.status)}>
                {spaced(resource.status)}
              </Status>
            ) : (
              <span className="muted">–</span>
            )}
          </td>
          <td>
            {resource.health ? (
              <Status plain tone={healthTone(resource.health)}>
                {resource.health}
              </Status>
            ) : (
              <span className="muted">–</span>
            )}
          </td>
          <td style={{ maxWidth: 460 }}>
            {[resource.requiresPruning ? 'to be pruned' : '', resource.info, resource.healthMessage]
              .filter(Boolean)
              .join(' · ')}
          </td>
        </tr>
      ))}
    </DataTable>
  );
}
