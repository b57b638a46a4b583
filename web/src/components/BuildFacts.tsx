import type { Build } from '../api/types';
import { Branch } from '../ui/icons';
import { Properties, Property } from '../ui/Properties';
import { TableFrame } from '../ui/TableFrame';
import { Ago, Elapsed } from '../ui/Time';
import styles from './BuildFacts.module.css';
import { CommitLine } from './CommitLine';
import { counted } from '../ui/counted';

/** Which commit, by whom, from where, on what, since when. */
export function BuildFacts({ build }: { build: Build }) {
  const annotations = Object.entries<unknown>(build.annotations ?? {});
  const repository = [build.repoOwner, build.repoName].filter(Boolean).join('/');
  return (
    <div className="panel">
      <div className="body" style={{ padding: '10px 14px' }}>
        <Properties inline>
          <Property name="Commit">
            <CommitLine sha={build.revision} message={build.commitMessage} author={build.committer} copy />
          </Property>
          {(repository || build.branchName) && (
            <Property name="Source">
              <span className="row" style={{ gap: 4 }}>
                {repository}
                {build.branchName && (
                  <>
                    <Branch /> {build.branchName}
                  </>
                )}
              </span>
            </Property>
          )}
          <Property name="Started by">{startedBy(build)}</Property>
          <Property name="Runs on">
            {build.runner ? (
              <>
                {build.runner} {build.executor && <span className="muted">({build.executor})</span>}
              </>
            ) : (
              <span className="muted">no runner yet</span>
            )}
          </Property>
          <Property name={build.started ? 'Started' : 'Created'}>
            <Ago at={build.started ?? build.created} />
          </Property>
          <Property name="Took">
            <Elapsed from={build.started} to={build.finished} />
          </Property>
          {build.images && build.images.length > 0 && (
            <Property name="Images">
              {build.images.map((image) => (
                <code key={`${image.name}:${image.tag}`} title={image.id} style={{ marginRight: 8 }}>
                  {image.name}:{image.tag}
                </code>
              ))}
            </Property>
          )}
          {annotations.length > 0 && (
            <Property name="Annotations">
              {annotations.map(([name, value]) => (
                <span key={name} style={{ marginRight: 10 }}>
                  <span className="muted">{name}</span> {String(value)}
                </span>
              ))}
            </Property>
          )}
        </Properties>
        <Variables build={build} />
      </div>
    </div>
  );
}

function startedBy({ initiator, webhookTriggered, pipelineTriggerName: trigger }: Build): string {
  const of = trigger ? ` (trigger: ${trigger})` : '';
  // Builds of older versions do not say who it was.
  if (!initiator) return webhookTriggered ? `Git event${of}` : `Started manually${of}`;
  const { kind, name, by } = initiator;
  switch (kind) {
    case 'user':
    case 'service-account':
      return `Started manually by ${name}${of}`;
    case 'git':
      return by ? `Git event by ${by} (trigger: ${name})` : `Git event (trigger: ${name})`;
    case 'schedule':
      return `Schedule ${name}`;
    case 'registry':
      return `Image pushed (trigger: ${name})`;
    case 'pipeline':
      return `Pipeline ${name} finished`;
    case 'build':
      return `Step of pipeline ${name}`;
    default:
      return name;
  }
}

/** What it was started with; a later line wins over an earlier one. */
function Variables({ build }: { build: Build }) {
  const variables = build.variables ?? [];
  if (variables.length === 0) return null;
  return (
    <details className={styles.variables}>
      <summary>{counted(variables.length, 'variable')}</summary>
      <TableFrame label="Variables">
        <table className="data" aria-label="Variables">
          <thead>
            <tr>
              <th>Name</th>
              <th>Value</th>
              <th>From</th>
            </tr>
          </thead>
          <tbody>
            {variables.map(({ key, value, encrypted, from }, index) => (
              <tr key={`${index}-${key}`}>
                <td className="mono">{key}</td>
                <td className="mono">{encrypted ? <span className="muted">encrypted</span> : value}</td>
                <td>{SOURCES[from] ?? from}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </details>
  );
}

const SOURCES: Record<string, string> = {
  project: 'Project',
  pipeline: 'Pipeline',
  trigger: 'Trigger',
  'build-run': 'This run',
};
