import { MultiSelect, TagsInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useQuery } from '@tanstack/react-query';
import { membersQuery, serviceAccountsQuery } from '../../api/adminQueries';
import type { CreateTeam, Team } from '../../api/types';
import { FormDialog } from '../../ui/FormDialog';
import { membersOf } from './teams';

interface TeamDialogProps {
  /** Absent: a new one. */
  team?: Team;
  onClose: () => void;
  save: (request: CreateTeam) => Promise<unknown>;
}

export function TeamDialog({ team, onClose, save }: TeamDialogProps) {
  const { data: members = [] } = useQuery(membersQuery);
  const { data: robots = [] } = useQuery(serviceAccountsQuery);
  // Members that come from the identity provider are its business: they stay, whatever is chosen here.
  const mine = membersOf(team).filter(({ source }) => source !== 'sso');
  const theirs = membersOf(team).filter(({ source }) => source === 'sso');
  const form = useForm({
    initialValues: { name: team?.name ?? '', tags: team?.tags ?? [], users: mine.map(({ _id }) => _id) },
    validate: { name: (name) => (name.trim() ? null : 'Enter a name') },
  });
  const known = [
    ...members.map(({ _id, userName, email }) => ({ value: _id, label: `${userName} (${email})` })),
    ...robots.map(({ _id, name }) => ({ value: _id, label: `${name} (service account)` })),
  ];
  const missing = mine
    .filter(({ _id }) => !known.some(({ value }) => value === _id))
    .map(({ _id, userName }) => ({ value: _id, label: userName }));
  return (
    <FormDialog
      title={team ? `Edit team ${team.name}` : 'New team'}
      verb={team ? 'Save' : 'Create team'}
      onClose={onClose}
      submit={() => {
        if (form.validate().hasErrors) return undefined;
        return () => save({ ...form.values, name: form.values.name.trim() });
      }}
    >
      <TextInput
        data-autofocus
        label="Name"
        description="Without slashes or commas"
        placeholder="developers"
        {...form.getInputProps('name')}
      />
      <MultiSelect
        label="Members"
        data={[...known, ...missing]}
        searchable
        nothingFoundMessage="No match"
        {...(theirs.length > 0
          ? {
              description: `Managed by the identity provider: ${theirs.map(({ userName }) => userName).join(', ')}`,
            }
          : {})}
        {...form.getInputProps('users')}
      />
      <TagsInput label="Tags" {...form.getInputProps('tags')} />
    </FormDialog>
  );
}
