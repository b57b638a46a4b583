import { Button, PasswordInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { signIn } from '../api/mutations';
import { loginOptionsQuery } from '../api/queries';
import { Mark } from '../components/Mark';
import { FormError } from '../ui/FormDialog';
import { Key } from '../ui/icons';
import styles from './LoginPage.module.css';

const PROBLEM = 'slipway_sign_in_problem';

/** Why a sign-in through a provider came back without one. The server leaves it in a cookie: an address anybody can write. */
function readProblem(): Error | undefined {
  const found = document.cookie.split('; ').find((pair) => pair.startsWith(`${PROBLEM}=`));
  if (!found) return undefined;
  try {
    return new Error(decodeURIComponent(found.slice(PROBLEM.length + 1)));
  } catch {
    return new Error('signing in through the identity provider failed: try again');
  }
}

const route = getRouteApi('/login');

export function LoginPage() {
  const { next } = route.useSearch();
  const [company, setCompany] = useState('');
  const { data: options, isFetching } = useQuery({ ...loginOptionsQuery(company), refetchInterval: false });
  // Only an address of this app: `next` comes from the address bar, and anybody may have written it.
  const onward = next?.startsWith('/') && !next.startsWith('//') ? next : '/';
  const [problem] = useState(readProblem);
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: { email: '', password: '' },
    validate: {
      email: (email) => (email.trim() ? null : 'Enter your e-mail address'),
      password: (password) => (password ? null : 'Enter your password'),
    },
  });
  const login = useMutation({
    mutationFn: signIn,
    onSuccess: () => {
      queryClient.clear();
      // Which runtimes a page may ask is said when it is opened: it is opened anew for who has signed in.
      window.location.assign(onward);
    },
  });
  useEffect(() => {
    document.title = 'Sign in · Slipway';
    document.cookie = `${PROBLEM}=; Path=/login; Max-Age=0`;
  }, []);

  return (
    <main className={styles.page}>
      <div className={styles.brand}>
        <Mark size={44} />
        <h1>Slipway</h1>
      </div>
      <form className={styles.form} onSubmit={form.onSubmit((values) => login.mutate(values))}>
        <TextInput
          label="E-mail"
          autoComplete="username"
          // The page has one purpose, and this is where it starts.
          // oxlint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          {...form.getInputProps('email')}
        />
        <PasswordInput label="Password" autoComplete="current-password" {...form.getInputProps('password')} />
        <FormError error={login.error ?? problem} />
        <Button type="submit" size="sm" fullWidth loading={login.isPending}>
          Sign in
        </Button>
        {options && options.sso.length > 0 && (
          <>
            <div className={styles.or}>or</div>
            {options.sso.map((provider) => (
              <Button
                key={provider.name}
                component="a"
                href={`${provider.loginUrl}?${new URLSearchParams({ return_to: onward })}`}
                variant="default"
                size="sm"
                fullWidth
                leftSection={<Key />}
              >
                Sign in with {provider.displayName}
              </Button>
            ))}
          </>
        )}
        <Button
          variant="subtle"
          size="compact-sm"
          loading={Boolean(company) && isFetching}
          onClick={() => {
            const named = form.values.email.trim();
            if (named) setCompany(named);
            else form.setFieldError('email', "Enter your e-mail address, or your account's name");
          }}
        >
          Find your company's sign-on
        </Button>
        {company && !isFetching && options?.sso.length === 0 && (
          <p role="status" className="muted" style={{ fontSize: 12 }}>
            No single sign-on found for {company}. Enter your work e-mail address, or the name of the account.
          </p>
        )}
        <p className="muted" style={{ fontSize: 12 }}>
          <code>slipway up</code> prints the first administrator’s e-mail address and password.
        </p>
      </form>
    </main>
  );
}
