import { lazy, Suspense } from 'react';
import type { AuditRecord } from '../../api/types';
import { Properties, Property } from '../../ui/Properties';
import { Prose } from '../../ui/Prose';
import { Loading, sentence } from '../../ui/States';
import { full } from '../../ui/time';
import { readDetail } from './auditDetail';
import styles from './AuditDetails.module.css';

const SideBySide = lazy(async () => ({ default: (await import('../../ui/SideBySide')).SideBySide }));

/** One record unfolded: the call, and what it changed. */
export function AuditDetails({ record }: { record: AuditRecord }) {
  const { before, after, reason } = readDetail(record.detail);
  return (
    <div className={styles.details}>
      <Properties>
        <Property name="When">{full(record.createdAt)}</Property>
        <Property name="Call">
          <code>
            {record.method} {record.path}
          </code>{' '}
          → {record.status}
        </Property>
        <Property name="From">
          <code>{record.address}</code>
        </Property>
        <Property name="Request">
          <code>{record.requestId}</code>
        </Property>
        <Property name="Entity id">
          <code>{record.entityId || '–'}</code>
        </Property>
        <Property name={`Record ${record.seq}, hash`}>
          <code>{record.hash.slice(0, 16)}…</code>
        </Property>
      </Properties>
      {reason && (
        <p>
          <Prose>{sentence(reason)}</Prose>
        </p>
      )}
      {before !== undefined && after !== undefined ? (
        <Suspense fallback={<Loading rows={3} />}>
          <div className={styles.heads} aria-hidden="true">
            <span>Before</span>
            <span>After</span>
          </div>
          <SideBySide before={before} after={after} beforeLabel="Before" afterLabel="After" />
        </Suspense>
      ) : (
        <>
          {before !== undefined && <One title="Before" text={before} />}
          {after !== undefined && <One title="After" text={after} />}
        </>
      )}
    </div>
  );
}

function One({ title, text }: { title: string; text: string }) {
  return (
    <div>
      <h3>{title}</h3>
      <pre className={styles.text} tabIndex={0} role="region" aria-label={title}>
        {text}
      </pre>
    </div>
  );
}
