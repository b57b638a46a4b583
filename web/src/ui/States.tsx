/** What stands where data would: nothing yet, nothing at all, not allowed, broken. */
import { Button, Skeleton } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Cross, Refresh, Warn } from './icons';
import { Prose } from './Prose';
import styles from './States.module.css';

interface NoticeProps {
  title: string;
  children?: ReactNode;
  icon?: ReactNode;
  action?: ReactNode;
}

export function Empty({ title, children, icon, action }: NoticeProps) {
  return (
    <div className={styles.notice}>
      {icon && <div className={styles.icon}>{icon}</div>}
      <p className={styles.title}>{title}</p>
      {children && <div className={styles.text}>{children}</div>}
      {action}
    </div>
  );
}

export interface Failure {
  status: number;
  message: string;
  requestId?: string | undefined;
}

/** Errors of the API carry a status and a sentence; anything else is a fault of ours and says so. */
export function toFailure(error: unknown): Failure {
  if (error instanceof Error && 'status' in error && typeof error.status === 'number') {
    const requestId =
      'requestId' in error && typeof error.requestId === 'string' ? error.requestId : undefined;
    return { status: error.status, message: error.message, requestId };
  }
  return { status: -1, message: error instanceof Error ? error.message : String(error) };
}

export function ErrorNotice({ error, retry }: { error: unknown; retry?: (() => void) | undefined }) {
  const failure = toFailure(error);
  return (
    <div className={styles.notice} role="alert">
      <div className={styles.icon} data-bad={failure.status !== 403 || undefined}>
        {failure.status === 403 ? <Cross /> : <Warn />}
      </div>
      <p className={styles.title}>{titleOf(failure.status)}</p>
      <div className={styles.text}>
        <Prose>{sentence(failure.message)}</Prose>
        {failure.requestId && (
          <div className={styles.request}>
            request <code>{failure.requestId}</code>
          </div>
        )}
      </div>
      {retry && failure.status !== 403 && (
        <Button variant="default" leftSection={<Refresh />} onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

function titleOf(status: number): string {
  switch (status) {
    case 0:
      return 'No connection';
    case 403:
      return 'Not allowed';
    case 404:
      return 'Not found';
    default:
      return 'Something went wrong';
  }
}

/** The server's sentences start small and have no full stop, as errors do in a terminal. */
export function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…:`]$/.test(first) ? first : `${first}.`;
}

export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div className={styles.loading} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <Skeleton key={index} height={16} width={`${90 - ((index * 17) % 40)}%`} radius="sm" />
      ))}
    </div>
  );
}

interface QueryViewProps<T> {
  query: UseQueryResult<T>;
  /** Drawn instead of the children when it gives something. */
  empty?: (data: T) => ReactNode;
  rows?: number;
  children: (data: T) => ReactNode;
}

/** What was there is not any more, or not to be seen: no failure to answer, but the answer. */
export function isGone(query: Pick<UseQueryResult, 'isError' | 'error'>): boolean {
  return query.isError && [403, 404].includes(toFailure(query.error).status);
}

/** Every state of a query. An answer that once came stays on screen while a newer one fails to. */
export function QueryView<T>({ query, empty, rows, children }: QueryViewProps<T>) {
  if (query.data !== undefined) return <>{empty?.(query.data) || children(query.data)}</>;
  if (query.isError) return <ErrorNotice error={query.error} retry={() => void query.refetch()} />;
  return <Loading {...(rows ? { rows } : {})} />;
}
