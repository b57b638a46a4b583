import { Button, Pagination } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { buildsQuery, pipelinesQuery } from '../api/queries';
import type { Pipeline } from '../api/types';
import { BuildStatus } from '../components/badges';
import { buildName } from '../components/BuildTable';
import { eventText } from '../components/events';
import { RunButton } from '../components/RunButton';
import { Play, Plus } from '../ui/icons';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Ago } from '../ui/Time';
import { TableFrame } from '../ui/TableFrame';

const route = getRouteApi('/signed-in/pipelines');
const PAGE_SIZE = 25;

export function PipelinesPage() {
  const { page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const pipelines = useQuery({
    ...pipelinesQuery({ limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE }),
    placeholderData: keepPreviousData,
  });
  return (
    <Page
      title="Pipelines"
      documentTitle="Pipelines"
      subtitle="The steps that turn a commit into a tested, published image."
      actions={
        <Button component={Link} to="/pipelines/new" leftSection={<Plus />}>
          New pipeline
        </Button>
      }
    >
      <div className="panel">
        <QueryView query={pipelines} empty={(list) => list.docs.length === 0 && <NoPipelines />}>
          {(list) => (
            <>
              <PipelineTable pipelines={list.docs} />
              {list.count > PAGE_SIZE && (
                <div className="body">
                  <Pagination
                    size="sm"
                    total={Math.ceil(list.count / PAGE_SIZE)}
                    value={page}
                    onChange={(next) => void navigate({ search: next > 1 ? { page: next } : {} })}
                    getControlProps={(control) => ({ 'aria-label': `${control} page` })}
                  />
                </div>
              )}
            </>
          )}
        </QueryView>
      </div>
    </Page>
  );
}

function NoPipelines() {
  return (
    <Empty title="No pipelines yet" icon={<Play />}>
      <Link to="/pipelines/new" search={{}}>
        Create one here
      </Link>
      , or put a <code>codefresh.yml</code> into a repository and create a pipeline for it with{' '}
      <code>slipway pipeline create -f pipeline.yaml</code>, or with the <code>codefresh</code> command line.
    </Empty>
  );
}

function PipelineTable({ pipelines }: { pipelines: Pipeline[] }) {
  return (
    <TableFrame>
      <table className="data" aria-label="Pipelines">
        <thead>
          <tr>
            <th>Pipeline</th>
            <th>Starts on</th>
            <th>Last build</th>
            <th>When</th>
            <th className="right">
              <span className="muted">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {pipelines.map((pipeline) => (
            <PipelineRow key={pipeline.metadata.name} pipeline={pipeline} />
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function PipelineRow({ pipeline }: { pipeline: Pipeline }) {
  const { id, name } = pipeline.metadata;
  // One small call per row; the answers are shared with the other pages and renewed by the change stream.
  const last = useQuery({ ...buildsQuery({ limit: 1, pipeline: id }), enabled: Boolean(id) });
  const build = last.data?.docs[0];
  return (
    <tr>
      <td>
        <Link to="/pipelines/$name" params={{ name }}>
          {name}
        </Link>
      </td>
      <td className="muted">{triggerText(pipeline)}</td>
      <td>
        {build ? (
          <span className="row">
            <BuildStatus status={build.outcome ?? build.status} />
            <Link to="/builds/$id" params={{ id: build.id }} className="mono">
              {buildName(build)}
            </Link>
          </span>
        ) : (
          <span className="muted">{last.isPending ? '…' : 'never'}</span>
        )}
      </td>
      <td>{build ? <Ago at={build.created} /> : <span className="muted">–</span>}</td>
      <td className="right">
        <RunButton pipeline={pipeline} />
      </td>
    </tr>
  );
}

function triggerText(pipeline: Pipeline): string {
  const triggers = (pipeline.spec.triggers ?? []).filter((trigger) => !trigger.disabled);
  if (triggers.length === 0) return 'manual';
  return triggers
    .map((trigger) => `${(trigger.events ?? []).map(eventText).join(', ') || 'Push'} (${trigger.repo})`)
    .join('; ');
}
