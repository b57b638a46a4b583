import type { ReactNode } from 'react';
import type { Application, Condition } from '../../api/types';
import { Warn } from '../../ui/icons';
import { Properties, Property } from '../../ui/Properties';
import { Prose } from '../../ui/Prose';
import { Ago, Elapsed } from '../../ui/Time';
import { OperationStatus } from '../badges';
import { CommitLine, nameOf } from '../CommitLine';
import styles from './ApplicationFacts.module.css';
import { reasonOf } from './releases';

interface ApplicationFactsProps {
  application: Application;
  /** Changes the sync policy. */
  policy: ReactNode;
}

/** Where it comes from, which commit by whom, what the last sync did. */
export function ApplicationFacts({ application, policy }: ApplicationFactsProps) {
  const { revision, operation } = application;
  // The message may say the same already.
  const waiting = (operation?.waitingOn ?? []).filter((reason) => !operation?.message.includes(reason));
  return (
    <div className="panel">
      <div className="body stack">
        <Properties inline>
          <Property name="Commit">
            <CommitLine sha={revision?.sha} message={revision?.message} author={revision?.author} copy />
            {revision?.date && (
              <div className="muted" style={{ fontSize: 12 }}>
                committed <Ago at={revision.date} />
              </div>
            )}
          </Property>
          <Property name="From">
            <span className={styles.source}>{application.repoUrl}</span>
            <div className="muted" style={{ fontSize: 12 }}>
              {application.path} at {application.targetRevision || 'HEAD'}
            </div>
          </Property>
          <Property name="To">
            {application.destination}
            <div className="muted" style={{ fontSize: 12 }}>
              runtime {application.runtime}, project {application.project}
            </div>
          </Property>
          <Property name="Sync policy">
            {application.automated ? 'Automatic' : 'Manual'} {policy}
          </Property>
          {(application.images ?? []).length > 0 && (
            <Property name="Images">
              {(application.images ?? []).map((image) => (
                <div key={image} className="mono" style={{ fontSize: 12 }}>
                  {image}
                </div>
              ))}
            </Property>
          )}
        </Properties>
        {operation && (
          <div className={styles.operation}>
            <OperationStatus operation={operation} />
            <span>
              <Prose>{operation.message}</Prose>
            </span>
            <span className="muted">
              <Ago at={operation.startedAt} />,{' '}
              <Elapsed from={operation.startedAt} to={operation.finishedAt} />
              {operation.initiatedBy && <>, by {nameOf(operation.initiatedBy)}</>}
              {reasonOf(operation) && <> ({reasonOf(operation)})</>}
              {operation.revision && (
                <>
                  , to <code>{operation.revision.slice(0, 8)}</code>
                </>
              )}
            </span>
            {waiting.length > 0 && (
              <ul className={styles.waiting} aria-label="Waiting for">
                {waiting.map((reason) => (
                  <li key={reason}>
                    <Prose>{reason}</Prose>
                  </li>
                ))}
              </ul>
            )}
          </div>
        )}
      </div>
    </div>
  );
}

/** What stands in the way, with file and line where there is one. */
export function Conditions({ conditions }: { conditions: Condition[] }) {
  if (conditions.length === 0) return null;
  return (
    <div className={styles.conditions} role="alert">
      {conditions.map((condition) => (
        <div key={`${condition.type}-${condition.message}`} className={styles.condition}>
          <Warn />
          <div>
            <strong>{condition.type}</strong>{' '}
            {condition.lastTransitionTime && (
              <span className="muted" style={{ fontSize: 12 }}>
                <Ago at={condition.lastTransitionTime} />
              </span>
            )}
            <p className={styles.message}>
              <Prose>{condition.message}</Prose>
            </p>
          </div>
        </div>
      ))}
    </div>
  );
}
