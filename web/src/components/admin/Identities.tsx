import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { linkIdentity, unlinkIdentity } from '../../api/adminMutations';
import { identitiesQuery } from '../../api/adminQueries';
import type { LinkedIdentity } from '../../api/types';
import { useChange } from '../../hooks/useChange';
import { Confirm } from '../../ui/Confirm';
import { DataTable } from '../../ui/DataTable';
import { QueryView } from '../../ui/States';
import { Status } from '../../ui/Status';
import { Ago } from '../../ui/Time';

/** What one is called at the identity providers of one's accounts. Nothing is shown where there are none. */
export function Identities() {
  const identities = useQuery(identitiesQuery);
  const change = useChange(['identities'], ['sessions']);
  const [asking, setAsking] = useState<LinkedIdentity>();
  if (identities.data?.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="identities">
      <header>
        <h2 id="identities">Single sign-on</h2>
      </header>
      <QueryView query={identities}>
        {(all) => (
          <DataTable
            labelledBy="identities"
            heads={['Provider', 'Account', 'Issuer', 'You there', 'Actions']}
          >
            {all.map((identity) => (
              <tr key={identity.client}>
                <td>{identity.client}</td>
                <td>{identity.account}</td>
                <td className="mono">{identity.issuer}</td>
                <td>
                  {identity.linked ? (
                    <>
                      <span className="mono">{identity.subject}</span>{' '}
                      {identity.created && (
                        <span className="muted">
                          linked <Ago at={identity.created} />
                        </span>
                      )}
                    </>
                  ) : (
                    <Status tone="off">Not linked</Status>
                  )}
                </td>
                <td className="right">
                  <Button size="compact-xs" variant="default" onClick={() => setAsking(identity)}>
                    {identity.linked ? 'Unlink' : 'Link'}
                  </Button>
                </td>
              </tr>
            ))}
          </DataTable>
        )}
      </QueryView>
      <Confirm
        opened={Boolean(asking)}
        onClose={() => setAsking(undefined)}
        title={asking?.linked ? `Unlink ${asking.client}?` : `Link ${asking?.client ?? ''}?`}
        verb={asking?.linked ? 'Unlink' : 'Continue to the provider'}
        danger={asking?.linked ?? false}
        action={async () => {
          if (asking?.linked) return change(unlinkIdentity(asking.client));
          const { url } = await linkIdentity(asking?.client ?? '');
          window.location.assign(url);
        }}
      >
        {asking?.linked ? (
          'You can no longer sign in with it, and sessions that began with it end.'
        ) : (
          <>
            Whoever signs in at <span className="mono">{asking?.issuer}</span> as you are signed in there will
            be you in the account <strong>{asking?.account}</strong>. Link it only if you set out to do so
            yourself.
          </>
        )}
      </Confirm>
    </section>
  );
}
