import { NativeSelect, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import type { CreateInvitation } from '../../api/types';
import { FormDialog } from '../../ui/FormDialog';
import { TeamsField } from './TeamsField';
import { roleChoices } from './words';

interface InviteDialogProps {
  onClose: () => void;
  invite: (request: CreateInvitation) => Promise<void>;
}

export function InviteDialog({ onClose, invite }: InviteDialogProps) {
  const form = useForm({
    initialValues: { email: '', role: 'User', teams: [] as string[] },
    validate: { email: (email) => (email.trim() ? null : 'Enter an e-mail address') },
  });
  return (
    <FormDialog
      title="Invite a user"
      verb="Invite"
      onClose={onClose}
      onDone={() => {}}
      submit={() => {
        if (form.validate().hasErrors) return undefined;
        return () => invite({ ...form.values, email: form.values.email.trim() });
      }}
    >
      <TextInput
        data-autofocus
        label="E-mail"
        type="email"
        description="You get a link to send to this address; Slipway does not send it"
        {...form.getInputProps('email')}
      />
      <NativeSelect label="Role" data={roleChoices} {...form.getInputProps('role')} />
      <TeamsField {...form.getInputProps('teams')} />
    </FormDialog>
  );
}
