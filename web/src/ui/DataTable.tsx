import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import { TableFrame } from './TableFrame';

interface DataTableProps {
  /** What the table holds, for those who do not see it; or the id of a heading that says so. */
  label?: string;
  labelledBy?: string;
  heads: readonly string[];
  /** Its rows. */
  children: ReactNode;
}

/** A table with its frame, which scrolls by itself where the window is narrow. */
export function DataTable({ label, labelledBy, heads, children }: DataTableProps) {
  return (
    <TableFrame>
      <table className="data" aria-label={label} aria-labelledby={labelledBy}>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} className={head === 'Actions' ? 'right' : undefined}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </TableFrame>
  );
}

/** What can be done with a row: its last cell. */
export function RowActions({ children }: { children: ReactNode }) {
  return (
    <td className="right">
      <span className="row" style={{ justifyContent: 'flex-end' }}>
        {children}
      </span>
    </td>
  );
}

interface RowActionProps {
  /** Which row it is about, too: "Delete team web". */
  label: string;
  onClick: () => void;
  children: string;
}

export function RowAction({ label, onClick, children }: RowActionProps) {
  return (
    <Button size="compact-xs" variant="default" aria-label={label} onClick={onClick}>
      {children}
    </Button>
  );
}
