import { Button } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { changePerson } from '../../api/adminMutations';
import { PEOPLE_PAGE, peopleQuery } from '../../api/adminQueries';
import type { ChangePlatformUser, PlatformUser } from '../../api/types';
import { useChange } from '../../hooks/useChange';
import { DataTable, RowActions } from '../../ui/DataTable';
import { Confirm } from '../../ui/Confirm';
import { Page } from '../../ui/Page';
import { Empty, QueryView } from '../../ui/States';
import { Status } from '../../ui/Status';
import { Ago } from '../../ui/Time';

const route = getRouteApi('/signed-in/admin/platform/people');

interface Ask {
  person: PlatformUser;
  change: ChangePlatformUser;
  title: string;
  verb: string;
  tell: string;
  danger: boolean;
}

/** Everybody on the platform, in whichever accounts, for its administrators. */
export function PeoplePage() {
  const { page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const people = useQuery({ ...peopleQuery(page), placeholderData: keepPreviousData });
  const [asking, setAsking] = useState<Ask>();
  const change = useChange(['platform', 'users'], ['members']);
  const go = (next: number) => void navigate({ search: next > 1 ? { page: next } : {} });
  return (
    <Page
      title="People"
      documentTitle="People"
      subtitle="Everyone on this installation. A disabled person cannot sign in or use API keys."
    >
      <div className="panel">
        <QueryView
          query={people}
          empty={(all) => all.length === 0 && <Empty title="No people on this page" />}
        >
          {(all) => <PeopleTable people={all} onAsk={setAsking} />}
        </QueryView>
        {/* The answer has no total: there is a next page when this one is full. */}
        {(page > 1 || people.data?.length === PEOPLE_PAGE) && (
          <div className="body row" style={{ justifyContent: 'flex-end' }}>
            <Button variant="default" disabled={page === 1} onClick={() => go(page - 1)}>
              Previous page
            </Button>
            <Button
              variant="default"
              disabled={(people.data?.length ?? 0) < PEOPLE_PAGE}
              onClick={() => go(page + 1)}
            >
              Next page
            </Button>
          </div>
        )}
      </div>
      <Confirm
        opened={Boolean(asking)}
        onClose={() => setAsking(undefined)}
        title={asking?.title ?? ''}
        verb={asking?.verb ?? ''}
        danger={asking?.danger ?? false}
        action={() => change(changePerson(asking?.person._id ?? '', asking?.change ?? {}))}
      >
        {asking?.tell}
      </Confirm>
    </Page>
  );
}

function askEnabled(person: PlatformUser): Ask {
  const { enabled, userName } = person;
  return {
    person,
    change: { enabled: !enabled },
    title: `${enabled ? 'Disable' : 'Enable'} ${userName}?`,
    verb: enabled ? 'Disable' : 'Enable',
    tell: enabled
      ? 'They can no longer sign in to any account; their sessions end and their API keys stop working.'
      : 'They can sign in again where they are members.',
    danger: enabled,
  };
}

function askPlatform(person: PlatformUser): Ask {
  const { platformAdmin, userName } = person;
  return {
    person,
    change: { platformAdmin: !platformAdmin },
    title: platformAdmin
      ? `Take the platform's administration from ${userName}?`
      : `Let ${userName} administer the platform?`,
    verb: platformAdmin ? 'Revoke' : 'Grant',
    tell: 'Platform administrators create, suspend and delete accounts and disable people. Their sessions end now.',
    danger: platformAdmin,
  };
}

function PeopleTable({ people, onAsk }: { people: PlatformUser[]; onAsk: (ask: Ask) => void }) {
  return (
    <DataTable label="People" heads={['Name', 'E-mail', 'State', 'Accounts', 'Last sign-in', 'Actions']}>
      {people.map((person) => (
        <tr key={person._id}>
          <td>{person.userName}</td>
          <td>{person.email}</td>
          <td>
            <span className="row">
              <Status tone={person.enabled ? 'ok' : 'off'}>{person.enabled ? 'Enabled' : 'Disabled'}</Status>
              {person.platformAdmin && <span>administers the platform</span>}
            </span>
          </td>
          <td className="muted">{person.accounts.join(', ')}</td>
          <td>{person.lastLogin ? <Ago at={person.lastLogin} /> : <span className="muted">never</span>}</td>
          <RowActions>
            <Button
              size="compact-xs"
              variant="default"
              aria-label={
                person.platformAdmin
                  ? `Take administration from ${person.userName}`
                  : `Make administrator: ${person.userName}`
              }
              onClick={() => onAsk(askPlatform(person))}
            >
              {person.platformAdmin ? 'Revoke administrator' : 'Make administrator'}
            </Button>
            <Button
              size="compact-xs"
              variant="default"
              aria-label={`${person.enabled ? 'Disable' : 'Enable'} ${person.userName}`}
              onClick={() => onAsk(askEnabled(person))}
            >
              {person.enabled ? 'Disable' : 'Enable'}
            </Button>
          </RowActions>
        </tr>
      ))}
    </DataTable>
  );
}
