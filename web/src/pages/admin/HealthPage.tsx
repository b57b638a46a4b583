import { Button } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { rotateSecrets } from '../../api/adminMutations';
import { healthQuery, readinessQuery } from '../../api/adminQueries';
import type { SystemHealth } from '../../api/types';
import { BuildStatus } from '../../components/badges';
import { useChange } from '../../hooks/useChange';
import { Confirm } from '../../ui/Confirm';
import { External, Refresh } from '../../ui/icons';
import { Page } from '../../ui/Page';
import { Properties, Property } from '../../ui/Properties';
import { Empty, QueryView, sentence } from '../../ui/States';
import { Status } from '../../ui/Status';
import { Ago } from '../../ui/Time';
import { clock, duration } from '../../ui/time';
import { DataTable } from '../../ui/DataTable';
import { TableFrame } from '../../ui/TableFrame';

/** How the platform is, for those who run it. */
export function HealthPage() {
  const health = useQuery(healthQuery);
  const readiness = useQuery(readinessQuery);
  const [asking, ask] = useDisclosure();
  const change = useChange(['platform', 'health']);
  return (
    <Page
      title="System health"
      documentTitle="System health"
      subtitle="The whole platform, across all accounts. Refreshed every ten seconds."
      actions={
        <>
          <Button
            component="a"
            href="/metrics"
            target="_blank"
            rel="noreferrer"
            variant="default"
            leftSection={<External />}
          >
            Metrics
          </Button>
          <Button variant="default" leftSection={<Refresh />} onClick={ask.open}>
            Rotate master key
          </Button>
        </>
      }
    >
      <QueryView query={health}>
        {(state) => (
          <>
            <section className="panel" aria-label="State">
              <div className="body">
                <Properties>
                  <Property name="Readiness">
                    {readiness.data && (
                      <Status tone={readiness.data.ready ? 'ok' : 'bad'}>
                        {readiness.data.ready ? 'Ready' : sentence(readiness.data.text)}
                      </Status>
                    )}
                    {readiness.isError && <Status tone="bad">No answer</Status>}
                  </Property>
                  <Property name="Version">
                    <code>{state.version}</code>
                  </Property>
                  {state.withoutEgress.length > 0 && (
                    <Property name="Connections to others">
                      <Status tone="warn">None (--egress none)</Status>
                      <ul>
                        {state.withoutEgress.map((what) => (
                          <li key={what}>{what}</li>
                        ))}
                      </ul>
                    </Property>
                  )}
                  <Property name="Master key">
                    <Status tone={state.rotating ? 'warn' : 'ok'}>
                      {state.rotating ? 'A rotation is unfinished' : 'OK'}
                    </Status>
                  </Property>
                </Properties>
              </div>
            </section>
            <section className="panel" aria-labelledby="jobs">
              <header>
                <h2 id="jobs">Background jobs</h2>
                <span className="row" style={{ gap: 12 }}>
                  {Object.entries(state.parts).map(([part, answers]) => (
                    <Status key={part} plain tone={answers ? 'ok' : 'bad'}>
                      {part} {answers ? 'reachable' : 'not reachable'}
                    </Status>
                  ))}
                </span>
              </header>
              <Jobs state={state} />
            </section>
            <section className="panel" aria-label="Counts">
              <div className="body">
                <Properties>
                  <Property name="Accounts">{state.accounts}</Property>
                  <Property name="People">{state.users}</Property>
                  <Property name="Browser sessions">{state.sessions}</Property>
                  <Property name="Runtimes">{state.runtimes}</Property>
                  <Property name="Applications">{state.applications}</Property>
                  <Property name="Audit records">{state.auditRecords}</Property>
                  <Property name="Facts waiting for the bus">{state.factsWaiting}</Property>
                  <Property name="Messages to retry">{state.deferredMessages}</Property>
                  <Property name="Messages given up">
                    {state.deadMessages > 0 ? (
                      <Status tone="bad">{state.deadMessages}</Status>
                    ) : (
                      state.deadMessages
                    )}
                  </Property>
                </Properties>
              </div>
            </section>
            <section className="panel" aria-labelledby="builds">
              <header>
                <h2 id="builds">Builds</h2>
              </header>
              <Builds counts={state.builds} />
            </section>
          </>
        )}
      </QueryView>
      <Confirm
        opened={asking}
        onClose={ask.close}
        title="Rotate the master key?"
        verb="Rotate"
        action={async () => {
          const { dataKeys } = await change(rotateSecrets());
          notifications.show({
            message: `Master key rotated; ${dataKeys} data keys were re-encrypted.`,
          });
        }}
      >
        Every account’s data key is re-encrypted with a new master key. Keep the old key if you need to
        restore a backup made before.
      </Confirm>
    </Page>
  );
}

function Builds({ counts }: { counts: Record<string, number> }) {
  const all = Object.entries(counts);
  if (all.length === 0) return <Empty title="No builds yet" />;
  return (
    <TableFrame>
      <table className="data" aria-labelledby="builds">
        <thead>
          <tr>
            <th>Status</th>
            <th className="right">Builds</th>
          </tr>
        </thead>
        <tbody>
          {all.map(([status, count]) => (
            <tr key={status}>
              <td>
                <BuildStatus status={status} />
              </td>
              <td className="right">{count}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

type Job = SystemHealth['jobs'][number];

function JobState({ job }: { job: Job }) {
  if (job.state === 'standby')
    return (
      <Status plain tone="off">
        Another process runs it
      </Status>
    );
  if (job.failures > 0)
    return (
      <Status plain tone={job.failing ? 'bad' : 'warn'}>
        {`failed ${job.failures} times in a row: ${job.error ?? ''}`}
      </Status>
    );
  if (job.state !== 'running' && !job.lastRun)
    return (
      <Status plain tone="off">
        Not run yet
      </Status>
    );
  return (
    <Status plain tone="ok">
      {job.state === 'running' ? 'Running' : 'OK'}
    </Status>
  );
}

/** Which process of the platform runs it. */
function Leader({ job }: { job: Job }) {
  if (!job.lease) return <span className="muted">each process</span>;
  if (!job.leader) return <Status tone="warn">nobody</Status>;
  return job.here ? <>this process</> : <code>{job.leader}</code>;
}

/** What this process does by itself, and whether it works. */
function Jobs({ state }: { state: SystemHealth }) {
  if (state.jobs.length === 0) return <Empty title="Nothing has run yet" />;
  return (
    <DataTable labelledBy="jobs" heads={['Job', 'State', 'Last run', 'Took', 'Next run', 'Led by']}>
      {state.jobs.map((job) => (
        <tr key={job.name}>
          <td>
            {job.name}
            <div className="muted">{job.description}</div>
          </td>
          <td>
            <JobState job={job} />
          </td>
          <td>
            <Ago at={job.lastRun} />
          </td>
          <td className="nowrap">{typeof job.tookMs === 'number' ? duration(job.tookMs) : '–'}</td>
          <td className="nowrap">
            {job.nextRun ? <time dateTime={job.nextRun}>{clock(job.nextRun)}</time> : '–'}
          </td>
          <td>
            <Leader job={job} />
          </td>
        </tr>
      ))}
    </DataTable>
  );
}
