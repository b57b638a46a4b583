import { ActionIcon, Button, Checkbox, NativeSelect, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { runPipeline } from '../api/mutations';
import type { Pipeline } from '../api/types';
import { Dialog } from '../ui/Dialog';
import { Cross, Play } from '../ui/icons';
import { Prose } from '../ui/Prose';
import { sentence, toFailure } from '../ui/States';

interface RunDialogProps {
  pipeline: Pipeline;
  onClose: () => void;
}

interface RunForm {
  trigger: string;
  branch: string;
  debug: boolean;
  variables: { id: number; key: string; value: string }[];
}

const DEBUG = {
  debug: true,
  breakpoints: {},
  enableNotifications: false,
  noCache: false,
  noCfCache: false,
  resetVolume: false,
  only: [],
  skip: [],
};

let nextId = 0;

/** Asks for branch and variables, starts the build and goes to it. */
export function RunDialog({ pipeline, onClose }: RunDialogProps) {
  const { name } = pipeline.metadata;
  const triggers = pipeline.spec.triggers ?? [];
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const form = useForm<RunForm>({
    initialValues: { trigger: triggers[0]?.name ?? '', branch: '', debug: false, variables: [] },
    validate: {
      variables: {
        key: (key, { variables }) => {
          if (!key.trim()) return 'Enter a name, or remove the line';
          return variables.filter((other) => other.key === key).length > 1 ? 'This name is used twice' : null;
        },
      },
    },
  });
  const run = useMutation({
    mutationFn: (values: RunForm) =>
      runPipeline(name, {
        branch: values.branch.trim() || null,
        trigger: values.trigger || null,
        variables: values.variables.map(({ key, value }) => ({ key: key.trim(), value })),
        // Without it the pipeline's own options count.
        options: values.debug ? DEBUG : null,
      }),
    onSuccess: async (id) => {
      void queryClient.invalidateQueries({ queryKey: ['builds'] });
      onClose();
      await navigate({ to: '/builds/$id', params: { id } });
    },
  });

  return (
    <Dialog onClose={onClose} title={`Run ${name}`} size="lg">
      <form className="stack" onSubmit={form.onSubmit((values) => run.mutate(values))}>
        {triggers.length > 1 && (
          <NativeSelect
            label="Trigger"
            description="Use this trigger’s repository and variables"
            data={triggers.map((trigger) => ({
              value: trigger.name,
              label: `${trigger.name} (${trigger.repo})`,
            }))}
            {...form.getInputProps('trigger')}
          />
        )}
        <TextInput
          data-autofocus
          label="Branch"
          description="Default: the repository’s default branch"
          placeholder="main"
          {...form.getInputProps('branch')}
        />
        <fieldset className="stack" style={{ border: 0, padding: 0, margin: 0, gap: 6 }}>
          <legend style={{ padding: 0, marginBottom: 4, fontSize: 13, fontWeight: 560 }}>Variables</legend>
          {form.values.variables.map((variable, index) => (
            <div key={variable.id} className="row" style={{ alignItems: 'flex-start' }}>
              <TextInput
                aria-label={`Name of variable ${index + 1}`}
                placeholder="NAME"
                style={{ flex: 1 }}
                {...form.getInputProps(`variables.${index}.key`)}
              />
              <TextInput
                aria-label={`Value of variable ${index + 1}`}
                placeholder="value"
                style={{ flex: 2 }}
                {...form.getInputProps(`variables.${index}.value`)}
              />
              <ActionIcon
                variant="subtle"
                color="gray"
                size="lg"
                aria-label={`Remove variable ${index + 1}`}
                onClick={() => form.removeListItem('variables', index)}
              >
                <Cross />
              </ActionIcon>
            </div>
          ))}
          <div>
            <Button
              variant="subtle"
              size="compact-sm"
              onClick={() => form.insertListItem('variables', { id: nextId++, key: '', value: '' })}
            >
              Add variable
            </Button>
          </div>
        </fieldset>
        <Checkbox
          label="Debug: pause at breakpoints and after a step that fails"
          {...form.getInputProps('debug', { type: 'checkbox' })}
        />
        {run.isError && (
          <p role="alert" style={{ color: 'var(--bad)' }}>
            <Prose>{sentence(toFailure(run.error).message)}</Prose>
          </p>
        )}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" leftSection={<Play />} loading={run.isPending}>
            Run
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
