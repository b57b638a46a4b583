import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useLocation } from '@tanstack/react-router';
import { useMemo, useRef, useState } from 'react';
import { buildQuery } from '../api/queries';
import type { Build, BuildStep } from '../api/types';
import { Approvals } from '../components/Approvals';
import { BuildStatus } from '../components/badges';
import { BuildActions } from '../components/BuildActions';
import { BuildFacts } from '../components/BuildFacts';
import { DebugPanel } from '../components/DebugPanel';
import { TestResults } from '../components/TestResults';
import { buildName, shortId } from '../components/BuildTable';
import { StepGraph } from '../components/StepGraph';
import { StepHeading } from '../components/StepHeading';
import { StepList } from '../components/StepList';
import { useBuildLog } from '../hooks/useBuildLog';
import type { LogStreamState } from '../api/logStream';
import { lineHash, parseLineHash } from '../ui/log/LogLine';
import { LogViewer, type LogViewerHandle } from '../ui/log/LogViewer';
import { Page } from '../ui/Page';
import { Prose } from '../ui/Prose';
import { QueryView, sentence } from '../ui/States';
import styles from './BuildPage.module.css';

const route = getRouteApi('/signed-in/builds/$id');

export function BuildPage() {
  const { id } = route.useParams();
  const build = useQuery(buildQuery(id));
  const name = build.data?.pipelineName;
  return (
    <Page
      fill
      title={
        <span className="row" style={{ flexWrap: 'wrap' }}>
          {name ? (
            <Link to="/pipelines/$name" params={{ name }}>
              {name}
            </Link>
          ) : (
            'Build'
          )}
          <span className="mono muted" title={id}>
            {build.data ? buildName(build.data) : shortId(id)}
          </span>
          {build.data && <BuildStatus status={build.data.outcome ?? build.data.status} />}
        </span>
      }
      documentTitle={`${name ? `${name} ` : ''}${build.data ? buildName(build.data) : shortId(id)} · Builds`}
      subtitle={build.data?.message && <Prose>{sentence(build.data.message)}</Prose>}
      actions={build.data && <BuildActions build={build.data} />}
    >
      {/* A new build is a new page: the log starts afresh. */}
      <QueryView query={build}>{(data) => <BuildView key={data.id} build={data} />}</QueryView>
    </Page>
  );
}

function BuildView({ build }: { build: Build }) {
  const { buffer, state } = useBuildLog(build.id);
  const viewer = useRef<LogViewerHandle>(null);
  const navigate = route.useNavigate();
  const { hash } = useLocation();
  const target = useMemo(() => parseLineHash(hash), [hash]);
  const steps = useMemo(() => build.steps ?? [], [build.steps]);
  const order = useMemo(() => steps.map((step) => step.name), [steps]);
  // Decided once: a running build is followed; a failed one is opened where it failed; any other is read from the start.
  const [follow] = useState(!build.finished);
  const [startAt] = useState(() => (build.finished ? steps.find(hasFailed)?.name : undefined));
  const [startFolded] = useState(() =>
    steps.filter(({ status }) => status === 'skipped').map(({ name }) => name),
  );
  return (
    <>
      <BuildFacts build={build} />
      <TestResults build={build} />
      <Approvals build={build} />
      <DebugPanel build={build} />
      <StepGraph steps={steps} onShow={(name) => viewer.current?.showSection(name)} />
      <div className={styles.columns}>
        <StepList steps={steps} onShow={(name) => viewer.current?.showSection(name)} />
        <div className={styles.log}>
          <LogViewer
            ref={viewer}
            buffer={buffer}
            order={order}
            follow={follow}
            startAt={startAt}
            startFolded={startFolded}
            target={target}
            onPick={(section, line) =>
              void navigate({
                hash: lineHash(section, line),
                replace: true,
                resetScroll: false,
                hashScrollIntoView: false,
              })
            }
            heading={(name, heading) => (
              <StepHeading name={name} step={steps.find((step) => step.name === name)} {...heading} />
            )}
            status={<StreamSign state={state} />}
            empty={build.message ?? 'No output yet.'}
          />
        </div>
      </div>
    </>
  );
}

const hasFailed = ({ status }: BuildStep) => status === 'error' || status === 'failure';

function StreamSign({ state }: { state: LogStreamState }) {
  switch (state) {
    case 'connecting':
      return 'Loading log…';
    case 'live':
      return 'Live';
    case 'reconnecting':
      return 'Reconnecting…';
    case 'ended':
      return 'Complete';
  }
}
