import { MultiSelect, type MultiSelectProps } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { teamsQuery } from '../../api/adminQueries';
import { isCustom } from './teams';

interface TeamsFieldProps extends MultiSelectProps {
  /** Also those that go by role: nobody is put into them, but rules can be about them. */
  all?: boolean;
}

/** Teams of the account, by name. */
export function TeamsField({ all, value, ...rest }: TeamsFieldProps) {
  const { data: teams } = useQuery(teamsQuery);
  const data = (teams ?? []).filter((team) => all || isCustom(team)).map(({ name }) => name);
  const offered = teams ? (value ?? []).filter((name) => data.includes(name)) : (value ?? []);
  return (
    <MultiSelect
      label="Teams"
      data={data}
      value={offered}
      searchable
      clearable
      nothingFoundMessage="No such team"
      placeholder={teams && data.length === 0 ? 'No teams yet' : ''}
      {...rest}
    />
  );
}
