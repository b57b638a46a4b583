import { TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import type { Account, CreateAccount } from '../../api/types';
import { FormDialog } from '../../ui/FormDialog';
import { toNumber } from './accountSettings';
import { limitNames, limitText } from './words';

interface NewAccountDialogProps {
  onClose: () => void;
  create: (request: CreateAccount) => Promise<void>;
}

export function NewAccountDialog({ onClose, create }: NewAccountDialogProps) {
  const form = useForm({
    initialValues: { name: '', adminEmail: '' },
    validate: { name: (name) => (name.trim() ? null : 'Enter a name') },
  });
  return (
    <FormDialog
      title="New account"
      verb="Create account"
      onClose={onClose}
      onDone={() => {}}
      submit={() => {
        if (form.validate().hasErrors) return undefined;
        const { name, adminEmail } = form.values;
        return () => create({ name: name.trim(), adminEmail: adminEmail.trim() || null });
      }}
    >
      <TextInput
        data-autofocus
        label="Name"
        description="Lowercase letters, digits and hyphens"
        {...form.getInputProps('name')}
      />
      <TextInput
        label="E-mail of its first Administrator"
        description="Added right away if known here; otherwise invited, and you get the link to send"
        type="email"
        {...form.getInputProps('adminEmail')}
      />
    </FormDialog>
  );
}

interface LimitsDialogProps {
  account: Account;
  onClose: () => void;
  save: (limits: Record<string, unknown>) => Promise<unknown>;
}

export function LimitsDialog({ account, onClose, save }: LimitsDialogProps) {
  const { limits } = account;
  const form = useForm<Record<string, string>>({
    initialValues: Object.fromEntries(
      ['plan', ...limitNames].map((name) => [name, String(limits[name] ?? '')]),
    ),
  });
  const submit = () => () => {
    const { plan = '', ...rest } = form.values;
    const numbers = Object.entries(rest)
      .map(([name, value]) => [name, toNumber(value)] as const)
      .filter(([, value]) => value !== undefined);
    return save({ ...Object.fromEntries(numbers), ...(plan.trim() ? { plan: plan.trim() } : {}) });
  };
  return (
    <FormDialog title={`Limits of ${account.name}`} verb="Save" onClose={onClose} submit={submit}>
      <TextInput
        data-autofocus
        label="Plan"
        description="A label for the limits below"
        {...form.getInputProps('plan')}
      />
      {limitNames.map((name) => (
        <TextInput
          key={name}
          label={limitText(name)}
          placeholder="unlimited"
          inputMode="numeric"
          {...form.getInputProps(name)}
        />
      ))}
    </FormDialog>
  );
}
