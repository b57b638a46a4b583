/** What the administration pages read. Keys start with the noun, as in `queries.ts`. */
import { queryOptions } from '@tanstack/react-query';
import { confirmed } from './confirm';
import { http, unwrap } from './client';

export const accountQuery = queryOptions({
  queryKey: ['account'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/account', { signal })),
});

export const membersQuery = queryOptions({
  queryKey: ['members'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/users', { signal })),
});

export const invitationsQuery = queryOptions({
  queryKey: ['invitations'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/invitations', { signal })),
});

export const teamsQuery = queryOptions({
  queryKey: ['teams'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/team', { signal })),
});

export const serviceAccountsQuery = queryOptions({
  queryKey: ['service-accounts'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/service-users', { signal })),
});

/** Whose keys: one's own, or those of a service account by its name. */
export const keysQuery = (serviceAccount?: string) =>
  queryOptions({
    queryKey: ['keys', serviceAccount ?? ''],
    queryFn: ({ signal }) =>
      unwrap(http.GET('/api/auth/keys', { params: { query: subjectOf(serviceAccount) }, signal })),
  });

export const subjectOf = (serviceAccount: string | undefined) =>
  serviceAccount
    ? { subjectType: 'service-account', subjectReference: serviceAccount }
    : { subjectType: 'user' };

export const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/auth/sessions', { signal })),
});

export const rulesQuery = queryOptions({
  queryKey: ['rules'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/abac', { signal })),
});

/** What rules can be about: it changes with the server's version only. */
export const ruleKindsQuery = queryOptions({
  queryKey: ['rule-kinds'],
  staleTime: Infinity,
  queryFn: ({ signal }) => unwrap(http.GET('/api/abac/kinds', { signal })),
});

export interface Question {
  user: string;
  action: string;
  entity: string;
}

export const explanationQuery = ({ user, action, entity }: Question) =>
  queryOptions({
    queryKey: ['rules', 'explain', user, action, entity],
    retry: false,
    // Old as soon as it is there: the rules may have changed since.
    staleTime: 0,
    queryFn: ({ signal }) =>
      unwrap(
        http.GET('/api/access/explain', {
          params: { query: { action, entity, ...(user ? { user } : {}) } },
          signal,
        }),
      ),
  });

export const contextsQuery = queryOptions({
  queryKey: ['contexts'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/contexts', { signal })),
});

/** With its secrets. Every answer is recorded by the server, so it is asked for once and not kept. */
export const decryptContext = (name: string) =>
  confirmed(() =>
    unwrap(
      http.GET('/api/contexts/{name}', {
        params: { path: { name }, query: { decrypt: 'true' } },
        cache: 'no-store',
      }),
    ),
  );

export interface AuditFilter {
  userName?: string | undefined;
  entity?: string | undefined;
  action?: string | undefined;
  outcome?: string | undefined;
  search?: string | undefined;
  /** Milliseconds since 1970. */
  from?: number | undefined;
  to?: number | undefined;
}

export const AUDIT_PAGE = 50;

/** `platform`: the platform's own chain instead of the account's. */
export const auditQuery = (filter: AuditFilter, page: number, platform = false) =>
  queryOptions({
    queryKey: ['audit', platform, filter, page],
    queryFn: ({ signal }) => {
      const query = { ...auditParams(filter), page, limit: AUDIT_PAGE };
      return unwrap(
        platform
          ? http.GET('/api/admin/audit', { params: { query }, signal })
          : http.GET('/api/audit', { params: { query }, signal }),
      );
    },
  });

export const auditEntitiesQuery = queryOptions({
  queryKey: ['audit', 'entities'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/audit/entitiesList', { signal })),
});

/** Reads the whole chain, so it is asked for by hand. */
export const verifyAudit = (platform = false) =>
  unwrap(platform ? http.GET('/api/admin/audit/verify') : http.GET('/api/audit/verify'));

function auditParams(filter: AuditFilter): AuditFilter {
  return Object.fromEntries(
    Object.entries(filter).filter(([, value]) => value !== undefined && value !== ''),
  );
}

/** The browser follows it by itself; its cookie is what lets it in. */
export function auditCsvUrl(filter: AuditFilter): string {
  const query = new URLSearchParams(
    Object.entries(auditParams(filter)).map(([name, value]) => [name, String(value)]),
  );
  return `/api/audit/download${query.size > 0 ? `?${query}` : ''}`;
}

export const usageQuery = queryOptions({
  queryKey: ['usage'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/usage', { signal })),
});

export const identitiesQuery = queryOptions({
  queryKey: ['identities'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/user/identities', { signal })),
});

export const domainsQuery = queryOptions({
  queryKey: ['sso', 'domains'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/account/domains', { signal })),
});

export const ssoQuery = queryOptions({
  queryKey: ['sso'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/idp', { signal })),
});

export const accountsQuery = queryOptions({
  queryKey: ['platform', 'accounts'],
  queryFn: ({ signal }) => unwrap(http.GET('/api/admin/accounts', { signal })),
});

export const PEOPLE_PAGE = 100;

export const peopleQuery = (page: number) =>
  queryOptions({
    queryKey: ['platform', 'users', page],
    queryFn: ({ signal }) =>
      unwrap(http.GET('/api/admin/users', { params: { query: { page, limit: PEOPLE_PAGE } }, signal })),
  });

export const healthQuery = queryOptions({
  queryKey: ['platform', 'health'],
  refetchInterval: 10_000,
  queryFn: ({ signal }) => unwrap(http.GET('/api/admin/health', { signal })),
});

/** Not part of the described API: it answers in words, also when it is not ready. */
export const readinessQuery = queryOptions({
  queryKey: ['platform', 'readiness'],
  refetchInterval: 10_000,
  queryFn: async ({ signal }) => {
    const answer = await fetch('/readyz', { signal, cache: 'no-store' });
    const text = await answer.text();
    return { ready: answer.ok, text: readinessText(text) };
  },
});

/** A refusal has the shape of every other; its sentence is what people read. */
export function readinessText(text: string): string {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === 'object' && body !== null && 'message' in body) return String(body.message);
  } catch {
    // Plain words, then.
  }
  return text.trim();
}
