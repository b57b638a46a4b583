import { Link } from '@tanstack/react-router';
import type { Application } from '../api/types';
import { Prose } from '../ui/Prose';
import { Ago } from '../ui/Time';
import { HealthStatus, OperationStatus, SyncStatus } from './badges';
import { CommitLine } from './CommitLine';

export function ApplicationTable({
  applications,
  compact,
}: {
  applications: Application[];
  compact?: boolean;
}) {
  return (
    <div className="table-frame">
      <table className="data" aria-label="Applications">
        <thead>
          <tr>
            <th>Application</th>
            <th>State</th>
            <th>What is going on</th>
            {!compact && (
              <>
                <th>Revision</th>
                <th>Runtime</th>
              </>
            )}
            <th>Seen</th>
          </tr>
        </thead>
        <tbody>
          {applications.map((application) => (
            <tr key={keyOf(application)}>
              <td className="nowrap">
                <ApplicationLink application={application} />
                <div className="muted" style={{ fontSize: 12 }}>
                  {application.namespace}
                </div>
              </td>
              <td>
                <StateBadges application={application} />
              </td>
              <td style={{ minWidth: 220, maxWidth: 420 }}>
                <Prose>{application.summary}</Prose>
              </td>
              {!compact && (
                <>
                  <td style={{ maxWidth: 340 }}>
                    <CommitLine
                      sha={application.revision?.sha}
                      message={application.revision?.message}
                      author={application.revision?.author}
                    />
                  </td>
                  <td>{application.runtime}</td>
                </>
              )}
              <td>
                <Ago at={application.observedAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Sync, health, and the operation while it has no end. */
export function StateBadges({ application }: { application: Application }) {
  const { operation } = application;
  return (
    <span className="row" style={{ flexWrap: 'wrap', gap: 4 }}>
      {operation && !operation.finishedAt && <OperationStatus operation={operation} />}
      <SyncStatus status={application.syncStatus} />
      <HealthStatus status={application.healthStatus} message={application.healthMessage} />
    </span>
  );
}

export function ApplicationLink({ application }: { application: Application }) {
  const { runtime = '', namespace, name } = application;
  return (
    <Link to="/applications/$runtime/$namespace/$name" params={{ runtime, namespace, name }}>
      {name}
    </Link>
  );
}

export function keyOf(application: Application): string {
  return `${application.runtime ?? ''}/${application.namespace}/${application.name}`;
}
