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
    : 'Only a platform administrator who signed in with a password can verify domains.';
  return (
    <section className="panel" aria-labelledby="domains">
      <header>
        <h2 id="domains">Verified domains</h2>
        <Action leftSection={<Plus />} disabledReason={reason} onClick={() => setAdding(true)}>
          Add domain
        </Action>
      </header>
      <QueryView
        query={domains}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="No verified domain">
              People sign in through this account’s providers if they are invited or linked. With a verified
              domain, new people with an address of that domain can join.
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
        People with such an address can no longer join. Existing members stay.
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
      verb="Add domain"
      onClose={onClose}
      submit={() =>
        form.validate().hasErrors ? undefined : async () => add(form.values.domain.trim().toLowerCase())
      }
    >
      <TextInput
        data-autofocus
        label="Domain"
        description="Check first that the company owns it: the account’s providers can then add anyone with such an address"
        placeholder="example.com"
        {...form.getInputProps('domain')}
      />
    </FormDialog>
  );
}
