import { Checkbox, NativeSelect, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import type { ServiceAccount } from '../../api/types';
import { FormDialog } from '../../ui/FormDialog';
import { TeamsField } from './TeamsField';
import { roleChoices } from './words';

interface Values {
  name: string;
  role: string;
  teams: string[];
  enabled: boolean;
}

interface ServiceAccountDialogProps {
  /** Absent: a new one. */
  robot?: ServiceAccount;
  onClose: () => void;
  save: (values: Values) => Promise<unknown>;
}

export function ServiceAccountDialog({ robot, onClose, save }: ServiceAccountDialogProps) {
  const form = useForm<Values>({
    initialValues: {
      name: robot?.name ?? '',
      role: robot?.role ?? 'User',
      teams: (robot?.teams ?? []).map((team) => team.name),
      enabled: robot?.enabled ?? true,
    },
    validate: { name: (name) => (name.trim() ? null : 'Enter a name') },
  });
  return (
    <FormDialog
      title={robot ? `Edit ${robot.name}` : 'New service account'}
      verb={robot ? 'Save' : 'Create'}
      onClose={onClose}
      submit={() => {
        if (form.validate().hasErrors) return undefined;
        return () => save({ ...form.values, name: form.values.name.trim() });
      }}
    >
      {!robot && (
        <TextInput
          data-autofocus
          label="Name"
          description="What it is for"
          placeholder="release-bot"
          {...form.getInputProps('name')}
        />
      )}
      <NativeSelect label="Role" data={roleChoices} {...form.getInputProps('role')} />
      <TeamsField {...form.getInputProps('teams')} />
      {robot && (
        <Checkbox
          label="Enabled"
          description="While disabled, its keys are refused"
          {...form.getInputProps('enabled', { type: 'checkbox' })}
        />
      )}
    </FormDialog>
  );
}
