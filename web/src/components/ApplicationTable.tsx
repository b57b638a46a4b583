import { Checkbox, VisuallyHidden } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import type { Application, ApplicationRow } from '../api/types';
import { Prose } from '../ui/Prose';
import { Ago } from '../ui/Time';
import styles from './ApplicationTable.module.css';
import { HealthStatus, OperationStatus, SyncStatus } from './badges';
import { CommitLine } from './CommitLine';
import { TableFrame } from '../ui/TableFrame';

/** Every row has it, so that long lists can be drawn in part. */
export const ROW_HEIGHT = 46;

/** A few applications, all of them drawn. */
export function ApplicationTable({ applications }: { applications: ApplicationRow[] }) {
  return (
    <TableFrame>
      <table className="data" aria-label="Applications">
        <ApplicationHeads compact />
        <tbody>
          {applications.map((application) => (
            <ApplicationCells key={keyOf(application)} application={application} compact />
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

interface ApplicationHeadsProps {
  compact?: boolean;
  /** Rows can be chosen. */
  choosing?: boolean;
}

export function ApplicationHeads({ compact, choosing }: ApplicationHeadsProps) {
  return (
    <thead className={styles.heads}>
      <tr>
        {choosing && (
          <th>
            <VisuallyHidden>Chosen</VisuallyHidden>
          </th>
        )}
        <th>Application</th>
        <th>State</th>
        <th className={styles.summary}>Status</th>
        {!compact && (
          <>
            <th>Revision</th>
            <th>Runtime</th>
          </>
        )}
        <th>Deployed</th>
      </tr>
    </thead>
  );
}

interface ApplicationCellsProps {
  application: ApplicationRow;
  compact?: boolean;
  /** Its place in the whole list, where only a part is drawn. */
  index?: number;
  chosen?: boolean;
  /** Where rows can be chosen. */
  onChoose?: (application: ApplicationRow, chosen: boolean) => void;
}

/** Drawn again only when this very application changed. */
export const ApplicationCells = memo(function ApplicationCells({
  application,
  compact,
  index,
  chosen,
  onChoose,
}: ApplicationCellsProps) {
  return (
    <tr className={styles.row} aria-rowindex={index}>
      {onChoose && (
        <td className={styles.choice}>
          <Checkbox
            size="xs"
            aria-label={`Choose ${application.name}`}
            checked={chosen ?? false}
            onChange={(event) => onChoose(application, event.currentTarget.checked)}
          />
        </td>
      )}
      <td className={styles.name}>
        <ApplicationLink application={application} />
        <div className={styles.namespace}>{application.namespace}</div>
      </td>
      <td className="nowrap">
        <StateBadges application={application} />
      </td>
      <td className={styles.summary} title={application.summary.replaceAll('`', '')}>
        <Prose>{application.summary}</Prose>
      </td>
      {!compact && (
        <>
          <td className={styles.commit}>
            <CommitLine sha={application.revision?.sha} message={application.revision?.message} />
          </td>
          <td className="nowrap">{application.runtime}</td>
        </>
      )}
      <td>
        {application.deployedAt ? <Ago at={application.deployedAt} /> : <span className="muted">never</span>}
      </td>
    </tr>
  );
});

/** Sync, health, and the operation while it is running. */
export function StateBadges({ application }: { application: ApplicationRow | Application }) {
  const { operation } = application;
  return (
    <span className="row" style={{ gap: 4 }}>
      {operation && !operation.finishedAt && <OperationStatus operation={operation} />}
      <SyncStatus status={application.syncStatus} />
      <HealthStatus status={application.healthStatus} message={application.healthMessage} />
    </span>
  );
}

export function ApplicationLink({ application }: { application: ApplicationRow }) {
  const { runtime, namespace, name } = application;
  return (
    <Link to="/applications/$runtime/$namespace/$name" params={{ runtime, namespace, name }}>
      {name}
    </Link>
  );
}

export function keyOf(application: ApplicationRow): string {
  return `${application.runtime}/${application.namespace}/${application.name}`;
}
