import { TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { takeDomainBack, verifyDomain } from '../../api/adminMutations';
import { domainsQuery } from '../../api/adminQueries';
import { userQuery } from '../../api/queries';
import { useChange } from '../../hooks/useChange';
import { Action } from '../../ui/Action';
import { Confirm } from '../../ui/Confirm';
import { DataTable } from '../../ui/DataTable';
import { FormDialog } from '../../ui/FormDialog';
import { Plus } from '../../ui/icons';
import { Empty, QueryView } from '../../ui/States';
import { Ago } from '../../ui/Time';

/** Domains whose addresses this account's providers may speak for. The platform's administrators say which. */
export function Domains() {
  const domains = useQuery(domainsQuery);
  const { data: user } = useQuery(userQuery);
  const change = useChange(['sso']);
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<string>();
  const account = user?.activeAccountName ?? '';
  const reason = user?.platformAdmin
    ? undefined
    : 'An administrator of the platform verifies domains, signed in with a password.';
  return (
    <section className="panel" aria-labelledby="domains">
      <header>
        <h2 id="domains">Verified domains</h2>
        <Action leftSection={<Plus />} disabledReason={reason} onClick={() => setAdding(true)}>
          Add a domain
        </Action>
      </header>
      <QueryView
        query={domains}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="No verified domain">
              Providers of this account let in people who are invited or linked. New people come in with an
              address of a domain that is verified for this account.
            </Empty>
          )
        }
      >
        {(all) => (
          <DataTable labelledBy="domains" heads={['Domain', 'Verified by', 'Since', 'Actions']}>
            {all.map(({ domain, verifiedBy, created }) => (
              <tr key={domain}>
                <td className="mono">{domain}</td>
                <td>{verifiedBy}</td>
                <td>
                  <Ago at={created} />
                </td>
                <td className="right">
                  <Action size="compact-xs" disabledReason={reason} onClick={() => setRemoving(domain)}>
                    Remove
                  </Action>
                </td>
              </tr>
            ))}
          </DataTable>
        )}
      </QueryView>
      {adding && (
        <DomainDialog
          onClose={() => setAdding(false)}
          add={(domain) => change(verifyDomain(account, domain))}
        />
      )}
      <Confirm
        opened={Boolean(removing)}
        onClose={() => setRemoving(undefined)}
        title={`Remove ${removing ?? ''}?`}
        verb="Remove"
        danger
        action={() => change(takeDomainBack(account, removing ?? ''))}
      >
        Nobody new comes in with such an address. People who came stay members.
      </Confirm>
    </section>
  );
}

function DomainDialog({ onClose, add }: { onClose: () => void; add: (domain: string) => Promise<unknown> }) {
  const form = useForm({
    initialValues: { domain: '' },
    validate: { domain: (domain) => (domain.trim() ? null : 'Enter a domain, such as example.com') },
  });
  return (
    <FormDialog
      title="Add a verified domain"
      verb="It belongs to this account"
      onClose={onClose}
      submit={() =>
        form.validate().hasErrors ? undefined : async () => add(form.values.domain.trim().toLowerCase())
      }
    >
      <TextInput
        data-autofocus
        label="Domain"
        description="Check first that the company owns it: the account's providers may bring in anybody with such an address"
        placeholder="example.com"
        {...form.getInputProps('domain')}
      />
    </FormDialog>
  );
}
