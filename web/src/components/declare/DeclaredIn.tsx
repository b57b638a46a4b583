import { Autocomplete, NativeSelect, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { declare } from '../../api/declare';
import type { GitPlace } from '../../api/gitAccess';
import type { GitAccount } from '../../api/types';
import { placeText } from '../gitPlace';
import { FormError } from '../../ui/FormDialog';
import type { Place } from './place';

interface DeclaredInProps {
  runtime: string;
  accounts: GitAccount[];
  value: Place;
  onChange: (change: Partial<Place>) => void;
  errors: Partial<Record<keyof Place, string>>;
  suggestedFile: string;
}

export function DeclaredIn({ runtime, accounts, value, onChange, errors, suggestedFile }: DeclaredInProps) {
  const account = accounts[value.account];
  const place: GitPlace | undefined = account && { provider: account.provider, host: account.host };
  const repositories = useQuery({
    queryKey: ['git-access', runtime, 'repositories', place],
    queryFn: ({ signal }) => declare.repositories(runtime, place as GitPlace, signal),
    enabled: Boolean(place),
    staleTime: 60_000,
  });
  const known = repositories.data?.includes(value.repository) ?? false;
  const branches = useQuery({
    queryKey: ['git-access', runtime, 'branches', place, value.repository],
    queryFn: ({ signal }) => declare.branches(runtime, place as GitPlace, value.repository, signal),
    enabled: Boolean(place) && known,
    staleTime: 60_000,
  });
  if (!account) {
    return (
      <p>
        This is a commit of yours, so the runtime needs your access to a Git provider first:{' '}
        <Link to="/runtimes/$name/git" params={{ name: runtime }}>
          give it one
        </Link>
        .
      </p>
    );
  }
  return (
    <>
      <NativeSelect
        label="Commit with"
        description={`As ${account.name} <${account.email}>`}
        value={String(value.account)}
        onChange={(event) =>
          onChange({ account: Number(event.currentTarget.value), repository: '', branch: '' })
        }
        data={accounts.map((one, index) => ({
          value: String(index),
          label: `${one.login || one.name} at ${placeText(one)}`,
        }))}
      />
      <Autocomplete
        label="Repository"
        description="The one that declares Applications; a runtime has to sync the file."
        placeholder="owner/name"
        data={repositories.data ?? []}
        limit={50}
        value={value.repository}
        onChange={(repository) => onChange({ repository, branch: '' })}
        error={errors.repository}
      />
      <FormError error={repositories.error} />
      <Autocomplete
        label="Branch"
        description="Empty: the default branch."
        data={branches.data ?? []}
        limit={50}
        value={value.branch}
        onChange={(branch) => onChange({ branch })}
      />
      <FormError error={branches.error} />
      <TextInput
        label="File"
        placeholder={suggestedFile}
        value={value.file}
        onChange={(event) => onChange({ file: event.currentTarget.value })}
        error={errors.file}
      />
      <TextInput
        label="Commit message"
        placeholder="A sentence of the runtime's own"
        value={value.message}
        onChange={(event) => onChange({ message: event.currentTarget.value })}
      />
    </>
  );
}
