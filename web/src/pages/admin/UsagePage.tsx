import { useQuery } from '@tanstack/react-query';
import { usageQuery } from '../../api/adminQueries';
import type { UsageState } from '../../api/types';
import { limitText } from '../../components/admin/words';
import { Page } from '../../ui/Page';
import { Properties, Property } from '../../ui/Properties';
import { Prose } from '../../ui/Prose';
import { QueryView, sentence } from '../../ui/States';
import { Status } from '../../ui/Status';
import styles from './UsagePage.module.css';
import { TableFrame } from '../../ui/TableFrame';

/** How much of its limits the account uses. */
export function UsagePage() {
  const usage = useQuery(usageQuery);
  return (
    <Page
      title="Usage & limits"
      documentTitle="Usage & limits"
      subtitle={usage.data?.plan ? `Plan ${usage.data.plan}` : 'Limits are set by a platform administrator.'}
    >
      <QueryView query={usage}>
        {(status) => (
          <>
            {status.messages.length > 0 && (
              <div className={styles.messages} role="status">
                {status.messages.map((message) => (
                  <p key={message}>
                    <Prose>{sentence(message)}</Prose>
                  </p>
                ))}
              </div>
            )}
            <section className="panel" aria-labelledby="limits">
              <header>
                <h2 id="limits">Limits</h2>
              </header>
              <LimitTable states={status.limits} />
            </section>
            <section className="panel" aria-label="Other counts">
              <div className="body">
                <Properties>
                  <Property name={`Builds since ${day(status.monthBegan)}`}>
                    {status.buildsThisMonth}
                  </Property>
                  <Property name="Builds that wait">{status.buildsWaiting}</Property>
                  <Property name="Pipelines">{status.pipelines}</Property>
                  <Property name="Service accounts">{status.serviceAccounts}</Property>
                </Properties>
              </div>
            </section>
          </>
        )}
      </QueryView>
    </Page>
  );
}

const day = (at: string) =>
  new Date(at).toLocaleDateString(undefined, { day: 'numeric', month: 'long', timeZone: 'UTC' });

function LimitTable({ states }: { states: UsageState[] }) {
  return (
    <TableFrame>
      <table className="data" aria-labelledby="limits">
        <thead>
          <tr>
            <th>Resource</th>
            <th className="right">Used</th>
            <th className="right">Limit</th>
            <th style={{ width: '40%' }}>
              <span className="muted">Share</span>
            </th>
            <th>State</th>
          </tr>
        </thead>
        <tbody>
          {states.map((state) => (
            <tr key={state.name}>
              <td className="nowrap">{limitText(state.name)}</td>
              <td className="right">{state.used}</td>
              <td className="right">{state.limit ?? <span className="muted">none</span>}</td>
              <td>
                {typeof state.limit === 'number' && (
                  // The figures beside it say the same.
                  <div className={styles.bar} aria-hidden="true" data-full={state.isReached || undefined}>
                    <div
                      style={{ width: `${Math.min(100, (state.used / Math.max(1, state.limit)) * 100)}%` }}
                    />
                  </div>
                )}
              </td>
              <td>
                <LimitState state={state} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function LimitState({ state }: { state: UsageState }) {
  if (state.isExceeded) return <Status tone="bad">Exceeded</Status>;
  if (state.isReached) return <Status tone="warn">Reached</Status>;
  return <Status tone="ok">{state.limit === undefined || state.limit === null ? 'Unlimited' : 'OK'}</Status>;
}
