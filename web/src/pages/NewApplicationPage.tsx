import { Button, NativeSelect, SegmentedControl } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { ApiError } from '../api/client';
import { declare } from '../api/declare';
import { gitAccess } from '../api/gitAccess';
import { clustersQuery, runtimesQuery } from '../api/queries';
import type { Runtime } from '../api/types';
import { DeclaredIn } from '../components/declare/DeclaredIn';
import { changed, fieldAt, isRead, missing, read, start, type Field } from '../components/declare/draft';
import { DraftForm } from '../components/declare/DraftForm';
import { Committed, Warnings } from '../components/declare/Outcome';
import { isRepository, NOWHERE, type Place } from '../components/declare/place';
import { UnsavedChanges } from '../components/UnsavedChanges';
import { Action } from '../ui/Action';
import { Editor } from '../ui/Editor';
import { FormError } from '../ui/FormDialog';
import { Page } from '../ui/Page';
import { Prose } from '../ui/Prose';
import { Empty, QueryView, sentence } from '../ui/States';

const route = getRouteApi('/signed-in/applications/new');

/** A new Application, as a commit of whoever writes it: checked by the runtime before anything is committed. */
export function NewApplicationPage() {
  const { runtime: wanted } = route.useSearch();
  const navigate = route.useNavigate();
  const runtimes = useQuery(runtimesQuery);
  // The one that was offered stays, whatever becomes of it: another one is another form, and empty.
  const [offered, setOffered] = useState<string>();
  const first = runtimes.data?.find(({ online }) => online) ?? runtimes.data?.[0];
  if (offered === undefined && first) setOffered(first.name);
  return (
    <Page
      title="New application"
      documentTitle="New application"
      subtitle={<Link to="/applications">Applications</Link>}
    >
      <QueryView query={runtimes}>
        {(all) => {
          const named = (name: string | undefined) => all.find((one) => one.name === name);
          const chosen = named(wanted) ?? named(offered) ?? first;
          if (!chosen)
            return (
              <Empty title="No runtime yet">
                <Link to="/runtimes">Register one</Link>: it looks at the Application and deploys it.
              </Empty>
            );
          return (
            <>
              <NativeSelect
                label="Runtime"
                w={280}
                value={chosen.name}
                data={all.map(({ name, online }) => ({
                  value: name,
                  label: online ? name : `${name} (offline)`,
                }))}
                onChange={(event) =>
                  void navigate({ search: { runtime: event.currentTarget.value }, replace: true })
                }
              />
              <NewApplication key={chosen.name} runtime={chosen} />
            </>
          );
        }}
      </QueryView>
    </Page>
  );
}

type View = 'form' | 'yaml';

function NewApplication({ runtime }: { runtime: Runtime }) {
  const home = runtime.namespace || 'argocd';
  const [empty] = useState(() => start(home));
  const [source, setSource] = useState(empty);
  const [view, setView] = useState<View>('form');
  const [place, setPlace] = useState(NOWHERE);
  const [tried, setTried] = useState(false);
  const accounts = useQuery({
    queryKey: ['git-access', runtime.name],
    queryFn: ({ signal }) => gitAccess.accounts(runtime.name, signal),
  });
  const clusters = useQuery(clustersQuery);
  const draft = useMemo(() => read(source), [source]);
  const name = isRead(draft) ? draft.fields.name : '';
  const metadata = isRead(draft) ? (draft.application['metadata'] as Record<string, unknown> | null) : null;
  const namespace = typeof metadata?.['namespace'] === 'string' ? metadata['namespace'] : home;
  const reference = { runtime: runtime.name, namespace, name };
  const file = place.file.trim() || `apps/${name || 'name'}.yaml`;
  const account = accounts.data?.tokens[place.account];

  const send = useMutation({
    mutationFn: async (dryRun: boolean) => {
      if (!isRead(draft) || !account) throw new Error('the application is not complete');
      const body = { ...declare.at(account, { ...place, file }), application: draft.application, dryRun };
      return { dryRun, reference, declared: await declare.create(reference, body) };
    },
  });
  const committing = send.isPending && !send.variables;
  // What was found of another text is not true of this one. What became of a commit is true all the same.
  const forget = () => {
    if (!send.isIdle && !committing) send.reset();
  };
  const edit = (next: string) => {
    setSource(next);
    forget();
  };
  const details = send.error instanceof ApiError ? send.error.details : [];
  // Where there is no form, its fields are not asked for: what is needed, the runtime says. Without a name nobody can be asked.
  const inForm = view === 'form' && isRead(draft) && !draft.beyond;
  const { name: noName, ...others } = isRead(draft) ? missing(draft.fields) : {};
  const lacks: Partial<Record<Field, string>> = {
    ...(noName ? { name: noName } : {}),
    ...(inForm ? others : {}),
  };
  const errors: Partial<Record<Field, string>> = tried ? { ...lacks } : {};
  for (const { path, message } of details) {
    const field = fieldAt(path);
    if (field) errors[field] = sentence(message);
  }
  const wrongPlace: Partial<Record<keyof Place, string>> =
    tried && !isRepository(place.repository) ? { repository: 'Enter owner/name' } : {};
  const submit = (dryRun: boolean) => {
    setTried(true);
    const ready = isRead(draft) && Object.keys(lacks).length === 0;
    if (ready && account && isRepository(place.repository)) send.mutate(dryRun);
  };
  const noAccess = account
    ? undefined
    : accounts.isSuccess
      ? 'Give the runtime your Git access first.'
      : 'Your Git access at the runtime is not known yet.';

  if (send.data && !send.data.dryRun)
    return <Committed declared={send.data.declared} reference={send.data.reference} />;
  return (
    <form
      className="stack"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        submit(false);
      }}
    >
      <SegmentedControl
        size="xs"
        aria-label="View"
        style={{ alignSelf: 'flex-start' }}
        value={view}
        onChange={(next) => setView(next as View)}
        data={[
          { value: 'form', label: 'Form' },
          { value: 'yaml', label: 'YAML' },
        ]}
      />
      {view === 'yaml' && (
        <Editor label="Application" value={source} onChange={edit} notes={isRead(draft) ? [] : draft} />
      )}
      {!isRead(draft) && (
        <div role="alert">
          <p>The YAML cannot be read{view === 'form' && ', so there is no form of it'}:</p>
          <ul>
            {draft.map(({ line, column, message }) => (
              <li key={`${line}:${column}:${message}`}>
                line {line}, column {column}: {message}
              </li>
            ))}
          </ul>
        </div>
      )}
      {isRead(draft) && view === 'form' && draft.beyond && (
        <p role="status">
          <Prose>{draft.beyond}</Prose> The form has no fields for that: write it as YAML.
        </p>
      )}
      {isRead(draft) && view === 'form' && !draft.beyond && (
        <DraftForm
          fields={draft.fields}
          clusters={(clusters.data ?? []).filter((cluster) => cluster.runtime === runtime.name)}
          errors={errors}
          onChange={(field, value) => edit(changed(source, field, value))}
        />
      )}
      <section className="panel" aria-labelledby="declared-in">
        <header>
          <h2 id="declared-in">Declared in</h2>
        </header>
        <div className="body stack" style={{ maxWidth: 640 }}>
          <QueryView query={accounts} rows={2}>
            {({ tokens }) => (
              <DeclaredIn
                runtime={runtime.name}
                accounts={tokens}
                value={place}
                errors={wrongPlace}
                suggestedFile={file}
                onChange={(change) => {
                  setPlace((before) => ({ ...before, ...change }));
                  forget();
                }}
              />
            )}
          </QueryView>
        </div>
      </section>
      {tried && !inForm && noName && (
        <p role="alert" style={{ color: 'var(--bad)' }}>
          <code>metadata.name</code>: <Prose>{noName}</Prose>
        </p>
      )}
      {isRead(draft) && draft.hasComments && (
        <p role="status">Comments are not kept: the runtime writes the file.</p>
      )}
      <Findings details={details} />
      {details.length === 0 && <FormError error={send.error} />}
      {send.data && (
        <div role="status">
          <p>Nothing is wrong with it; nothing was committed.</p>
          <Warnings of={send.data.declared} />
        </div>
      )}
      <UnsavedChanges when={source !== empty || place !== NOWHERE} />
      <div className="row" style={{ justifyContent: 'flex-end' }}>
        <Action
          disabledReason={noAccess}
          loading={send.isPending && send.variables}
          onClick={() => submit(true)}
        >
          Check
        </Action>
        {noAccess ? (
          <Action variant="filled" disabledReason={noAccess} onClick={() => {}}>
            Commit
          </Action>
        ) : (
          <Button type="submit" loading={committing}>
            Commit
          </Button>
        )}
      </div>
    </form>
  );
}

/** Everything that the runtime found, also what has a field of its own: it may be out of sight. */
function Findings({ details }: { details: ApiError['details'] }) {
  if (details.length === 0) return null;
  return (
    <div role="alert" style={{ color: 'var(--bad)' }}>
      <p>Nothing was committed:</p>
      <ul>
        {details.map(({ path, message }) => (
          <li key={`${path} ${message}`}>
            {path && (
              <>
                <code>{path}</code>:{' '}
              </>
            )}
            <Prose>{message}</Prose>
          </li>
        ))}
      </ul>
    </div>
  );
}
