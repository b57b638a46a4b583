import { Button, PasswordInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useRouter, useRouterState } from '@tanstack/react-router';
import { useEffect } from 'react';
import { acceptInvitation, acceptThrough, lookAtInvitation } from '../api/adminMutations';
import { userQuery } from '../api/queries';
import type { InvitationView } from '../api/types';
import { roleText } from '../components/admin/words';
import { Mark } from '../components/Mark';
import { FormError } from '../ui/FormDialog';
import { Key } from '../ui/icons';
import { QueryView } from '../ui/States';
import styles from './LoginPage.module.css';

/** Where the link of an invitation leads: see what it is to, choose a password (or give one's own), and be in. */
export function InvitationPage() {
  const token = useRouterState({ select: (state) => state.location.hash });
  const invitation = useQuery({
    queryKey: ['invitation', token],
    retry: false,
    refetchInterval: false,
    queryFn: () => lookAtInvitation(token),
  });
  useEffect(() => {
    document.title = 'Invitation · Slipway';
  }, []);
  return (
    <main className={styles.page}>
      <div className={styles.brand}>
        <Mark size={44} />
        <h1>Slipway</h1>
      </div>
      <div className={styles.form}>
        <QueryView query={invitation}>{(view) => <Accept view={view} token={token} />}</QueryView>
        <p className="muted" style={{ fontSize: 12 }}>
          <Link to="/login">Sign in</Link> if you have accepted it already.
        </p>
      </div>
    </main>
  );
}

function Accept({ view, token }: { view: InvitationView; token: string }) {
  const through = useMutation({
    mutationFn: (client: string) => acceptThrough(client, token),
    onSuccess: ({ url }) => window.location.assign(url),
  });
  return (
    <div className="stack">
      <p>
        You are invited to the account <strong>{view.accountName}</strong> as {roleText(view.role)}, with the
        address <strong>{view.email}</strong>.
      </p>
      {view.sso?.map((provider) => (
        <Button
          key={provider.name}
          variant={view.password ? 'default' : 'filled'}
          size="sm"
          fullWidth
          leftSection={<Key />}
          loading={through.isPending}
          onClick={() => through.mutate(provider.name)}
        >
          Continue with {provider.displayName}
        </Button>
      ))}
      <FormError error={through.error} />
      {view.password && <ByPassword view={view} token={token} />}
    </div>
  );
}

function ByPassword({ view, token }: { view: InvitationView; token: string }) {
  const router = useRouter();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: { name: '', password: '', again: '' },
    validate: {
      password: (password) => (password ? null : 'Enter a password'),
      again: (again, { password }) =>
        view.known || again === password ? null : 'The passwords do not match',
    },
  });
  const accept = useMutation({
    mutationFn: ({ name, password }: { name: string; password: string }) =>
      acceptInvitation({ token, password, name: name.trim() || null }),
    onSuccess: (user) => {
      // Whoever was signed in here before is forgotten; the invitation, which is used up now, is not asked for again.
      queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'invitation' });
      queryClient.setQueryData(userQuery.queryKey, user);
      router.history.push('/');
    },
  });
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit((values) => accept.mutate(values))}
      aria-label={`Join ${view.accountName}`}
    >
      {!view.known && (
        <TextInput
          label="Your name"
          description="Shown to others; default: the first part of your e-mail address"
          autoComplete="name"
          {...form.getInputProps('name')}
        />
      )}
      <input hidden type="text" name="username" autoComplete="username" value={view.email} readOnly />
      <PasswordInput
        label={view.known ? 'Your password' : 'Choose a password'}
        {...(view.known ? {} : { description: 'A passphrase of a few words is easier to remember' })}
        autoComplete={view.known ? 'current-password' : 'new-password'}
        {...form.getInputProps('password')}
      />
      {!view.known && (
        <PasswordInput
          label="Confirm password"
          autoComplete="new-password"
          {...form.getInputProps('again')}
        />
      )}
      <FormError error={accept.error} />
      <Button type="submit" size="sm" fullWidth loading={accept.isPending}>
        Join {view.accountName}
      </Button>
    </form>
  );
}
