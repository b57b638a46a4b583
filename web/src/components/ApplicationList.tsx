import { Skeleton } from '@mantine/core';
import { keepPreviousData, useQueries } from '@tanstack/react-query';
import { APPLICATIONS_PAGE, applicationsQuery, type ApplicationFilter } from '../api/queries';
import type { ApplicationRow } from '../api/types';
import { useWindow } from '../ui/useWindow';
import { ApplicationCells, ApplicationHeads, keyOf, ROW_HEIGHT } from './ApplicationTable';
import styles from './ApplicationTable.module.css';

export const LIST_ID = 'applications';
const COLUMNS = 7;

interface ApplicationListProps {
  filter: ApplicationFilter;
  /** How many fit the filter, over all pages. */
  total: number;
  chosen: ReadonlyMap<string, ApplicationRow>;
  onChoose: (application: ApplicationRow, chosen: boolean) => void;
}

/** Any number of applications: the rows in sight are drawn, and the pages that they are on are asked for. */
export function ApplicationList({ filter, total, chosen, onChoose }: ApplicationListProps) {
  const { ref, first, last, above, below } = useWindow(total, ROW_HEIGHT);
  const pages = pagesOf(first, last);
  const answers = useQueries({
    queries: pages.map((page) => ({
      ...applicationsQuery(filter, { offset: page * APPLICATIONS_PAGE }),
      placeholderData: keepPreviousData,
    })),
  });
  const rows = new Map<number, ApplicationRow>();
  pages.forEach((page, at) =>
    answers[at]?.data?.applications.forEach((row, index) => rows.set(page * APPLICATIONS_PAGE + index, row)),
  );
  return (
    <div
      id={LIST_ID}
      className={styles.frame}
      ref={ref}
      tabIndex={0}
      role="region"
      aria-label="List of applications"
    >
      <table className="data" aria-label="Applications" aria-rowcount={total + 1}>
        <ApplicationHeads choosing />
        <tbody>
          <Gap height={above} />
          {Array.from({ length: last - first }, (_, at) => first + at).map((index) => {
            const row = rows.get(index);
            return row ? (
              <ApplicationCells
                key={keyOf(row)}
                application={row}
                index={index + 2}
                chosen={chosen.has(keyOf(row))}
                onChoose={onChoose}
              />
            ) : (
              <tr key={index} className={styles.waiting}>
                <td colSpan={COLUMNS}>
                  <Skeleton height={14} width="60%" />
                </td>
              </tr>
            );
          })}
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
      <td colSpan={COLUMNS} style={{ height }} aria-label="Rows that are not drawn" />
    </tr>
  );
}

export function pagesOf(first: number, last: number): number[] {
  const from = Math.floor(first / APPLICATIONS_PAGE);
  const to = Math.floor(Math.max(first, last - 1) / APPLICATIONS_PAGE);
  return Array.from({ length: to - from + 1 }, (_, at) => from + at);
}
