import { Autocomplete, Button, NativeSelect, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useQuery } from '@tanstack/react-query';
import { useId } from 'react';
import { explanationQuery, membersQuery, serviceAccountsQuery, type Question } from '../../api/adminQueries';
import type { RuleKind } from '../../api/types';
import { Prose } from '../../ui/Prose';
import { QueryView, sentence } from '../../ui/States';
import { Status } from '../../ui/Status';
import { splitEntity } from './rules';

interface ExplainProps {
  kinds: RuleKind[];
  /** From the address; asked as soon as it is complete. */
  question: Partial<Question>;
  onAsk: (question: Question) => void;
}

/** May this person do this to that, and why: the answer is the server's own decision. */
export function Explain({ kinds, question, onAsk }: ExplainProps) {
  const heading = useId();
  const { data: members = [] } = useQuery(membersQuery);
  const { data: robots = [] } = useQuery(serviceAccountsQuery);
  const asked = splitEntity(question.entity ?? '');
  const form = useForm({
    initialValues: {
      user: question.user ?? '',
      kind: asked.kind || (kinds[0]?.entityType ?? ''),
      action: question.action ?? kinds[0]?.actions[0] ?? '',
      name: asked.name,
    },
    validate: { name: (name) => (name.trim() ? null : 'Enter the name of the resource') },
  });
  const actions = kinds.find(({ entityType }) => entityType === form.values.kind)?.actions ?? [];
  const application = form.values.kind === 'gitopsApplications';
  return (
    <section className="panel" aria-labelledby={heading}>
      <header>
        <h2 id={heading}>Explain</h2>
      </header>
      <form
        className="body row"
        style={{ flexWrap: 'wrap', alignItems: 'flex-start' }}
        onSubmit={form.onSubmit(({ user, kind, action, name }) =>
          onAsk({ user: user.trim(), action, entity: `${kind}/${name.trim()}` }),
        )}
      >
        <Autocomplete
          size="xs"
          label="Who"
          placeholder="you"
          data={[...members.map(({ email }) => email), ...robots.map(({ name }) => name)]}
          {...form.getInputProps('user')}
        />
        <NativeSelect size="xs" label="Action" data={actions} {...form.getInputProps('action')} />
        <NativeSelect
          size="xs"
          label="Resource"
          data={kinds.map(({ entityType }) => entityType)}
          {...form.getInputProps('kind')}
          onChange={(event) => {
            const kind = event.currentTarget.value;
            const action = kinds.find(({ entityType }) => entityType === kind)?.actions[0] ?? '';
            form.setValues({ kind, action });
          }}
        />
        <TextInput
          size="xs"
          label="Name"
          placeholder={application ? 'runtime/namespace/name' : 'demo/demo-app'}
          {...form.getInputProps('name')}
        />
        <Button type="submit" style={{ marginTop: 20 }}>
          Check access
        </Button>
      </form>
      {question.action && question.entity && (
        <Answer question={{ user: question.user ?? '', action: question.action, entity: question.entity }} />
      )}
    </section>
  );
}

function Answer({ question }: { question: Question }) {
  const answer = useQuery(explanationQuery(question));
  return (
    <div style={{ borderTop: '1px solid var(--line)' }} aria-live="polite">
      <QueryView query={answer} rows={1}>
        {({ allowed, reason, user, action, entity }) => (
          <div className="body stack" style={{ padding: 14, gap: 6 }}>
            <div className="row" style={{ flexWrap: 'wrap' }}>
              <Status tone={allowed ? 'ok' : 'bad'}>{allowed ? 'Allowed' : 'Not allowed'}</Status>
              <span>
                {user}: <code>{action}</code> on <code>{entity}</code>
              </span>
            </div>
            <p>
              {/* A name keeps its own first letter. */}
              <Prose>{reason.startsWith(user) ? `${reason}.` : sentence(reason)}</Prose>
            </p>
          </div>
        )}
      </QueryView>
    </div>
  );
}
