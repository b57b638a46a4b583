import { Button } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { deletePipeline } from '../api/pipelineMutations';
import { buildsQuery, pipelineQuery } from '../api/queries';
import type { GitTrigger, Pipeline } from '../api/types';
import { BuildTable } from '../components/BuildTable';
import { eventText } from '../components/events';
import { textOf } from '../components/pipelineForm';
import { PipelineGraph } from '../components/PipelineGraph';
import { Revisions } from '../components/Revisions';
import { RunButton } from '../components/RunButton';
import { TriggerTester } from '../components/TriggerTester';
import { Confirm } from '../ui/Confirm';
import { Cross, Pencil } from '../ui/icons';
import { Page } from '../ui/Page';
import { Properties, Property } from '../ui/Properties';
import { Prose } from '../ui/Prose';
import { Empty, QueryView, sentence } from '../ui/States';
import { Status } from '../ui/Status';
import { Ago } from '../ui/Time';
import { lazy, Suspense } from 'react';
import { TableFrame } from '../ui/TableFrame';

const route = getRouteApi('/signed-in/pipelines/$name');
const Editor = lazy(() => import('../ui/Editor').then((module) => ({ default: module.Editor })));

export function PipelinePage() {
  const { name } = route.useParams();
  const pipeline = useQuery(pipelineQuery(name));
  return (
    <Page
      title={name}
      documentTitle={`${name} · Pipelines`}
      subtitle={
        <>
          <Link to="/pipelines">Pipelines</Link>
          {descriptionOf(pipeline.data) && <> · {descriptionOf(pipeline.data)}</>}
        </>
      }
      actions={
        pipeline.data && (
          <>
            <Button
              variant="default"
              component={Link}
              to={`/pipelines/${encodeURIComponent(name)}/edit`}
              leftSection={<Pencil />}
            >
              Edit
            </Button>
            <DeletePipeline name={name} />
            <RunButton pipeline={pipeline.data} primary />
          </>
        )
      }
    >
      <QueryView query={pipeline}>
        {(data) => (
          <>
            <Warnings pipeline={data} />
            <Builds pipeline={data} />
            {!data.spec.specTemplate && <PipelineGraph text={textOf(data)} />}
            <Definition pipeline={data} />
            <section className="panel" aria-labelledby="try-triggers">
              <header>
                <h2 id="try-triggers">Try the triggers</h2>
              </header>
              <TriggerTester name={name} />
            </section>
            <Revisions name={name} />
          </>
        )}
      </QueryView>
    </Page>
  );
}

/** What was written and has no effect. */
function Warnings({ pipeline }: { pipeline: Pipeline }) {
  const warnings = pipeline.warnings ?? [];
  if (warnings.length === 0) return null;
  return (
    <section className="panel" aria-label="Warnings">
      <div className="body stack" style={{ gap: 4 }}>
        {warnings.map((warning) => (
          <Status key={warning} plain tone="warn">
            <Prose>{sentence(warning)}</Prose>
          </Status>
        ))}
      </div>
    </section>
  );
}

function descriptionOf(pipeline: Pipeline | undefined): string {
  const { description } = (pipeline?.metadata ?? {}) as { description?: unknown };
  return typeof description === 'string' ? description : '';
}

function DeletePipeline({ name }: { name: string }) {
  const [asking, ask] = useDisclosure();
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  return (
    <>
      <Button variant="default" leftSection={<Cross />} onClick={ask.open}>
        Delete
      </Button>
      <Confirm
        opened={asking}
        onClose={ask.close}
        title={`Delete pipeline ${name}?`}
        verb="Delete"
        danger
        action={async () => {
          await deletePipeline(name);
          await navigate({ to: '/pipelines' });
          // After leaving its page: what is gone must not be asked for again there.
          await queryClient.invalidateQueries({ queryKey: ['pipelines', 'list'] });
        }}
      >
        Its triggers, schedules and revisions are deleted with it. Its builds and their logs are kept.
      </Confirm>
    </>
  );
}

function Definition({ pipeline }: { pipeline: Pipeline }) {
  const { metadata, spec } = pipeline;
  const source = spec.specTemplate;
  return (
    <section className="panel" aria-labelledby="pipeline-definition">
      <header>
        <h2 id="pipeline-definition">Definition</h2>
      </header>
      <div className="body stack">
        <Properties>
          <Property name="Steps">
            {source ? (
              <>
                <code>{source.path ?? source.url ?? ''}</code>
                {source.repo && <> in {source.repo}</>}
                {source.revision && <> at {source.revision}</>}
              </>
            ) : (
              'defined inline'
            )}
          </Property>
          {metadata.project && <Property name="Project">{metadata.project}</Property>}
          {metadata.updated_at && (
            <Property name="Last change">
              <Ago at={metadata.updated_at} />
            </Property>
          )}
          {(spec.variables ?? []).map((variable) => (
            <Property key={variable.key} name={`Variable ${variable.key}`}>
              {variable.encrypted ? <span className="muted">encrypted</span> : <code>{variable.value}</code>}
            </Property>
          ))}
        </Properties>
        <Triggers triggers={spec.triggers ?? []} />
        {!source && (
          <Suspense fallback={null}>
            <Editor key={metadata.revision} readOnly value={textOf(pipeline)} label="Steps of the pipeline" />
          </Suspense>
        )}
      </div>
    </section>
  );
}

function Triggers({ triggers }: { triggers: GitTrigger[] }) {
  if (triggers.length === 0) {
    return <p className="muted">No triggers: it runs when somebody runs it.</p>;
  }
  return (
    <TableFrame>
      <table className="data" aria-label="Triggers">
        <thead>
          <tr>
            <th>Trigger</th>
            <th>Repository</th>
            <th>Events</th>
            <th>Branches</th>
            <th>State</th>
          </tr>
        </thead>
        <tbody>
          {triggers.map((trigger) => (
            <tr key={trigger.name}>
              <td>{trigger.name}</td>
              <td>{trigger.repo}</td>
              <td>{(trigger.events ?? []).map(eventText).join(', ')}</td>
              <td>{trigger.branchRegex ? <code>{trigger.branchRegex}</code> : 'all branches'}</td>
              <td>
                <Status plain tone={trigger.disabled ? 'off' : 'ok'}>
                  {trigger.disabled ? 'Disabled' : 'Enabled'}
                </Status>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function Builds({ pipeline }: { pipeline: Pipeline }) {
  const { id } = pipeline.metadata;
  const builds = useQuery(buildsQuery({ limit: 10, pipeline: id }));
  return (
    <section className="panel" aria-labelledby="pipeline-builds">
      <header>
        <h2 id="pipeline-builds">Builds</h2>
        <Link to="/builds" search={id ? { pipeline: id } : {}}>
          All builds of this pipeline
        </Link>
      </header>
      <QueryView
        query={builds}
        empty={(page) =>
          page.docs.length === 0 && <Empty title="No builds yet">Run it, or push a commit.</Empty>
        }
      >
        {(page) => <BuildTable builds={page.docs} caption="Builds of this pipeline" withoutPipeline />}
      </QueryView>
    </section>
  );
}
