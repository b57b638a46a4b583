import { Button, NativeSelect, TagsInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { createKey, revokeKey } from '../../api/adminMutations';
import { keysQuery } from '../../api/adminQueries';
import type { ApiKey } from '../../api/types';
import { useChange } from '../../hooks/useChange';
import { DataTable, RowAction } from '../../ui/DataTable';
import { Confirm } from '../../ui/Confirm';
import { FormDialog } from '../../ui/FormDialog';
import { Key, Plus } from '../../ui/icons';
import { ShownOnce } from '../../ui/ShownOnce';
import { Empty, QueryView } from '../../ui/States';
import { Ago } from '../../ui/Time';

/** Offered while typing; which words there are the server knows, and says when one is not. */
const SCOPES = [
  'pipeline',
  'build',
  'repos',
  'gitops',
  'context',
  'agent',
  'account',
  'user',
  'team',
  'audit',
];
const OFFERED = ['*:read', ...SCOPES.flatMap((scope) => [scope, `${scope}:read`])];

interface KeysProps {
  title: string;
  /** Name of a service account; otherwise one's own. */
  serviceAccount?: string;
}

/** API keys with their last use: made (and shown once), and revoked. */
export function Keys({ title, serviceAccount }: KeysProps) {
  const keys = useQuery(keysQuery(serviceAccount));
  const change = useChange(['keys'], ['service-accounts']);
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<string>();
  const [revoking, setRevoking] = useState<ApiKey>();
  return (
    <section className="panel" aria-labelledby="keys">
      <header>
        <h2 id="keys">{title}</h2>
        <Button leftSection={<Plus />} onClick={() => setMaking(true)}>
          New key
        </Button>
      </header>
      <QueryView
        query={keys}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="No API keys yet" icon={<Key />}>
              The command line, Git and scripts sign in with a key. Create one for each use, so that each can
              be revoked on its own.
            </Empty>
          )
        }
      >
        {(all) => <KeyTable keys={all} onRevoke={setRevoking} />}
      </QueryView>
      {making && (
        <CreateKey
          onClose={() => setMaking(false)}
          create={async (name, scopes) => {
            const text = await change(createKey(name, scopes, serviceAccount));
            setMaking(false);
            setMade(text);
          }}
        />
      )}
      {made && (
        <ShownOnce title="New API key" text={made} what="key" onClose={() => setMade(undefined)}>
          Copy it now: it will not be shown again. Send it in the <code>Authorization</code> header, or give
          it to Git as the password.
        </ShownOnce>
      )}
      <Confirm
        opened={Boolean(revoking)}
        onClose={() => setRevoking(undefined)}
        title={`Revoke ${revoking?.name ?? 'the key'}?`}
        verb="Revoke"
        danger
        action={() => change(revokeKey(revoking?._id ?? ''))}
      >
        Everything that uses it stops working immediately. This cannot be undone.
      </Confirm>
    </section>
  );
}

function KeyTable({ keys, onRevoke }: { keys: ApiKey[]; onRevoke: (key: ApiKey) => void }) {
  return (
    <DataTable labelledBy="keys" heads={['Key', 'Prefix', 'Scopes', 'Created', 'Last used', 'Actions']}>
      {keys.map((key) => (
        <tr key={key._id}>
          <td>{key.name}</td>
          <td className="mono">{key.tokenPrefix}…</td>
          <td>
            {key.scopes.length > 0 ? (
              <code>{key.scopes.join(', ')}</code>
            ) : (
              <span className="muted">whatever its owner may</span>
            )}
          </td>
          <td>
            <Ago at={key.created} />
          </td>
          <td>{key.lastUsed ? <Ago at={key.lastUsed} /> : <span className="muted">never</span>}</td>
          <td className="right">
            <RowAction label={`Revoke ${key.name}`} onClick={() => onRevoke(key)}>
              Revoke
            </RowAction>
          </td>
        </tr>
      ))}
    </DataTable>
  );
}

interface CreateKeyProps {
  onClose: () => void;
  create: (name: string, scopes: string[]) => Promise<void>;
}

function CreateKey({ onClose, create }: CreateKeyProps) {
  const form = useForm({
    initialValues: { name: '', limit: 'none', scopes: [] as string[] },
    validate: {
      name: (name) => (name.trim() ? null : 'Enter a name'),
      scopes: (scopes, { limit }) =>
        limit === 'chosen' && scopes.length === 0
          ? 'Enter at least one scope, or choose another option'
          : null,
    },
  });
  const { limit } = form.values;
  const submit = () => {
    if (form.validate().hasErrors) return undefined;
    const { name, scopes } = form.values;
    const wanted = { none: [], read: ['*:read'], chosen: scopes }[limit] ?? scopes;
    return () => create(name.trim(), wanted);
  };
  return (
    <FormDialog title="New API key" verb="Create key" onClose={onClose} submit={submit} onDone={() => {}}>
      <TextInput
        data-autofocus
        label="Name"
        description="What the key is for"
        placeholder="laptop"
        {...form.getInputProps('name')}
      />
      <NativeSelect
        label="Permissions"
        data={[
          { value: 'none', label: 'Everything its owner may do' },
          { value: 'read', label: 'Read-only' },
          { value: 'chosen', label: 'Selected scopes' },
        ]}
        {...form.getInputProps('limit')}
      />
      {limit === 'chosen' && (
        <TagsInput
          label="Scopes"
          description="A scope grants access to a resource; with :read, read-only access"
          data={OFFERED}
          placeholder="pipeline, build:read"
          {...form.getInputProps('scopes')}
        />
      )}
    </FormDialog>
  );
}
