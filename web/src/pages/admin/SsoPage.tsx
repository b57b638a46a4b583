import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { changeSso, createSso, deleteSso } from '../../api/adminMutations';
import { ssoQuery } from '../../api/adminQueries';
import type { SsoClient } from '../../api/types';
import { Domains } from '../../components/admin/Domains';
import { SsoDialog } from '../../components/admin/SsoDialog';
import { useChange } from '../../hooks/useChange';
import { Action } from '../../ui/Action';
import { Confirm } from '../../ui/Confirm';
import { CopyText } from '../../ui/CopyText';
import { External, Key, Plus } from '../../ui/icons';
import { Page } from '../../ui/Page';
import { Properties, Property } from '../../ui/Properties';
import { Empty, QueryView } from '../../ui/States';
import { Status } from '../../ui/Status';

/** Identity providers of the account: people sign in there, and their groups become teams here. */
export function SsoPage() {
  const providers = useQuery(ssoQuery);
  const change = useChange(['sso'], ['login-options']);
  const [making, setMaking] = useState(false);
  return (
    <Page
      title="Single sign-on"
      documentTitle="Single sign-on"
      subtitle="People sign in through an OpenID Connect provider; its groups become teams."
      actions={
        <Button leftSection={<Plus />} onClick={() => setMaking(true)}>
          New provider
        </Button>
      }
    >
      <QueryView
        query={providers}
        empty={(all) =>
          all.length === 0 && (
            <div className="panel">
              <Empty title="No identity providers" icon={<Key />}>
                People sign in with a password. Add a provider that speaks OpenID Connect (Gitea, GitLab,
                Keycloak, Google, Entra and many others do), and the sign-in page offers it.
              </Empty>
            </div>
          )
        }
      >
        {(all) => (
          <>
            {all.map((provider) => (
              <Provider key={provider.id} provider={provider} change={change} />
            ))}
          </>
        )}
      </QueryView>
      <Domains />
      {making && (
        <SsoDialog onClose={() => setMaking(false)} create={(request) => change(createSso(request))} />
      )}
    </Page>
  );
}

interface ProviderProps {
  provider: SsoClient;
  change: <T>(work: Promise<T>) => Promise<T>;
}

function Provider({ provider, change }: ProviderProps) {
  const [doing, setDoing] = useState<'change' | 'switch' | 'delete'>();
  const { name, enabled, settings } = provider;
  const close = () => setDoing(undefined);
  const title = settings.displayName || name;
  return (
    <section className="panel" aria-labelledby={`sso-${provider.id}`}>
      <header>
        <div className="row">
          <h2 id={`sso-${provider.id}`}>{title}</h2>
          <Status tone={enabled ? 'ok' : 'off'}>{enabled ? 'Enabled' : 'Disabled'}</Status>
        </div>
        <div className="row" style={{ flexWrap: 'wrap', justifyContent: 'flex-end' }}>
          <Action
            leftSection={<External />}
            disabledReason={enabled ? undefined : 'It is disabled: nobody can sign in with it.'}
            onClick={() => window.open(provider.loginUrl, '_blank', 'noopener')}
          >
            Test sign-in
          </Action>
          <Button variant="default" onClick={() => setDoing('change')}>
            Change
          </Button>
          <Button variant="default" onClick={() => setDoing('switch')}>
            {enabled ? 'Disable' : 'Enable'}
          </Button>
          <Button variant="default" onClick={() => setDoing('delete')}>
            Delete
          </Button>
        </div>
      </header>
      <div className="body stack">
        <div className="row" style={{ flexWrap: 'wrap' }}>
          <span className="muted">Register this callback URL with the provider:</span>
          <CopyText text={provider.callbackUrl} what="callback URL" />
        </div>
        <Properties>
          <Property name="Issuer">{settings.issuer}</Property>
          <Property name="Client id">
            <code>{settings.clientId}</code>
            {!provider.hasSecret && <span className="muted"> (without a secret)</span>}
          </Property>
          <Property name="Scopes">{settings.scopes?.join(' ') || 'the usual ones'}</Property>
          <Property name="Groups become teams">
            {settings.groupsClaim ? (
              <>
                from the claim <code>{settings.groupsClaim}</code>
              </>
            ) : (
              'no'
            )}
          </Property>
          {settings.adminGroup && (
            <Property name="Group of Administrators">
              <code>{settings.adminGroup}</code>
            </Property>
          )}
          <Property name="Offered on">
            {provider.frontPage
              ? "everybody's sign-in page"
              : 'the sign-in page when somebody enters an address of a verified domain, or the account’s name'}
          </Property>
          <Property name="People who are not members">
            {settings.createMembers ? 'become members' : 'need an invitation to their e-mail'}
          </Property>
        </Properties>
      </div>
      {doing === 'change' && (
        <SsoDialog
          provider={provider}
          onClose={close}
          update={(request) => change(changeSso(name, request))}
        />
      )}
      <Confirm
        opened={doing === 'switch'}
        onClose={close}
        title={enabled ? `Disable ${title}?` : `Enable ${title}?`}
        verb={enabled ? 'Disable' : 'Enable'}
        danger={enabled}
        action={() => change(changeSso(name, { enabled: !enabled }))}
      >
        {enabled
          ? 'The sign-in page no longer offers it, and people who signed in with it have to sign in again.'
          : 'The sign-in page offers it again.'}
      </Confirm>
      <Confirm
        opened={doing === 'delete'}
        onClose={close}
        title={`Delete ${title}?`}
        verb="Delete"
        danger
        action={() => change(deleteSso(name))}
      >
        People who joined through it stay members and are signed out. Without a password they can no longer
        sign in.
      </Confirm>
    </section>
  );
}
