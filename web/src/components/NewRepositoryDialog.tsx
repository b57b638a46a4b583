import { TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { createRepository } from '../api/mutations';
import { useChange } from '../hooks/useChange';
import { FormDialog } from '../ui/FormDialog';

/** An empty repository on the built-in Git host, ready to be pushed to. */
export function NewRepositoryDialog({ onClose }: { onClose: () => void }) {
  const change = useChange(['repositories']);
  const form = useForm({
    initialValues: { name: '' },
    validate: { name: (name) => (name.trim() ? null : 'Enter a name') },
  });
  return (
    <FormDialog
      title="New repository"
      verb="Create"
      onClose={onClose}
      submit={() => {
        if (form.validate().hasErrors) return undefined;
        return () => change(createRepository(form.values.name.trim()));
      }}
    >
      <TextInput
        data-autofocus
        label="Name"
        description="Owner and name. The repository is created empty: clone it, commit and push."
        placeholder="demo/my-app"
        {...form.getInputProps('name')}
      />
    </FormDialog>
  );
}
