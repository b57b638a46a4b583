// One's own Git access at a runtime of the mock: a token that it was given, and a Gitea where one can sign in.

const account = (provider, host, signedIn) => ({
  provider,
  host,
  login: 'ada',
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  registered: new Date(Date.now() - 864e5).toISOString(),
  signedIn,
});

const GITEA = 'https://git.example.com';
export const STATE = '5a'.repeat(32);

export function createGitAccess() {
  let tokens = [account('github', '', false)];
  let challenge;
  const put = (made) => {
    tokens = [...tokens.filter((one) => one.provider !== made.provider), made];
    return made;
  };
  return (method, verb, body) => {
    switch (`${method} ${verb}`) {
      case 'GET git-tokens':
        return { tokens, signIn: [{ provider: 'gitea', host: GITEA }] };
      case 'POST git-register':
        return body.token === 'wrong'
          ? {
              refuse: 422,
              message: 'gitlab refuses the token for this: check its scopes, or register a new one',
            }
          : put(account(body.provider, body.host ?? '', false));
      case 'POST git-forget':
        tokens = tokens.filter(({ provider }) => provider !== body.provider);
        return { message: 'the token is deleted' };
      case 'POST git-authorize':
        ({ challenge } = body);
        return { url: '/mock/gitea', state: STATE, expires: new Date(Date.now() + 6e5).toISOString() };
      case 'POST git-connect':
        if (!challenge || body.state !== STATE || body.code !== 'c0de' || !body.word)
          return { refuse: 422, message: 'no sign-in of yours is under way with this: begin again' };
        challenge = undefined;
        return put(account('gitea', GITEA, true));
      default:
        return undefined;
    }
  };
}
