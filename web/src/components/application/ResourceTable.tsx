import { UnstyledButton } from '@mantine/core';
import { useMemo } from 'react';
import type { ResourceNode } from '../../api/types';
import { Status } from '../../ui/Status';
import { useWindow } from '../../ui/useWindow';
import { spaced } from '../badges';
import { healthTone, syncTone } from '../tones';
import styles from './ResourceTable.module.css';
import { flatten, type TreeNode } from './resourceTree';

interface ResourceTableProps {
  tree: TreeNode[];
  selected: string | undefined;
  onSelect: (id: string | undefined) => void;
}

/** Every row has it, so that long lists can be drawn in part. */
const ROW_HEIGHT = 36;
const HEADS = ['Resource', 'Kind', 'Namespace', 'Sync', 'Health', 'Details'];

/** The resource tree as rows: parents above their children, indented. Those in sight are drawn. */
export function ResourceTable({ tree, selected, onSelect }: ResourceTableProps) {
  const rows = useMemo(() => flatten(tree), [tree]);
  const { ref, first, last, above, below } = useWindow(rows.length, ROW_HEIGHT);
  return (
    <div className={styles.frame} ref={ref} tabIndex={0} role="region" aria-label="List of resources">
      <table className="data" aria-label="Resources" aria-rowcount={rows.length + 1}>
        <thead className={styles.heads}>
          <tr>
            {HEADS.map((head) => (
              <th key={head}>{head}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap height={above} />
          {rows.slice(first, last).map(({ node: { id, resource }, depth }, at) => (
            <Row
              key={id}
              index={first + at + 2}
              {...{ resource, depth }}
              selected={id === selected}
              onChoose={() => onSelect(id === selected ? undefined : id)}
            />
          ))}
          <Gap height={below} />
        </tbody>
      </table>
    </div>
  );
}

function Gap({ height }: { height: number }) {
  if (height === 0) return null;
  return (
    <tr className={styles.gap} aria-hidden="true">
      <td colSpan={HEADS.length} style={{ height }} aria-label="Rows that are not drawn" />
    </tr>
  );
}

interface RowProps {
  resource: ResourceNode;
  depth: number;
  index: number;
  selected: boolean;
  onChoose: () => void;
}

function Row({ resource, depth, index, selected, onChoose }: RowProps) {
  const details = [resource.requiresPruning ? 'to be pruned' : '', resource.info, resource.healthMessage]
    .filter(Boolean)
    .join(' · ');
  return (
    <tr className={styles.row} aria-rowindex={index} aria-selected={selected}>
      <td style={{ paddingLeft: 14 + depth * 20 }}>
        <UnstyledButton style={{ color: 'var(--accent)', fontSize: 13 }} onClick={onChoose}>
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
      <td className={styles.details} title={details}>
        {details}
      </td>
    </tr>
  );
}
