import { Button, Checkbox, NativeSelect, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMutation } from '@tanstack/react-query';
import { tryTriggers } from '../api/pipelineMutations';
import { eventChoices } from './events';
import { FormError } from '../ui/FormDialog';
import { Prose } from '../ui/Prose';
import { sentence } from '../ui/States';
import { Status } from '../ui/Status';

const COMMENT = 'pullrequest.commentAdded';

/** Describe an event, hear which triggers it would fire and why the others not. Nothing starts. */
export function TriggerTester({ name }: { name: string }) {
  const form = useForm({
    initialValues: {
      event: 'push.heads',
      branch: 'main',
      target: '',
      fork: false,
      files: '',
      message: '',
      comment: '',
    },
  });
  const attempt = useMutation({
    mutationFn: (values: typeof form.values) => {
      const files = values.files.split(/[\s,]+/).filter(Boolean);
      return tryTriggers(name, {
        event: values.event,
        branch: values.branch.trim(),
        message: values.message,
        fork: values.fork,
        target: values.target.trim() || null,
        changedFiles: files.length > 0 ? files : null,
        comment: values.event === COMMENT ? values.comment : null,
        repo: null,
      });
    },
  });
  const isPullRequest = form.values.event.startsWith('pullrequest');
  return (
    <form className="body stack" onSubmit={form.onSubmit((values) => attempt.mutate(values))}>
      <div className="row" style={{ flexWrap: 'wrap', alignItems: 'flex-end' }}>
        <NativeSelect label="Event" data={eventChoices} {...form.getInputProps('event')} />
        <TextInput label="Branch or tag" {...form.getInputProps('branch')} />
        {isPullRequest && <TextInput label="Target branch" {...form.getInputProps('target')} />}
        {isPullRequest && (
          <Checkbox label="From a fork" {...form.getInputProps('fork', { type: 'checkbox' })} />
        )}
        {form.values.event === COMMENT && <TextInput label="Comment" {...form.getInputProps('comment')} />}
        <TextInput label="Changed files" placeholder="unknown" {...form.getInputProps('files')} />
        <TextInput label="Commit message" {...form.getInputProps('message')} />
        <Button type="submit" variant="default" loading={attempt.isPending}>
          Try
        </Button>
      </div>
      <FormError error={attempt.error} />
      {attempt.data && (
        <ul role="status" style={{ margin: 0, paddingLeft: 0, listStyle: 'none' }} className="stack">
          {attempt.data.length === 0 && <li className="muted">The pipeline has no Git triggers.</li>}
          {attempt.data.map((tried) => (
            <li key={tried.trigger} className="row">
              <Status plain tone={tried.fires ? 'ok' : 'off'}>
                {tried.trigger}
              </Status>
              <span>
                {tried.fires ? 'fires' : <Prose>{sentence(tried.reason ?? 'does not fire')}</Prose>}
              </span>
            </li>
          ))}
        </ul>
      )}
    </form>
  );
}
