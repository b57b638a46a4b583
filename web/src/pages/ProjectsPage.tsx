import { Button, TagsInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { changeProject, createProject, deleteProject } from '../api/pipelineMutations';
import { projectPipelinesQuery, projectsQuery } from '../api/pipelineQueries';
import type { Project } from '../api/types';
import { useChange } from '../hooks/useChange';
import { Action } from '../ui/Action';
import { Confirm } from '../ui/Confirm';
import { FormDialog } from '../ui/FormDialog';
import { Box, Plus } from '../ui/icons';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Ago } from '../ui/Time';
import { counted } from '../ui/counted';

export function ProjectsPage() {
  const projects = useQuery(projectsQuery);
  const [making, dialog] = useDisclosure();
  return (
    <Page
      title="Projects"
      documentTitle="Projects"
      subtitle="Groups of pipelines, with tags for access rules and variables for their builds."
      actions={
        <Button leftSection={<Plus />} onClick={dialog.open}>
          New project
        </Button>
      }
    >
      <QueryView
        query={projects}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="No projects yet" icon={<Box />}>
              A project is created with its first pipeline, or here.
            </Empty>
          )
        }
      >
        {(all) => (
          <div className="stack">
            {all.map((project) => (
              <ProjectPanel key={project.id} project={project} />
            ))}
          </div>
        )}
      </QueryView>
      {making && <ProjectDialog onClose={dialog.close} />}
    </Page>
  );
}

function ProjectPanel({ project }: { project: Project }) {
  const pipelines = useQuery(projectPipelinesQuery(project.id ?? ''));
  const [changing, change] = useDisclosure();
  const [deleting, remove] = useDisclosure();
  const renew = useChange(['pipelines']);
  const heading = `project-${project.id}`;
  const variables = project.variables ?? [];
  return (
    <section className="panel" aria-labelledby={heading}>
      <header>
        <h2 id={heading}>{project.projectName}</h2>
        <span className="row">
          <Link to="/pipelines/new" search={{ project: project.projectName }}>
            New pipeline
          </Link>
          <Action size="compact-sm" onClick={change.open}>
            Edit
          </Action>
          <Action
            size="compact-sm"
            onClick={remove.open}
            disabledReason={project.pipelinesNumber ? 'Delete or move its pipelines first.' : undefined}
          >
            Delete
          </Action>
        </span>
      </header>
      <div className="body stack">
        <span className="muted">
          {(project.tags ?? []).length > 0 ? `Tags: ${project.tags?.join(', ')}` : 'No tags'} ·{' '}
          {variables.length > 0 ? counted(variables.length, 'variable') : 'No variables'} · changed{' '}
          <Ago at={project.updatedAt} />
        </span>
        <QueryView
          query={pipelines}
          empty={(list) => list.docs.length === 0 && <p className="muted">No pipelines yet.</p>}
        >
          {(list) => (
            <ul style={{ margin: 0, paddingLeft: 18, lineHeight: '26px' }}>
              {list.docs.map(({ metadata }) => (
                <li key={metadata.name}>
                  <Link to="/pipelines/$name" params={{ name: metadata.name }}>
                    {metadata.name}
                  </Link>
                </li>
              ))}
            </ul>
          )}
        </QueryView>
      </div>
      {changing && <ProjectDialog project={project} onClose={change.close} />}
      <Confirm
        opened={deleting}
        onClose={remove.close}
        title={`Delete project ${project.projectName}?`}
        verb="Delete"
        danger
        action={() => renew(deleteProject(project.id ?? ''))}
      >
        Its variables and tags are deleted with it.
      </Confirm>
    </section>
  );
}

interface Row {
  id: number;
  key: string;
  value: string;
  encrypted: boolean;
}

function ProjectDialog({ project, onClose }: { project?: Project; onClose: () => void }) {
  const renew = useChange(['pipelines']);
  const form = useForm({
    initialValues: { name: project?.projectName ?? '', tags: project?.tags ?? [] },
    validate: {
      name: (name) => (name.trim() && !name.includes('/') ? null : 'Enter a name without a slash'),
    },
  });
  const [rows, setRows] = useState<Row[]>(
    (project?.variables ?? []).map(({ key, value, encrypted }, id) => ({
      id,
      key,
      value: value ?? '',
      encrypted: encrypted ?? false,
    })),
  );
  const put = (id: number, part: Partial<Row>) =>
    setRows(rows.map((row) => (row.id === id ? { ...row, ...part } : row)));
  return (
    <FormDialog
      title={project ? `Edit ${project.projectName}` : 'New project'}
      verb={project ? 'Save' : 'Create'}
      onClose={onClose}
      submit={() => {
        if (form.validate().hasErrors) return undefined;
        const { name, tags } = form.values;
        const variables = rows
          .filter((row) => row.key.trim())
          .map(({ key, value, encrypted }) => ({ key: key.trim(), value, encrypted }));
        return () =>
          renew(
            project
              ? changeProject(project.id ?? '', { projectName: name.trim(), tags, variables, contexts: null })
              : createProject(name.trim(), tags),
          );
      }}
    >
      <TextInput
        data-autofocus
        label="Name"
        description={project ? 'Its pipelines are renamed, too' : 'The first part of its pipelines’ names'}
        {...form.getInputProps('name')}
      />
      <TagsInput label="Tags" description="Used by access rules" {...form.getInputProps('tags')} />
      {project && (
        <fieldset className="stack" style={{ border: 0, padding: 0, margin: 0, gap: 6 }}>
          <legend style={{ padding: 0, fontSize: 13, fontWeight: 560 }}>Variables</legend>
          {rows.map((row, index) => (
            <div key={row.id} className="row">
              <TextInput
                aria-label={`Name of variable ${index + 1}`}
                value={row.key}
                onChange={(event) => put(row.id, { key: event.currentTarget.value })}
              />
              <TextInput
                aria-label={`Value of variable ${index + 1}`}
                type={row.encrypted ? 'password' : 'text'}
                value={row.value}
                onChange={(event) => put(row.id, { value: event.currentTarget.value })}
              />
              <label className="row nowrap">
                <input
                  type="checkbox"
                  checked={row.encrypted}
                  onChange={(event) => put(row.id, { encrypted: event.currentTarget.checked })}
                />
                encrypted
              </label>
            </div>
          ))}
          <div>
            <Button
              variant="subtle"
              size="compact-sm"
              onClick={() => setRows([...rows, { id: Date.now(), key: '', value: '', encrypted: false }])}
            >
              Add variable
            </Button>
          </div>
        </fieldset>
      )}
    </FormDialog>
  );
}
