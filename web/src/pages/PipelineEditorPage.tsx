import {
  Button,
  Checkbox,
  MultiSelect,
  NumberInput,
  SegmentedControl,
  TagsInput,
  TextInput,
} from '@mantine/core';
import { useForm, type UseFormReturnType } from '@mantine/form';
import { useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import { ApiError } from '../api/client';
import { createPipeline, replacePipeline } from '../api/pipelineMutations';
import { pipelineQuery } from '../api/queries';
import type { Pipeline } from '../api/types';
import { eventChoices } from '../components/events';
import { UnsavedChanges } from '../components/UnsavedChanges';
import { fieldOf, fieldsOf, toPipeline, type PipelineFields, type Source } from '../components/pipelineForm';
import { useChange } from '../hooks/useChange';
import { FormError } from '../ui/FormDialog';
import { Page } from '../ui/Page';
import { QueryView, sentence } from '../ui/States';
import styles from './PipelineEditorPage.module.css';

const PipelineText = lazy(() =>
  import('../components/PipelineText').then((module) => ({ default: module.PipelineText })),
);

const newRoute = getRouteApi('/signed-in/pipelines/new');
const editRoute = getRouteApi('/signed-in/pipelines/$name/edit');

const EMPTY = { version: '1.0', kind: 'pipeline', metadata: { name: '' }, spec: {} } as unknown as Pipeline;

export function NewPipelinePage() {
  const { project } = newRoute.useSearch();
  const start = project ? ({ ...EMPTY, metadata: { name: `${project}/` } } as unknown as Pipeline) : EMPTY;
  return (
    <Page title="New pipeline" documentTitle="New pipeline" subtitle={<Link to="/pipelines">Pipelines</Link>}>
      <PipelineForm pipeline={start} save={createPipeline} verb="Create" />
    </Page>
  );
}

export function EditPipelinePage() {
  const { name } = editRoute.useParams();
  const pipeline = useQuery({ ...pipelineQuery(name), staleTime: Infinity });
  return (
    <Page
      title={`Edit ${name}`}
      documentTitle={`Edit ${name} · Pipelines`}
      subtitle={
        <Link to="/pipelines/$name" params={{ name }}>
          {name}
        </Link>
      }
    >
      <QueryView query={pipeline}>
        {(data) => (
          <PipelineForm
            key={data.metadata.revision}
            pipeline={data}
            save={(next) => replacePipeline(name, next)}
            verb="Save"
          />
        )}
      </QueryView>
    </Page>
  );
}

type Form = UseFormReturnType<PipelineFields>;

interface PipelineFormProps {
  pipeline: Pipeline;
  save: (pipeline: Pipeline) => Promise<Pipeline>;
  verb: string;
}

function PipelineForm({ pipeline, save, verb }: PipelineFormProps) {
  const navigate = useNavigate();
  const renew = useChange(['pipelines']);
  const form = useForm<PipelineFields>({
    initialValues: fieldsOf(pipeline),
    validate: {
      name: (name) => (name.trim() && !name.endsWith('/') ? null : 'Enter a name such as project/pipeline'),
    },
  });
  const send = useMutation({
    mutationFn: (values: PipelineFields) => save(toPipeline(values, pipeline)),
    // What the server refuses is said at its field, too.
    onError: (error) => {
      const details = error instanceof ApiError ? error.details : [];
      for (const { path, message } of details) {
        const field = fieldOf(path);
        if (field) form.setFieldError(field, sentence(message));
      }
    },
    onSuccess: async (made) => {
      await navigate({ to: '/pipelines/$name', params: { name: made.metadata.name }, ignoreBlocker: true });
      await renew(Promise.resolve());
    },
  });
  return (
    <form className="stack" noValidate onSubmit={form.onSubmit((values) => send.mutate(values))}>
      <section className="panel" aria-labelledby="general">
        <header>
          <h2 id="general">General</h2>
        </header>
        <div className={`body stack ${styles.narrow}`}>
          <TextInput label="Name" description="project/pipeline" {...form.getInputProps('name')} />
          <TextInput label="Description" {...form.getInputProps('description')} />
          <TagsInput label="Tags" description="Used by access rules" {...form.getInputProps('tags')} />
        </div>
      </section>
      <section className="panel" aria-labelledby="steps">
        <header>
          <h2 id="steps">Steps</h2>
          <SegmentedControl
            size="xs"
            aria-label="Source of the steps"
            value={form.values.source}
            onChange={(source) => form.setFieldValue('source', source as Source)}
            data={[
              { value: 'inline', label: 'Inline' },
              { value: 'git', label: 'Git repository' },
              { value: 'url', label: 'URL' },
            ]}
          />
        </header>
        <div className="body stack">
          <StepsSource form={form} />
        </div>
      </section>
      <Triggers form={form} />
      <Crons form={form} />
      <Variables form={form} />
      <section className="panel" aria-labelledby="queue">
        <header>
          <h2 id="queue">Concurrency and queue</h2>
        </header>
        <div className="body row" style={{ flexWrap: 'wrap', alignItems: 'flex-end' }}>
          <Limit
            form={form}
            field="concurrency"
            label="Concurrency"
            description="Empty: unlimited; 0: paused"
          />
          <Limit form={form} field="triggerConcurrency" label="Per trigger" description="Empty: unlimited" />
          <Limit form={form} field="branchConcurrency" label="Per branch" description="Empty: unlimited" />
          <NumberInput
            label="Priority"
            description="−100 to 100; higher runs first"
            min={-100}
            max={100}
            value={form.values.priority === '' ? '' : Number(form.values.priority)}
            onChange={(value) => form.setFieldValue('priority', String(value))}
          />
          <Checkbox
            label="Cancel older builds of the same branch"
            {...form.getInputProps('endOlder', { type: 'checkbox' })}
          />
        </div>
      </section>
      <FormError error={send.error} />
      <UnsavedChanges when={form.isDirty() && !send.isPending && !send.isSuccess} />
      <div className={`row ${styles.save}`}>
        {form.isDirty() && <span className="muted">Unsaved changes</span>}
        <Button type="submit" loading={send.isPending}>
          {verb}
        </Button>
      </div>
    </form>
  );
}

function StepsSource({ form }: { form: Form }) {
  if (form.values.source === 'git') {
    return (
      <>
        <TextInput label="Repository" placeholder="owner/name" {...form.getInputProps('repo')} />
        <TextInput label="File" {...form.getInputProps('path')} />
        <TextInput
          label="Revision"
          description="Default: the commit that triggered the build (for pull requests from forks, the target branch)"
          {...form.getInputProps('revision')}
        />
      </>
    );
  }
  if (form.values.source === 'url') {
    return <TextInput label="URL" placeholder="https://…/codefresh.yml" {...form.getInputProps('url')} />;
  }
  return (
    <Suspense fallback={null}>
      <PipelineText value={form.values.text} onChange={(text) => form.setFieldValue('text', text)} />
    </Suspense>
  );
}

interface LimitProps {
  form: Form;
  field: 'concurrency' | 'triggerConcurrency' | 'branchConcurrency';
  label: string;
  description: string;
}

function Limit({ form, field, label, description }: LimitProps) {
  const value = form.values[field];
  return (
    <NumberInput
      label={label}
      description={description}
      min={0}
      value={value === '' ? '' : Number(value)}
      onChange={(next) => form.setFieldValue(field, String(next))}
    />
  );
}

let nextId = 1000;

function Triggers({ form }: { form: Form }) {
  return (
    <section className="panel" aria-labelledby="triggers">
      <header>
        <h2 id="triggers">Git triggers</h2>
        <Button
          variant="subtle"
          size="compact-sm"
          onClick={() =>
            form.insertListItem('triggers', {
              id: nextId++,
              name: `trigger-${form.values.triggers.length + 1}`,
              repo: '',
              context: '',
              events: ['push.heads'],
              branchRegex: '',
              modifiedFilesGlob: '',
              disabled: false,
            })
          }
        >
          Add trigger
        </Button>
      </header>
      <div className="body stack">
        {form.values.triggers.length === 0 && (
          <p className="muted">No triggers: it runs when somebody runs it.</p>
        )}
        {form.values.triggers.map((trigger, index) => (
          <fieldset
            key={trigger.id}
            className="stack"
            style={{ border: '1px solid var(--line)', padding: 12 }}
          >
            <legend>{trigger.name || 'Trigger'}</legend>
            <div className="row" style={{ flexWrap: 'wrap', alignItems: 'flex-end' }}>
              <TextInput label="Name" {...form.getInputProps(`triggers.${index}.name`)} />
              <TextInput
                label="Repository"
                placeholder="owner/name"
                {...form.getInputProps(`triggers.${index}.repo`)}
              />
              <TextInput
                label="Git integration"
                placeholder="built-in host"
                {...form.getInputProps(`triggers.${index}.context`)}
              />
              <Button variant="default" onClick={() => form.removeListItem('triggers', index)}>
                Remove
              </Button>
            </div>
            <MultiSelect
              label="Events"
              data={eventChoices}
              {...form.getInputProps(`triggers.${index}.events`)}
            />
            <div className="row" style={{ flexWrap: 'wrap' }}>
              <TextInput
                label="Branches"
                placeholder="/^(main|release-.*)$/"
                {...form.getInputProps(`triggers.${index}.branchRegex`)}
              />
              <TextInput
                label="Changed files"
                placeholder="{app/**,lib/**}"
                {...form.getInputProps(`triggers.${index}.modifiedFilesGlob`)}
              />
              <Checkbox
                label="Disabled"
                {...form.getInputProps(`triggers.${index}.disabled`, { type: 'checkbox' })}
              />
            </div>
          </fieldset>
        ))}
      </div>
    </section>
  );
}

function Crons({ form }: { form: Form }) {
  return (
    <section className="panel" aria-labelledby="crons">
      <header>
        <h2 id="crons">Schedule</h2>
        <Button
          variant="subtle"
          size="compact-sm"
          onClick={() =>
            form.insertListItem('crons', {
              id: nextId++,
              name: 'nightly',
              expression: '0 3 * * *',
              timeZone: '',
              message: '',
            })
          }
        >
          Add schedule
        </Button>
      </header>
      <div className="body stack">
        {form.values.crons.length === 0 && <p className="muted">No schedule.</p>}
        {form.values.crons.map((cron, index) => (
          <div key={cron.id} className="row" style={{ flexWrap: 'wrap', alignItems: 'flex-end' }}>
            <TextInput label="Name" {...form.getInputProps(`crons.${index}.name`)} />
            <TextInput label="Cron expression" {...form.getInputProps(`crons.${index}.expression`)} />
            <TextInput
              label="Time zone"
              placeholder="UTC"
              {...form.getInputProps(`crons.${index}.timeZone`)}
            />
            <Button variant="default" onClick={() => form.removeListItem('crons', index)}>
              Remove
            </Button>
          </div>
        ))}
      </div>
    </section>
  );
}

function Variables({ form }: { form: Form }) {
  return (
    <section className="panel" aria-labelledby="variables">
      <header>
        <h2 id="variables">Variables</h2>
        <Button
          variant="subtle"
          size="compact-sm"
          onClick={() =>
            form.insertListItem('variables', { id: nextId++, key: '', value: '', encrypted: false })
          }
        >
          Add variable
        </Button>
      </header>
      <div className="body stack">
        {form.values.variables.length === 0 && <p className="muted">No variables.</p>}
        {form.values.variables.map((variable, index) => (
          <div key={variable.id} className="row" style={{ alignItems: 'flex-end' }}>
            <TextInput label="Name" {...form.getInputProps(`variables.${index}.key`)} />
            <TextInput
              label="Value"
              type={variable.encrypted ? 'password' : 'text'}
              {...form.getInputProps(`variables.${index}.value`)}
            />
            <Checkbox
              label="Encrypted"
              {...form.getInputProps(`variables.${index}.encrypted`, { type: 'checkbox' })}
            />
            <Button variant="default" onClick={() => form.removeListItem('variables', index)}>
              Remove
            </Button>
          </div>
        ))}
      </div>
    </section>
  );
}
