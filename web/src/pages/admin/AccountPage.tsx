import { Button, Checkbox, TagsInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { changeAccount } from '../../api/adminMutations';
import { accountQuery } from '../../api/adminQueries';
import { userQuery } from '../../api/queries';
import type { Account } from '../../api/types';
import { readSettings, writeSettings } from '../../components/admin/accountSettings';
import { AccountStatus } from '../../components/admin/AccountStatus';
import { FormError } from '../../ui/FormDialog';
import { Page } from '../../ui/Page';
import { Properties, Property } from '../../ui/Properties';
import { QueryView } from '../../ui/States';
import { Ago } from '../../ui/Time';

/** The account that one is in: its name, and how people get in. */
export function AccountPage() {
  const account = useQuery(accountQuery);
  const { data: user } = useQuery(userQuery);
  return (
    <Page
      title="Account"
      documentTitle="Account"
      subtitle="The account’s name, how people sign in, and how long builds are kept. Users and teams have pages of their own."
    >
      <QueryView query={account}>
        {(found) => (
          <>
            <section className="panel" aria-label="Facts">
              <div className="body">
                <Properties>
                  <Property name="State">
                    <AccountStatus status={found.status} />
                  </Property>
                  <Property name="Made">
                    <Ago at={found.created} />
                  </Property>
                  <Property name="Id">
                    <code>{found._id}</code>
                  </Property>
                </Properties>
              </div>
            </section>
            <Settings key={JSON.stringify(found)} account={found} />
          </>
        )}
      </QueryView>
      <p className="muted">
        An account is suspended, deleted and restored by an administrator of the platform
        {user?.platformAdmin ? (
          <>
            {': you are one, see '}
            <Link to="/admin/platform/accounts">all accounts</Link>.
          </>
        ) : (
          '.'
        )}
      </p>
    </Page>
  );
}

function Settings({ account }: { account: Account }) {
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: { name: account.name, ...readSettings(account.settings) },
    validate: { name: (name) => (name.trim() ? null : 'Enter a name') },
  });
  const save = useMutation({
    mutationFn: ({ name, ...settings }: typeof form.values) =>
      changeAccount(name.trim(), writeSettings(account.settings, settings)),
    onSuccess: async () => {
      notifications.show({ message: 'Account saved.' });
      // The frame shows the account's name too.
      await Promise.all(
        [accountQuery.queryKey, userQuery.queryKey].map((queryKey) =>
          queryClient.invalidateQueries({ queryKey }),
        ),
      );
    },
  });
  return (
    <section className="panel" aria-labelledby="settings">
      <header>
        <h2 id="settings">Settings</h2>
      </header>
      <form
        className="body stack"
        style={{ maxWidth: 560 }}
        noValidate
        onSubmit={form.onSubmit((values) => save.mutate(values))}
      >
        <TextInput
          label="Name"
          description="Lowercase letters, digits and hyphens. The old name stays reserved for a while."
          {...form.getInputProps('name')}
        />
        <TextInput
          label="Sign out after inactivity"
          description="Minutes"
          inputMode="numeric"
          {...form.getInputProps('inactivityMinutes')}
        />
        <TextInput
          label="Maximum session length"
          description="Hours"
          inputMode="numeric"
          {...form.getInputProps('sessionHours')}
        />
        <TagsInput
          label="Allowed e-mail domains for invitations"
          description="Empty: any domain"
          placeholder="example.com"
          {...form.getInputProps('allowedDomains')}
        />
        <Checkbox
          label="Allow sign-in with a password"
          description="Otherwise only through an identity provider"
          {...form.getInputProps('passwordLogin', { type: 'checkbox' })}
        />
        <TextInput
          label="Keep builds for"
          description="Days. Builds that ended longer ago are deleted, with their logs. Empty: for ever"
          inputMode="numeric"
          {...form.getInputProps('keepBuildsDays')}
        />
        <TextInput
          label="Keep logs for"
          description="Days. The build stays, and its log says that it was removed. Empty: as long as the build"
          inputMode="numeric"
          {...form.getInputProps('keepLogsDays')}
        />
        <FormError error={save.error} />
        <div>
          <Button type="submit" loading={save.isPending}>
            Save
          </Button>
        </div>
      </form>
    </section>
  );
}
