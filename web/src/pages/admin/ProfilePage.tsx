import { Button, PasswordInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { changePassword, endSession } from '../../api/adminMutations';
import { sessionsQuery } from '../../api/adminQueries';
import { Identities } from '../../components/admin/Identities';
import { userQuery } from '../../api/queries';
import type { SessionInfo, User } from '../../api/types';
import { roleText } from '../../components/admin/words';
import { useChange } from '../../hooks/useChange';
import { DataTable } from '../../ui/DataTable';
import { Confirm } from '../../ui/Confirm';
import { FormError } from '../../ui/FormDialog';
import { Page } from '../../ui/Page';
import { Properties, Property } from '../../ui/Properties';
import { QueryView } from '../../ui/States';
import { Status } from '../../ui/Status';
import { Ago } from '../../ui/Time';

/** Who one is here, one's password, and the browsers that are signed in. */
export function ProfilePage() {
  const { data: user } = useQuery(userQuery);
  if (!user) return null;
  return (
    <Page
      title={user.userName}
      documentTitle="Your profile"
      subtitle={user.email}
      actions={<Link to="/profile/keys">Your API keys</Link>}
    >
      <Facts user={user} />
      <Identities />
      <Sessions />
      <Password email={user.email} />
    </Page>
  );
}

function Facts({ user }: { user: User }) {
  const active = user.account.find(({ active }) => active);
  return (
    <section className="panel" aria-label="Your account">
      <div className="body">
        <Properties>
          <Property name="Account">{user.activeAccountName}</Property>
          <Property name="Role">
            {roleText(active?.role || user.roles.at(-1) || 'User')}
            {user.platformAdmin && ', administrator of the platform'}
          </Property>
          <Property name="Teams">{user.teams?.join(', ') || 'none'}</Property>
          {user.account.length > 1 && (
            <Property name="All accounts">{user.account.map(({ name }) => name).join(', ')}</Property>
          )}
          {user.sessionEnds && (
            <Property name="This session ends, if it is not used">
              <Ago at={user.sessionEnds} />
            </Property>
          )}
        </Properties>
      </div>
    </section>
  );
}

function Sessions() {
  const sessions = useQuery(sessionsQuery);
  const change = useChange(['sessions']);
  const [ending, setEnding] = useState<SessionInfo>();
  return (
    <section className="panel" aria-labelledby="sessions">
      <header>
        <h2 id="sessions">Active sessions</h2>
      </header>
      <QueryView query={sessions}>
        {(all) => (
          <DataTable
            labelledBy="sessions"
            heads={['Browser', 'Address', 'Account', 'Signed in by', 'Since', 'Last seen', 'Actions']}
          >
            {all.map((session) => (
              <tr key={session.id}>
                <td style={{ maxWidth: 320 }}>
                  <div className="row">
                    <span className="ellipsis" title={session.agent}>
                      {session.agent || 'unknown'}
                    </span>
                    {session.current && <Status tone="ok">This session</Status>}
                  </div>
                </td>
                <td className="mono">{session.address}</td>
                <td>{session.account}</td>
                <td>{session.method}</td>
                <td>
                  <Ago at={session.created} />
                </td>
                <td>
                  <Ago at={session.lastSeen} />
                </td>
                <td className="right">
                  <Button size="compact-xs" variant="default" onClick={() => setEnding(session)}>
                    End
                  </Button>
                </td>
              </tr>
            ))}
          </DataTable>
        )}
      </QueryView>
      <Confirm
        opened={Boolean(ending)}
        onClose={() => setEnding(undefined)}
        title="End this session?"
        verb="End session"
        danger
        action={() => change(endSession(ending?.id ?? ''))}
      >
        {ending?.current
          ? 'This is your current session: you will have to sign in again.'
          : 'That browser will have to sign in again.'}
      </Confirm>
    </section>
  );
}

function Password({ email }: { email: string }) {
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: { current: '', fresh: '', again: '' },
    validate: {
      current: (value) => (value ? null : 'Enter your current password'),
      fresh: (value) => (value ? null : 'Enter a new password'),
      again: (value, { fresh }) => (value === fresh ? null : 'The passwords do not match'),
    },
  });
  const save = useMutation({
    mutationFn: ({ current, fresh }: { current: string; fresh: string }) => changePassword(current, fresh),
    onSuccess: (user) => {
      form.reset();
      queryClient.setQueryData(userQuery.queryKey, user);
      void queryClient.invalidateQueries({ queryKey: sessionsQuery.queryKey });
      notifications.show({ message: 'Password changed. Your other sessions have ended.' });
    },
  });
  return (
    <section className="panel" aria-labelledby="password">
      <header>
        <h2 id="password">Change your password</h2>
      </header>
      <form
        className="body stack"
        style={{ maxWidth: 420 }}
        onSubmit={form.onSubmit((values) => save.mutate(values))}
      >
        {/* For password managers: whose password this is. */}
        <input hidden type="text" name="username" autoComplete="username" value={email} readOnly />
        <PasswordInput
          label="Current password"
          autoComplete="current-password"
          {...form.getInputProps('current')}
        />
        <PasswordInput
          label="New password"
          description="A passphrase of a few words is easier to remember"
          autoComplete="new-password"
          {...form.getInputProps('fresh')}
        />
        <PasswordInput
          label="Confirm new password"
          autoComplete="new-password"
          {...form.getInputProps('again')}
        />
        <FormError error={save.error} />
        <div>
          <Button type="submit" loading={save.isPending}>
            Change password
          </Button>
        </div>
      </form>
    </section>
  );
}
