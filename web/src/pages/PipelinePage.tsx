import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { buildsQuery, pipelineQuery } from '../api/queries';
import type { GitTrigger, Pipeline } from '../api/types';
import { BuildTable } from '../components/BuildTable';
import { Revisions } from '../components/Revisions';
import { RunButton } from '../components/RunButton';
import { TriggerTester } from '../components/TriggerTester';
import { Page } from '../ui/Page';
import { Properties, Property } from '../ui/Properties';
import { Empty, QueryView } from '../ui/States';
import { Status } from '../ui/Status';
import { Ago } from '../ui/Time';
import { lazy, Suspense } from 'react';

const route = getRouteApi('/signed-in/pipelines/$name');
const YamlCheck = lazy(() =>
  import('../components/YamlCheck').then((module) => ({ default: module.YamlCheck })),
);

export function PipelinePage() {
  const { name } = route.useParams();
  const pipeline = useQuery(pipelineQuery(name));
  return (
    <Page
      title={name}
      documentTitle={`${name} · Pipelines`}
      subtitle={<Link to="/pipelines">Pipelines</Link>}
      actions={
        pipeline.data && (
          <>
            <Link to="/pipelines/$name/edit" params={{ name }}>
              Edit
            </Link>
            <RunButton pipeline={pipeline.data} primary />
          </>
        )
      }
    >
      <QueryView query={pipeline}>
        {(data) => (
          <>
            <Definition pipeline={data} />
            <Builds pipeline={data} />
            <section className="panel" aria-labelledby="try-triggers">
              <header>
                <h2 id="try-triggers">Try the triggers</h2>
              </header>
              <TriggerTester name={name} />
            </section>
            <Revisions name={name} />
            <section className="panel" aria-labelledby="yaml-check">
              <header>
                <h2 id="yaml-check">Check a pipeline file</h2>
              </header>
              <Suspense fallback={null}>
                <YamlCheck />
              </Suspense>
            </section>
          </>
        )}
      </QueryView>
    </Page>
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
          <Property name="Steps come from">
            {source ? (
              <>
                <code>{source.path ?? source.url ?? ''}</code>
                {source.repo && <> in {source.repo}</>}
                {source.revision && <> at {source.revision}</>}
              </>
            ) : (
              'the pipeline itself'
            )}
          </Property>
          {metadata.project && <Property name="Project">{metadata.project}</Property>}
          {metadata.updated_at && (
            <Property name="Changed">
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
      </div>
    </section>
  );
}

function Triggers({ triggers }: { triggers: GitTrigger[] }) {
  if (triggers.length === 0) {
    return <p className="muted">No trigger: it runs when somebody runs it.</p>;
  }
  return (
    <div className="table-frame">
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
              <td>{(trigger.events ?? []).join(', ')}</td>
              <td>{trigger.branchRegex ? <code>{trigger.branchRegex}</code> : 'every branch'}</td>
              <td>
                <Status plain tone={trigger.disabled ? 'off' : 'ok'}>
                  {trigger.disabled ? 'Disabled' : 'Enabled'}
                </Status>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
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
          page.docs.length === 0 && <Empty title="It has never run">Run it, or push a commit.</Empty>
        }
      >
        {(page) => <BuildTable builds={page.docs} caption="Builds of this pipeline" withoutPipeline />}
      </QueryView>
    </section>
  );
}
