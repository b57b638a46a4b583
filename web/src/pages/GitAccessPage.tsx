import { Button, NativeSelect, PasswordInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { gitAccess, readBrought, type Brought, type GitPlace } from '../api/gitAccess';
import type { GitAccount, GitAccounts } from '../api/types';
import { PROVIDERS, placeText } from '../components/gitPlace';
import { useChange } from '../hooks/useChange';
import { Action } from '../ui/Action';
import { Confirm } from '../ui/Confirm';
import { CopyText } from '../ui/CopyText';
import { DataTable } from '../ui/DataTable';
import { FormDialog, FormError } from '../ui/FormDialog';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Ago } from '../ui/Time';

const route = getRouteApi('/signed-in/runtimes/$name/git');
const KEY = 'git-access';

/** One's own Git access at a runtime; where a provider's sign-in comes back to. */
export function GitAccessPage() {
  const { name } = route.useParams();
  const [brought, setBrought] = useState(() => readBrought(window.location.hash));
  const [giving, setGiving] = useState(false);
  const accounts = useQuery({
    queryKey: [KEY, name],
    queryFn: ({ signal }) => gitAccess.accounts(name, signal),
  });
  useEffect(() => {
    // A code is good once; it stays neither in the address nor in the history.
    if (readBrought(window.location.hash))
      window.history.replaceState(window.history.state, '', window.location.pathname);
  }, []);
  return (
    <Page
      title="Your Git access"
      documentTitle={`Git access at ${name}`}
      subtitle={
        <>
          With what you give runtime{' '}
          <Link to="/runtimes/$name" params={{ name }}>
            {name}
          </Link>
          , it lists what you see and makes commits that are yours. It stays in its cluster.
        </>
      }
      actions={<Action onClick={() => setGiving(true)}>Give a token</Action>}
    >
      {brought && <BroughtBack runtime={name} brought={brought} onDone={() => setBrought(undefined)} />}
      <QueryView query={accounts}>{(data) => <Accounts runtime={name} accounts={data} />}</QueryView>
      {giving && <GiveToken runtime={name} onClose={() => setGiving(false)} />}
    </Page>
  );
}

/** Ends the sign-in that this tab began; otherwise the person carries the code to where it was begun. */
function BroughtBack({
  runtime,
  brought,
  onDone,
}: {
  runtime: string;
  brought: Brought;
  onDone: () => void;
}) {
  const change = useChange([KEY, runtime]);
  const [ours] = useState(() => gitAccess.isOurs(runtime, brought.state));
  const sent = useRef(false);
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => change(gitAccess.end(runtime, brought.state, brought.code)),
    onSuccess: onDone,
  });
  const ends = ours && !brought.error;
  useEffect(() => {
    if (!ends || sent.current) return;
    sent.current = true;
    mutate();
  }, [ends, mutate]);
  return (
    <section className="panel" aria-label="Sign-in">
      <div className="body stack" role="status">
        {brought.error && <p>The Git provider said no ({brought.error}). Nothing was changed.</p>}
        {!brought.error && !ours && (
          <>
            <p>
              This sign-in was not begun in this tab. If you began it yourself, in a terminal or in another
              tab, give it this code there; otherwise do nothing.
            </p>
            <CopyText text={brought.code} what="code" />
          </>
        )}
        {isPending && <p>Signing in…</p>}
        <FormError error={error} />
      </div>
    </section>
  );
}

function Accounts({ runtime, accounts }: { runtime: string; accounts: GitAccounts }) {
  const change = useChange([KEY, runtime]);
  const [forgetting, setForgetting] = useState<GitAccount>();
  const offered = accounts.signIn ?? [];
  return (
    <>
      <section className="panel" aria-labelledby="given">
        <header>
          <h2 id="given">What you gave it</h2>
        </header>
        {accounts.tokens.length === 0 ? (
          <Empty title="Nothing yet">
            {offered.length > 0 ? 'Sign in to a Git provider below, or give' : 'Give'} it a personal token.
          </Empty>
        ) : (
          <DataTable
            labelledBy="given"
            heads={['Git provider', 'Login', 'Commits as', 'By', 'Since', 'Actions']}
          >
            {accounts.tokens.map((account) => (
              <tr key={placeText(account)}>
                <td>{placeText(account)}</td>
                <td>{account.login || '–'}</td>
                <td>
                  {account.name} &lt;{account.email}&gt;
                </td>
                <td>{account.signedIn ? 'Sign-in' : 'Personal token'}</td>
                <td>
                  <Ago at={account.registered} />
                </td>
                <td className="right">
                  <Action size="xs" onClick={() => setForgetting(account)}>
                    Forget
                  </Action>
                </td>
              </tr>
            ))}
          </DataTable>
        )}
      </section>
      {offered.length > 0 && (
        <section className="panel" aria-labelledby="sign-in">
          <header>
            <h2 id="sign-in">Sign in instead of giving a token</h2>
          </header>
          <div className="body stack">
            {offered.map((place) => (
              <SignIn key={placeText(place)} runtime={runtime} place={place} />
            ))}
            <CarriedCode runtime={runtime} />
          </div>
        </section>
      )}
      <Confirm
        opened={Boolean(forgetting)}
        onClose={() => setForgetting(undefined)}
        title={`Forget your access to ${forgetting ? placeText(forgetting) : ''}?`}
        verb="Forget"
        danger
        action={() => change(forgetting ? gitAccess.forget(runtime, forgetting) : Promise.resolve())}
      >
        The runtime deletes it and commits nothing for you there. What it could do at the Git provider ends
        when you revoke it there, too.
      </Confirm>
    </>
  );
}

function SignIn({ runtime, place }: { runtime: string; place: GitPlace }) {
  const begin = useMutation({
    mutationFn: () => gitAccess.begin(runtime, place),
    onSuccess: (url) => window.location.assign(url),
  });
  return (
    <div>
      <Button variant="default" loading={begin.isPending} onClick={() => begin.mutate()}>
        Sign in to {placeText(place)}
      </Button>
      <FormError error={begin.error} />
    </div>
  );
}

/** Where the provider could not send the browser on to this page, it showed a code. */
function CarriedCode({ runtime }: { runtime: string }) {
  const change = useChange([KEY, runtime]);
  const [code, setCode] = useState('');
  const state = gitAccess.underWay(runtime);
  const end = useMutation({
    mutationFn: () => change(gitAccess.end(runtime, state ?? '', code.trim())),
    onSuccess: () => setCode(''),
  });
  if (!state) return null;
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        if (code.trim()) end.mutate();
      }}
    >
      <TextInput
        label="Code"
        description="If you were shown one at the end, instead of coming back here."
        value={code}
        onChange={(event) => setCode(event.currentTarget.value)}
        style={{ flex: 1 }}
      />
      <Button type="submit" variant="default" loading={end.isPending}>
        Use code
      </Button>
      <FormError error={end.error} />
    </form>
  );
}

function GiveToken({ runtime, onClose }: { runtime: string; onClose: () => void }) {
  const change = useChange([KEY, runtime]);
  const form = useForm({
    initialValues: { provider: 'github', host: '', token: '' },
    validate: { token: (token) => (token.trim() ? null : 'Enter a token') },
  });
  return (
    <FormDialog
      title="Give a personal token"
      verb="Give"
      onClose={onClose}
      submit={() => {
        if (form.validate().hasErrors) return undefined;
        const { provider, host, token } = form.values;
        return () => change(gitAccess.register(runtime, { provider, host: host.trim() }, token.trim()));
      }}
    >
      <NativeSelect label="Git provider" data={PROVIDERS} {...form.getInputProps('provider')} />
      <TextInput
        label="Address"
        description="Leave it empty for the public one. The runtime has to know the host by one of its repository Secrets."
        placeholder="https://git.example.com"
        {...form.getInputProps('host')}
      />
      <PasswordInput
        data-autofocus
        label="Token"
        description="It goes to the runtime, which asks the provider whose it is. Slipway does not store it."
        autoComplete="off"
        {...form.getInputProps('token')}
      />
    </FormDialog>
  );
}
