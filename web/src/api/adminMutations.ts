/** What the administration pages change. What needs a recent sign-in asks for the password and goes on. */
import { subjectOf } from './adminQueries';
import { http, setCsrfToken, unwrap } from './client';
import { confirmed } from './confirm';
import type {
  AcceptInvitation,
  ChangePlatformUser,
  ChangeServiceAccount,
  ChangeSsoClient,
  Context,
  CreateAccount,
  CreateInvitation,
  CreateServiceAccount,
  CreateSsoClient,
  CreateTeam,
  RuleSpec,
  User,
} from './types';

/** The new session's token goes with every later change. */
function entered(user: User): User {
  setCsrfToken(user.csrfToken);
  return user;
}

// The signed-in person.

export const changePassword = async (current: string, fresh: string) =>
  entered(await unwrap(http.POST('/api/auth/password', { body: { current, new: fresh } })));

export const endSession = (id: string) =>
  unwrap(http.DELETE('/api/auth/sessions/{id}', { params: { path: { id } } }));

/** Where to send the browser, with the account and the issuer that it is about. */
export const linkIdentity = (client: string) =>
  confirmed(() => unwrap(http.POST('/api/user/identities/{client}', { params: { path: { client } } })));

export const unlinkIdentity = (client: string) =>
  confirmed(() => unwrap(http.DELETE('/api/user/identities/{client}', { params: { path: { client } } })));

export const acceptThrough = (client: string, token: string) =>
  unwrap(http.POST('/api/auth/{client}/invitation', { params: { path: { client } }, body: { token } }));

export const lookAtInvitation = (token: string) =>
  unwrap(http.POST('/api/auth/invitation/look', { body: { token } }));

export const acceptInvitation = async (request: AcceptInvitation) =>
  entered(await unwrap(http.POST('/api/auth/invitation/accept', { body: request })));

// API keys.

/** Answers the key's text: the only time that it is shown. */
export const createKey = (name: string, scopes: string[], serviceAccount?: string) =>
  confirmed(() =>
    unwrap(
      http.POST('/api/auth/key', {
        params: { query: subjectOf(serviceAccount) },
        body: { name, scopes },
      }),
    ),
  );

export const revokeKey = (id: string) =>
  unwrap(http.DELETE('/api/auth/key/{id}', { params: { path: { id } } }));

// The account.

export const changeAccount = (name: string, settings: Record<string, unknown>) =>
  confirmed(() => unwrap(http.PATCH('/api/account', { body: { name, settings } })));

export const changeRole = (id: string, role: string) =>
  confirmed(() => unwrap(http.PATCH('/api/users/{id}', { params: { path: { id } }, body: { role } })));

/** In this account alone. */
export const setSuspended = (id: string, suspended: boolean) =>
  confirmed(() => unwrap(http.PATCH('/api/users/{id}', { params: { path: { id } }, body: { suspended } })));

export const removeMember = (id: string) =>
  unwrap(http.DELETE('/api/users/{id}', { params: { path: { id } } }));

export const invite = (request: CreateInvitation) =>
  confirmed(() => unwrap(http.POST('/api/invitations', { body: request })));

export const resendInvitation = (id: string) =>
  confirmed(() => unwrap(http.POST('/api/invitations/{id}/resend', { params: { path: { id } } })));

export const revokeInvitation = (id: string) =>
  unwrap(http.DELETE('/api/invitations/{id}', { params: { path: { id } } }));

export const createTeam = (request: CreateTeam) =>
  confirmed(() => unwrap(http.POST('/api/team', { body: request })));

export const changeTeam = (team: string, request: CreateTeam) =>
  confirmed(() => unwrap(http.PUT('/api/team/{team}', { params: { path: { team } }, body: request })));

export const deleteTeam = (team: string) =>
  unwrap(http.DELETE('/api/team/{team}', { params: { path: { team } } }));

export const createServiceAccount = (request: CreateServiceAccount) =>
  confirmed(() => unwrap(http.POST('/api/service-users', { body: request })));

export const changeServiceAccount = (name: string, request: ChangeServiceAccount) =>
  confirmed(() =>
    unwrap(http.PATCH('/api/service-users/{name}', { params: { path: { name } }, body: request })),
  );

export const deleteServiceAccount = (name: string) =>
  unwrap(http.DELETE('/api/service-users/{name}', { params: { path: { name } } }));

// Access.

export const createRule = (spec: RuleSpec) => confirmed(() => unwrap(http.POST('/api/abac', { body: spec })));

export const replaceRule = (id: string, spec: RuleSpec) =>
  confirmed(() => unwrap(http.PUT('/api/abac/{id}', { params: { path: { id } }, body: spec })));

export const deleteRule = (id: string) =>
  confirmed(() => unwrap(http.DELETE('/api/abac/{id}', { params: { path: { id } } })));

export const createSso = (request: CreateSsoClient) =>
  confirmed(() => unwrap(http.POST('/api/idp', { body: request })));

export const changeSso = (name: string, request: ChangeSsoClient) =>
  confirmed(() => unwrap(http.PATCH('/api/idp/{name}', { params: { path: { name } }, body: request })));

export const verifyDomain = (account: string, domain: string) =>
  confirmed(() =>
    unwrap(
      http.POST('/api/admin/accounts/{account}/domains', { params: { path: { account } }, body: { domain } }),
    ),
  );

export const takeDomainBack = (account: string, domain: string) =>
  confirmed(() =>
    unwrap(
      http.DELETE('/api/admin/accounts/{account}/domains/{domain}', {
        params: { path: { account, domain } },
      }),
    ),
  );

export const deleteSso = (name: string) =>
  unwrap(http.DELETE('/api/idp/{name}', { params: { path: { name } } }));

// Shared configuration and integrations.

export const createContext = (context: Context) => unwrap(http.POST('/api/contexts', { body: context }));

export const replaceContext = (name: string, context: Context) =>
  unwrap(http.PUT('/api/contexts/{name}', { params: { path: { name } }, body: context }));

/** Whether its credential is good: asked of the Git provider or the registry now. */
export const testIntegration = (name: string, registry: boolean) =>
  registry
    ? unwrap(http.POST('/api/registries/{name}/test', { params: { path: { name } } }))
    : unwrap(http.POST('/api/contexts/{name}/test', { params: { path: { name } } }));

export const deleteContext = (name: string) =>
  unwrap(http.DELETE('/api/contexts/{name}', { params: { path: { name } } }));

// The platform.

export const createAccount = (request: CreateAccount) =>
  confirmed(() => unwrap(http.POST('/api/admin/accounts', { body: request })));

export const changeLimits = (account: string, limits: Record<string, unknown>) =>
  confirmed(() =>
    unwrap(http.PATCH('/api/admin/accounts/{account}', { params: { path: { account } }, body: { limits } })),
  );

/** `suspend`, `activate` or `restore`. */
export const setAccountStatus = (account: string, action: string) =>
  confirmed(() =>
    unwrap(
      http.POST('/api/admin/accounts/{account}/status', { params: { path: { account } }, body: { action } }),
    ),
  );

export const deleteAccount = (account: string) =>
  confirmed(() => unwrap(http.DELETE('/api/admin/accounts/{account}', { params: { path: { account } } })));

export const changePerson = (user: string, request: ChangePlatformUser) =>
  confirmed(() =>
    unwrap(http.PATCH('/api/admin/users/{user}', { params: { path: { user } }, body: request })),
  );

export const rotateSecrets = () => confirmed(() => unwrap(http.POST('/api/admin/secrets/rotate')));
