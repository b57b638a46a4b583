import { Button, Menu } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { changeLimits, createAccount, deleteAccount, setAccountStatus } from '../../api/adminMutations';
import { accountsQuery } from '../../api/adminQueries';
import type { Account } from '../../api/types';
import { LimitsDialog, NewAccountDialog } from '../../components/admin/AccountDialogs';
import { AccountStatus } from '../../components/admin/AccountStatus';
import { limitNames, limitText } from '../../components/admin/words';
import { useChange } from '../../hooks/useChange';
import { DataTable, RowAction, RowActions } from '../../ui/DataTable';
import { Confirm } from '../../ui/Confirm';
import { ChevronDown, Plus } from '../../ui/icons';
import { Page } from '../../ui/Page';
import { ShownOnce } from '../../ui/ShownOnce';
import { QueryView } from '../../ui/States';
import { Ago } from '../../ui/Time';

/** All are offered: which of them its state allows, the server says. */
const VERBS = ['suspend', 'activate', 'delete', 'restore'] as const;
type Verb = (typeof VERBS)[number];

const TELL: Record<Verb, string> = {
  suspend: 'Nobody can sign in and no key works until the account is activated again. All data is kept.',
  activate: 'People can sign in and keys work again.',
  delete: 'Nobody can sign in. The account can be restored; its name stays reserved.',
  restore: 'Everything is restored as it was before the deletion.',
};

const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);

/** All accounts, for administrators of the platform. */
export function AccountsPage() {
  const accounts = useQuery(accountsQuery);
  const [making, setMaking] = useState(false);
  const [invitation, setInvitation] = useState<string>();
  const [limiting, setLimiting] = useState<Account>();
  const [asking, setAsking] = useState<{ account: Account; verb: Verb }>();
  const change = useChange(['platform'], ['account'], ['usage']);
  const id = asking?.account._id ?? '';
  return (
    <Page
      title="Accounts"
      documentTitle="Accounts"
      subtitle="All accounts on this installation, including deleted ones."
      actions={
        <Button leftSection={<Plus />} onClick={() => setMaking(true)}>
          New account
        </Button>
      }
    >
      <div className="panel">
        <QueryView query={accounts}>
          {(all) => (
            <AccountTable
              accounts={all}
              onLimit={setLimiting}
              onAsk={(account, verb) => setAsking({ account, verb })}
            />
          )}
        </QueryView>
      </div>
      {making && (
        <NewAccountDialog
          onClose={() => setMaking(false)}
          create={async (request) => {
            const { invitationUrl } = await change(createAccount(request));
            setMaking(false);
            setInvitation(invitationUrl ?? undefined);
          }}
        />
      )}
      {invitation && (
        <ShownOnce
          title="Invitation for the account's administrator"
          text={invitation}
          what="link"
          onClose={() => setInvitation(undefined)}
        >
          Send them this link. It will not be shown again.
        </ShownOnce>
      )}
      {limiting && (
        <LimitsDialog
          account={limiting}
          onClose={() => setLimiting(undefined)}
          save={(limits) => change(changeLimits(limiting._id, limits))}
        />
      )}
      <Confirm
        opened={Boolean(asking)}
        onClose={() => setAsking(undefined)}
        title={`${capital(asking?.verb ?? '')} account ${asking?.account.name ?? ''}?`}
        verb={capital(asking?.verb ?? '')}
        danger={asking?.verb === 'delete' || asking?.verb === 'suspend'}
        action={() =>
          change(asking?.verb === 'delete' ? deleteAccount(id) : setAccountStatus(id, asking?.verb ?? ''))
        }
      >
        {asking && TELL[asking.verb]}
      </Confirm>
    </Page>
  );
}

interface AccountTableProps {
  accounts: Account[];
  onLimit: (account: Account) => void;
  onAsk: (account: Account, verb: Verb) => void;
}

function AccountTable({ accounts, onLimit, onAsk }: AccountTableProps) {
  return (
    <DataTable label="Accounts" heads={['Account', 'State', 'Created', 'Limits', 'Actions']}>
      {accounts.map((account) => (
        <tr key={account._id}>
          <td>{account.name}</td>
          <td>
            <AccountStatus status={account.status} />
          </td>
          <td>
            <Ago at={account.created} />
          </td>
          <td className="muted">{limitsText(account.limits)}</td>
          <RowActions>
            <RowAction label={`Limits of ${account.name}`} onClick={() => onLimit(account)}>
              Limits
            </RowAction>
            <Menu position="bottom-end">
              <Menu.Target>
                <Button
                  size="compact-xs"
                  variant="default"
                  rightSection={<ChevronDown />}
                  aria-label={`Change the state of ${account.name}`}
                >
                  State
                </Button>
              </Menu.Target>
              <Menu.Dropdown>
                {VERBS.map((verb) => (
                  <Menu.Item key={verb} onClick={() => onAsk(account, verb)}>
                    {capital(verb)}
                  </Menu.Item>
                ))}
              </Menu.Dropdown>
            </Menu>
          </RowActions>
        </tr>
      ))}
    </DataTable>
  );
}

function limitsText(limits: Record<string, unknown>): string {
  const set = limitNames.filter((name) => typeof limits[name] === 'number');
  const plan = typeof limits['plan'] === 'string' ? [limits['plan']] : [];
  return (
    [...plan, ...set.map((name) => `${limitText(name).toLowerCase()} ${String(limits[name])}`)].join(', ') ||
    'none'
  );
}
