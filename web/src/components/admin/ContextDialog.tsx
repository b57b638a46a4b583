import {
  ActionIcon,
  Button,
  Checkbox,
  NativeSelect,
  PasswordInput,
  TagsInput,
  Textarea,
  TextInput,
} from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { decryptContext } from '../../api/adminQueries';
import type { Context } from '../../api/types';
import { Action } from '../../ui/Action';
import { FormDialog, FormError } from '../../ui/FormDialog';
import { Cross } from '../../ui/icons';
import {
  build,
  CONFIGURATION,
  fromPairs,
  INTEGRATIONS,
  MASK,
  newPair,
  parseData,
  readPath,
  toPairs,
  typeOf,
  writePath,
  type Field,
  type Pair,
} from './contextData';

type Data = Record<string, unknown>;

interface ContextDialogProps {
  side: 'configuration' | 'integrations';
  /** Absent: a new one. */
  context?: Context;
  onClose: () => void;
  save: (context: Context) => Promise<unknown>;
}

/** Shared configuration or an integration: as variables, as fields, or as JSON. */
export function ContextDialog({ side, context, onClose, save }: ContextDialogProps) {
  const types = side === 'configuration' ? CONFIGURATION : INTEGRATIONS;
  const [type, setType] = useState(context?.spec.type ?? types[0]?.type ?? '');
  const known = typeOf(type);
  const [name, setName] = useState(context?.metadata.name ?? '');
  const [tags, setTags] = useState(context?.metadata.labels?.tags ?? []);
  const [forbidDecrypt, setForbidDecrypt] = useState(context?.metadata.forbidDecrypt ?? false);
  const [data, setData] = useState<Data>(context?.spec.data ?? known.start ?? {});
  const [pairs, setPairs] = useState<Pair[]>(() =>
    context ? toPairs(context.spec.data ?? {}) : [newPair()],
  );
  const [text, setText] = useState(() => JSON.stringify(context?.spec.data ?? {}, null, 2));
  const [problems, setProblems] = useState<{ name?: string; data?: string }>({});

  const show = (shown: Data) => {
    setData(shown);
    setPairs(toPairs(shown));
    setText(JSON.stringify(shown, null, 2));
  };
  const submit = () => {
    const parsed = known.form === 'json' ? parseData(text) : undefined;
    const found = {
      ...(name.trim() ? {} : { name: 'Enter a name' }),
      ...(parsed && 'problem' in parsed ? { data: parsed.problem } : {}),
      ...(known.form === 'pairs' ? problemOfPairs(pairs) : {}),
    };
    setProblems(found);
    if (Object.keys(found).length > 0) return undefined;
    const sent = parsed && 'data' in parsed ? parsed.data : known.form === 'pairs' ? fromPairs(pairs) : data;
    return () => save(build(context, { name: name.trim(), type, data: sent, tags, forbidDecrypt }));
  };
  return (
    <FormDialog
      title={context ? `Edit ${name}` : side === 'configuration' ? 'New configuration' : 'New integration'}
      verb={context ? 'Save' : 'Create'}
      size="lg"
      onClose={onClose}
      submit={submit}
    >
      {!context && (
        <>
          <NativeSelect
            label="Type"
            value={type}
            data={types.map((each) => ({ value: each.type, label: each.label }))}
            onChange={(event) => {
              const next = event.currentTarget.value;
              setType(next);
              setData(typeOf(next).start ?? {});
            }}
          />
          <TextInput
            data-autofocus
            label="Name"
            description="Name used to refer to it in pipelines"
            value={name}
            error={problems.name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </>
      )}
      {known.form === 'pairs' && (
        <Pairs pairs={pairs} secret={known.secret === true} problem={problems.data} onChange={setPairs} />
      )}
      {known.form === 'json' && (
        <Textarea
          label={known.label === type ? 'Data' : `${known.label}, written as JSON`}
          description={`Leave ${MASK} to keep a stored value`}
          rows={10}
          spellCheck={false}
          styles={{ input: { fontFamily: 'var(--mono)' } }}
          value={text}
          error={problems.data}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      )}
      {Array.isArray(known.form) && (
        <Fields fields={known.form} before={context?.spec.data ?? {}} data={data} onChange={setData} />
      )}
      {context && <Reveal context={context} onShow={show} />}
      <TagsInput label="Tags" description="Used by access rules" value={tags} onChange={setTags} />
      <Checkbox
        label="Write-only secrets"
        description="Available to builds, never shown again, even to administrators. Cannot be undone."
        checked={forbidDecrypt}
        onChange={(event) => setForbidDecrypt(event.currentTarget.checked)}
      />
    </FormDialog>
  );
}

function problemOfPairs(pairs: Pair[]): { data?: string } {
  const names = pairs.map(({ key }) => key.trim());
  if (names.includes('')) return { data: 'Enter a name for every value, or remove the line' };
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  return twice ? { data: `${twice} is there twice` } : {};
}

interface PairsProps {
  pairs: Pair[];
  secret: boolean;
  problem: string | undefined;
  onChange: (pairs: Pair[]) => void;
}

function Pairs({ pairs, secret, problem, onChange }: PairsProps) {
  const Value = secret ? PasswordInput : TextInput;
  const set = (id: number, change: Partial<Pair>) =>
    onChange(pairs.map((pair) => (pair.id === id ? { ...pair, ...change } : pair)));
  return (
    <fieldset className="stack" style={{ border: 0, padding: 0, margin: 0, gap: 6 }}>
      <legend style={{ padding: 0, marginBottom: 4, fontSize: 13, fontWeight: 560 }}>Variables</legend>
      {pairs.map((pair, index) => (
        <div key={pair.id} className="row" style={{ alignItems: 'flex-start' }}>
          <TextInput
            aria-label={`Name of variable ${index + 1}`}
            placeholder="NAME"
            style={{ flex: 1 }}
            value={pair.key}
            onChange={(event) => set(pair.id, { key: event.currentTarget.value })}
          />
          <Value
            aria-label={`Value of variable ${index + 1}`}
            placeholder={pair.masked ? 'unchanged' : 'value'}
            style={{ flex: 2 }}
            autoComplete="off"
            value={pair.value}
            onChange={(event) => set(pair.id, { value: event.currentTarget.value })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            size="lg"
            aria-label={`Remove variable ${index + 1}`}
            onClick={() => onChange(pairs.filter(({ id }) => id !== pair.id))}
          >
            <Cross />
          </ActionIcon>
        </div>
      ))}
      {problem && (
        <p role="alert" style={{ color: 'var(--bad)', fontSize: 12 }}>
          {problem}
        </p>
      )}
      <div>
        <Button variant="subtle" size="compact-sm" onClick={() => onChange([...pairs, newPair()])}>
          Add variable
        </Button>
      </div>
    </fieldset>
  );
}

interface FieldsProps {
  fields: Field[];
  /** As it came: a secret that is emptied is what it was. */
  before: Data;
  data: Data;
  onChange: (data: Data) => void;
}

function Fields({ fields, before, data, onChange }: FieldsProps) {
  return (
    <>
      {fields.map(({ path, label, description, placeholder, secret }) => {
        const value = readPath(data, path);
        const masked = value === MASK;
        const emptied = readPath(before, path) === MASK ? MASK : '';
        const Value = secret ? PasswordInput : TextInput;
        return (
          <Value
            key={path}
            label={label}
            {...(description ? { description } : {})}
            placeholder={masked ? 'unchanged' : (placeholder ?? '')}
            autoComplete="off"
            value={masked ? '' : value}
            onChange={(event) => onChange(writePath(data, path, event.currentTarget.value || emptied))}
          />
        );
      })}
    </>
  );
}

/** Reading secrets back is a right of its own, and every time is recorded: it is asked for, not done unasked. */
function Reveal({ context, onShow }: { context: Context; onShow: (data: Data) => void }) {
  const reveal = useMutation({
    mutationFn: () => decryptContext(context.metadata.name),
    gcTime: 0,
    onSuccess: ({ spec }) => onShow(spec.data ?? {}),
  });
  const hides = JSON.stringify(context.spec.data ?? {}).includes(JSON.stringify(MASK));
  if (!hides) return null;
  return (
    <div className="stack" style={{ gap: 6 }}>
      <div>
        <Action
          loading={reveal.isPending}
          disabledReason={context.metadata.forbidDecrypt ? 'Its secrets are write-only.' : undefined}
          onClick={() => reveal.mutate()}
        >
          Show secrets
        </Action>
      </div>
      <FormError error={reveal.error} />
    </div>
  );
}
