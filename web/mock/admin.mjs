// What the mock knows of accounts, people, access and the audit trail: enough that every administration page has
// something in every state, and that changes stay until the mock ends.

import { auditRecord, createAdminData, id, iso } from './admin-data.mjs';

const MASK = '*****';

const KINDS = [
  { entityType: 'pipeline', actions: ['create', 'read', 'update', 'delete', 'run', 'approve', 'debug'] },
  { entityType: 'shared-configuration', actions: ['create', 'read', 'update', 'delete'] },
  { entityType: 'git-context', actions: ['create', 'update', 'delete', 'use'] },
  {
    entityType: 'gitopsApplications',
    actions: ['VIEW', 'REFRESH', 'SYNC', 'TERMINATE_SYNC', 'APP_ROLLBACK'],
    attributes: ['CLUSTER', 'NAMESPACE', 'RUNTIME', 'GIT_SOURCE', 'LABEL'],
  },
  {
    entityType: 'gitRepository',
    actions: ['read', 'push'],
    attributes: ['REPOSITORY', 'BRANCH', 'TAG', 'PIPELINE'],
  },
].map((kind) => ({ attributes: [], byTags: !kind.attributes, ...kind }));

const refuse = (status, message) => ({ refuse: status, message });
const missing = (what) => refuse(404, `could not find ${what}`);

const masked = (value, all) => {
  if (typeof value !== 'object' || value === null) return all ? MASK : value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, masked(inner, all || name === 'password')]),
  );
};
const shown = (each) => ({
  ...each,
  spec: { ...each.spec, data: masked(each.spec.data, each.spec.type.startsWith('secret')) },
});
const kept = (fresh, old) => {
  if (fresh === MASK) return old;
  if (typeof fresh !== 'object' || fresh === null) return fresh;
  return Object.fromEntries(Object.entries(fresh).map(([name, inner]) => [name, kept(inner, old?.[name])]));
};

const find = (list, wanted, ...names) => list.find((each) => names.some((name) => each[name] === wanted));
const drop = (list, wanted, name = '_id') => {
  const index = list.findIndex((each) => each[name] === wanted);
  if (index < 0) return missing(`\`${wanted}\``);
  list.splice(index, 1);
  return wanted;
};

export function createAdmin(user) {
  let next = 100;
  const newId = () => id(next++);
  const {
    account,
    accounts,
    members,
    people,
    teams,
    invitations,
    robots,
    keys,
    sessions,
    rules,
    contexts,
    providers,
    audit,
    invitation,
    team,
    inTeam,
    key,
    rule,
    context,
  } = createAdminData(user);

  const note = (action, entity, entityName, detail) =>
    audit.unshift({
      ...auditRecord(audit.length + 1, user),
      createdAt: iso(0),
      action,
      entity,
      entityName,
      outcome: 'allowed',
      status: 200,
      detail,
    });

  function filtered(query) {
    const same = (name, field) => (each) => !query.get(name) || each[field] === query.get(name);
    return audit
      .filter(same('userName', 'userName'))
      .filter(same('entity', 'entity'))
      .filter(same('action', 'action'))
      .filter(same('outcome', 'outcome'))
      .filter((each) => !query.get('from') || Date.parse(each.createdAt) >= Number(query.get('from')))
      .filter((each) => !query.get('to') || Date.parse(each.createdAt) <= Number(query.get('to')))
      .filter((each) => !query.get('search') || JSON.stringify(each).includes(query.get('search')));
  }

  function explain(query) {
    const who = query.get('user') || 'admin';
    const [action, entity] = [query.get('action'), query.get('entity')];
    const known = [
      ...members.flatMap(({ email, userName }) => [email, userName]),
      ...robots.map(({ name }) => name),
    ];
    if (!known.includes(who)) return missing(`user \`${who}\` in this account`);
    const allowed = who === 'admin' || who === user.email || action === 'read' || action === 'run';
    const [kind, ...name] = entity.split('/');
    return {
      user: who,
      action,
      entity,
      allowed,
      reason: allowed
        ? 'a rule lets team `users` read pipeline with any tag'
        : `${who} (in \`users\`) may not ${action} ${kind} \`${name.join('/')}\` (no tags): no rule of the account allows ${action} on ${kind}; ask an Administrator of the account for a rule`,
      ...(allowed ? { rule: id(71) } : {}),
    };
  }

  const limit = (name, used) => ({
    name,
    used,
    ...(account.limits[name] === undefined ? {} : { limit: account.limits[name] }),
    isReached: used >= (account.limits[name] ?? Infinity),
    isExceeded: used > (account.limits[name] ?? Infinity),
    isEnforced: name !== 'applications',
  });
  const usage = () => {
    const seats = members.length + invitations.length;
    const limits = [
      limit('seats', seats),
      limit('runtimes', 2),
      limit('clusters', 2),
      limit('applications', 5),
      limit('parallelBuilds', 1),
    ];
    return {
      ...(account.limits.plan ? { plan: account.limits.plan } : {}),
      limits,
      messages: limits
        .filter(({ isReached }) => isReached)
        .map(
          ({ name, used, limit }) =>
            `the account's limit \`${name}\` is reached: ${used} of ${limit} are used; remove somebody or revoke an invitation, or ask an administrator of the platform for more`,
        ),
      serviceAccounts: robots.length,
      pipelines: 4,
      buildsWaiting: 1,
      buildsThisMonth: 64,
      monthBegan: '2026-11-01T00:00:00Z',
    };
  };

  const routes = {
    'GET auth/options': () => ({
      password: true,
      sso: providers
        .filter(({ enabled }) => enabled)
        .map(({ name, settings }) => ({
          name,
          displayName: settings.displayName || name,
          loginUrl: `/api/auth/${name}/login`,
        })),
    }),
    'POST auth/invitation/look': ({ body }) =>
      body.token === 'good'
        ? {
            accountName: 'default',
            email: 'barbara@example.com',
            role: 'User',
            known: false,
            password: true,
            sso: [],
          }
        : missing('this invitation: it was accepted, revoked or is too old; ask for a new one'),
    'POST auth/invitation/accept': ({ body }) =>
      body.password.length < 12
        ? refuse(
            400,
            'a password needs at least 12 characters: a few words in a row are easier to keep than signs',
          )
        : user,
    'POST auth/confirm': ({ body }) =>
      body.password === 'slipway'
        ? user
        : {
            ...refuse(401, 'e-mail or password is wrong: check both and try again'),
            code: '2002',
          },
    'POST auth/password': ({ body }) => {
      if (body.new.length < 12) return refuse(400, 'a password needs at least 12 characters');
      if (body.current !== 'slipway') return { ...refuse(401, 'e-mail or password is wrong'), code: '2002' };
      return user;
    },
    'GET auth/sessions': () => sessions,
    'DELETE auth/sessions/*': ({ at }) => drop(sessions, at[2], 'id'),
    'POST user/changeaccount/*': ({ at }) => {
      const to = find(user.account, at[2], '_id', 'name');
      if (!to) return missing(`account \`${at[2]}\` among yours`);
      for (const each of user.account) each.active = each === to;
      user.activeAccountName = to.name;
      return user;
    },
    'GET auth/keys': ({ query }) => {
      const robot = find(robots, query.get('subjectReference'), 'name', '_id');
      const ref = query.get('subjectType') === 'service-account' ? robot?._id : user._id;
      return keys.filter(({ subject }) => subject.ref === ref);
    },
    'POST auth/key': ({ body, query }) => {
      const bad = (body.scopes ?? []).filter((word) => word.startsWith('x'));
      if (bad.length > 0)
        return refuse(400, `no such scope: \`${bad.join('`, `')}\`; known are account, user, team`);
      const robot = find(robots, query.get('subjectReference'), 'name', '_id');
      if (robot) robot.keys += 1;
      keys.push({
        ...key(60, body.name, { scopes: body.scopes, lastUsed: undefined, created: iso(0) }),
        _id: newId(),
        ...(robot ? { subject: { type: 'service-account', ref: robot._id, name: robot.name } } : {}),
      });
      note('create', 'api-key', body.name, { after: { scopes: body.scopes } });
      return 'slw_60f3_V7mJ2qYbT0pXc9ZsLr4uEwKd8HnA1Gf6';
    },
    'DELETE auth/key/*': ({ at }) => drop(keys, at[2]),
    'GET account': () => account,
    'PATCH account': ({ body }) => {
      if (!/^[a-z0-9-]+$/.test(body.name))
        return refuse(
          400,
          `\`${body.name}\` is no name for an account: use lowercase letters, digits and hyphens`,
        );
      Object.assign(account, body);
      user.activeAccountName = account.name;
      return account;
    },
    'GET users': () => members,
    'PATCH users/*': ({ at, body }) => {
      const found = find(members, at[1], '_id', 'email');
      if (!found) return missing(`user \`${at[1]}\` in this account`);
      if (found._id === user._id)
        return refuse(409, 'this is the last Administrator of the account: make somebody else one first');
      note('update', 'user', found.email, { before: { role: found.role }, after: { role: body.role } });
      if (body.suspended !== undefined) found.enabled = !body.suspended;
      return Object.assign(found, body);
    },
    'DELETE users/*': ({ at }) => drop(members, at[1]),
    'GET user/identities': () => [],
    'GET account/domains': () => [],
    'GET invitations': () => invitations,
    'POST invitations': ({ body }) => {
      if (!body.email.includes('@')) return refuse(400, `\`${body.email}\` is not an e-mail address`);
      const made = invitation(0, body.email, { _id: newId(), role: body.role, teams: [], created: iso(0) });
      invitations.push(made);
      return { invitation: made, url: `http://127.0.0.1:8080/invitation#t0ken-${made._id}` };
    },
    'POST invitations/*/resend': ({ at }) => {
      const found = find(invitations, at[1], '_id');
      if (!found) return missing('the invitation');
      Object.assign(found, { expired: false, expires: iso(-600_000) });
      return { invitation: found, url: `http://127.0.0.1:8080/invitation#n3w-${found._id}` };
    },
    'DELETE invitations/*': ({ at }) => drop(invitations, at[1]),
    'GET team': () => teams,
    'POST team': ({ body }) => {
      if (find(teams, body.name, 'name')) return refuse(409, `team \`${body.name}\` exists already`);
      const users = body.users.map((wanted) =>
        inTeam(find(members, wanted, '_id') ?? { _id: wanted, userName: wanted }),
      );
      const made = team(0, body.name, undefined, users, { _id: newId(), tags: body.tags });
      teams.push(made);
      return made;
    },
    'PUT team/*': ({ at, body }) => {
      const found = find(teams, at[1], '_id', 'name');
      const users = body.users.map((wanted) =>
        inTeam(find(members, wanted, '_id') ?? { _id: wanted, userName: wanted }),
      );
      const theirs = found.users.filter(({ source }) => source === 'sso');
      return Object.assign(found, { name: body.name, tags: body.tags, users: [...theirs, ...users] });
    },
    'DELETE team/*': ({ at }) => {
      const used = rules.filter(({ teams }) => teams.includes(at[1]));
      const found = find(teams, at[1], '_id', 'name');
      if (used.length > 0)
        return refuse(
          409,
          `team \`${found.name}\` is named by rules: ${used.map((each) => `${each.id} (${each.entityType})`).join(', ')}; change or delete those first`,
        );
      return drop(teams, at[1]);
    },
    'GET service-users': () => robots,
    'POST service-users': ({ body }) => {
      const theirs = body.teams.map((name) => ({ _id: name, name }));
      const made = { _id: newId(), enabled: true, keys: 0, created: iso(0), ...body, teams: theirs };
      robots.push(made);
      return made;
    },
    'PATCH service-users/*': ({ at, body }) =>
      Object.assign(find(robots, at[1], 'name', '_id'), body, {
        teams: body.teams.map((name) => ({ _id: name, name })),
      }),
    'DELETE service-users/*': ({ at }) => drop(robots, at[1], 'name'),
    'GET abac': () => rules,
    'GET abac/kinds': () => KINDS,
    'POST abac': ({ body }) => {
      if (body.entityType === 'pipeline' && body.tags.length === 0)
        return refuse(
          400,
          'this rule is not valid: name tags, or `*` for any entity, or `untagged` for those without tags',
        );
      const made = { ...rule(0, body.teams, body.entityType, body.actions, body), id: newId() };
      rules.push(made);
      return [made];
    },
    'PUT abac/*': ({ at, body }) => Object.assign(find(rules, at[1], 'id'), body, { teamNames: body.teams }),
    'DELETE abac/*': ({ at }) => drop(rules, at[1], 'id'),
    'GET access/explain': ({ query }) => explain(query),
    'GET audit': ({ query }) => {
      const [all, size] = [filtered(query), Number(query.get('limit') ?? 50)];
      const from = (Number(query.get('page') ?? 1) - 1) * size;
      return { docs: all.slice(from, from + size), total: all.length };
    },
    'GET audit/entitiesList': () => {
      const names = [...new Set(audit.map(({ entity }) => entity))].toSorted();
      return names.map((entity) => ({
        entity,
        actions: [...new Set(audit.filter((each) => each.entity === entity).map(({ action }) => action))],
      }));
    },
    'GET audit/verify': () => ({ ok: true, records: audit.length, head: audit[0].hash, problems: [] }),
    'GET admin/audit': () => ({ docs: audit.slice(0, 3), total: 3 }),
    'GET admin/audit/verify': () => ({
      ok: false,
      records: 3,
      head: audit[0].hash,
      problems: [
        'record 2 was changed: its hash does not fit its content',
        'record 3 does not follow record 2',
      ],
    }),
    'GET contexts': () => contexts.map(shown),
    'POST contexts': ({ body }) => {
      const { name } = body.metadata;
      if (contexts.some(({ metadata }) => metadata.name === name))
        return refuse(409, `context \`${name}\` exists already`);
      const made = context(name, body.spec.type, body.spec.data, { ...body.metadata, updated_at: iso(0) });
      contexts.push(made);
      return shown(made);
    },
    'GET contexts/*': ({ at, query }) => {
      const found = contexts.find(({ metadata }) => metadata.name === at[1]);
      if (!found) return missing(`context \`${at[1]}\``);
      return query.get('decrypt') === 'true' ? found : shown(found);
    },
    'PUT contexts/*': ({ at, body }) => {
      const found = contexts.find(({ metadata }) => metadata.name === at[1]);
      found.spec = { ...body.spec, data: kept(body.spec.data, found.spec.data) };
      found.metadata = { ...found.metadata, ...body.metadata, updated_at: iso(0) };
      return shown(found);
    },
    'DELETE contexts/*': ({ at }) => {
      if (at[1] === 'registry-login')
        return refuse(
          409,
          'context `registry-login` cannot be deleted: pipelines use it: `demo/demo-app`, `platform/api`; take it out of those first',
        );
      contexts.splice(
        contexts.findIndex(({ metadata }) => metadata.name === at[1]),
        1,
      );
      return at[1];
    },
    'GET usage': usage,
    'GET idp': () => providers,
    'POST idp': ({ body }) => {
      if (!body.settings.issuer.startsWith('http'))
        return refuse(
          400,
          "this identity provider is not valid: settings.issuer is the provider's address, with https://",
        );
      const base = `http://127.0.0.1:8080/api/auth/${body.name}`;
      const { clientSecret, ...rest } = body;
      providers.push({
        id: newId(),
        kind: 'oidc',
        enabled: true,
        hasSecret: Boolean(clientSecret),
        callbackUrl: `${base}/callback`,
        loginUrl: `${base}/login`,
        ...rest,
      });
      return providers.at(-1);
    },
    'PATCH idp/*': ({ at, body: { clientSecret, ...rest } }) => {
      const found = find(providers, at[1], 'name');
      return Object.assign(found, rest, clientSecret ? { hasSecret: true } : {});
    },
    'DELETE idp/*': ({ at }) => drop(providers, at[1], 'name'),
    'GET admin/accounts': () => accounts,
    'POST admin/accounts': ({ body }) => {
      const made = { ...account, _id: newId(), name: body.name, limits: {}, created: iso(0) };
      accounts.push(made);
      return {
        account: made,
        ...(body.adminEmail ? { invitationUrl: `http://127.0.0.1:8080/invitation#t0ken-${made._id}` } : {}),
      };
    },
    'PATCH admin/accounts/*': ({ at, body }) => Object.assign(find(accounts, at[2], '_id', 'name'), body),
    'DELETE admin/accounts/*': ({ at }) => setStatus(at[2], 'delete'),
    'POST admin/accounts/*/status': ({ at, body }) => setStatus(at[2], body.action),
    'GET admin/users': () => people,
    'PATCH admin/users/*': ({ at, body }) => {
      const found = find(people, at[2], '_id', 'email');
      if (found._id === user._id)
        return refuse(409, 'this is the last administrator of the platform: make somebody else one first');
      return Object.assign(found, body);
    },
    'POST admin/secrets/rotate': () => ({ master: 'mk-2', dataKeys: accounts.length }),
    'GET admin/health': () => ({
      parts: { database: true, bus: true, cache: true },
      jobs: [
        {
          name: 'clock',
          description: 'Finds schedules that are due.',
          state: 'waiting',
          failing: false,
          failures: 0,
          rounds: 412,
          lastRun: iso(1),
          tookMs: 12,
          nextRun: iso(-1),
          lease: 'clock',
          leader: '4711-a1b2c3',
          here: true,
          lastSuccess: iso(1),
        },
        {
          name: 'hooks',
          description:
            'Registers webhooks at Git providers, and looks for pushes that they did not announce.',
          state: 'standby',
          failing: false,
          failures: 0,
          rounds: 0,
          lease: 'hooks',
          leader: '4712-d4e5f6',
          here: false,
        },
        {
          name: 'housekeeping',
          description: 'Ends old sessions.',
          state: 'waiting',
          failing: false,
          failures: 0,
          rounds: 0,
          nextRun: iso(-20),
          lease: 'housekeeping',
          leader: '4711-a1b2c3',
          here: true,
        },
        {
          name: 'reports-sender',
          description: 'Sends commit statuses, mails and messages that are due.',
          state: 'failing',
          rounds: 90,
          tookMs: 30012,
          lease: 'reports',
          leader: '4711-a1b2c3',
          here: true,
          failing: true,
          failures: 7,
          lastRun: iso(2),
          lastSuccess: iso(900),
          error: 'mail.example.com could not be reached',
        },
      ],
      process: '4711-a1b2c3',
      leases: [],
      factsWaiting: 0,
      deferredMessages: 0,
      deadMessages: 0,
      version: '0.1.0',
      accounts: 2,
      users: people.length,
      sessions: sessions.length,
      runtimes: 2,
      applications: 5,
      auditRecords: audit.length,
      builds: { success: 53, error: 9, pending: 1, terminated: 1 },
      rotating: false,
      withoutEgress: [],
    }),
  };

  function setStatus(wanted, action) {
    const found = find(accounts, wanted, '_id', 'name');
    const becomes = {
      suspend: { active: 'suspended' },
      activate: { suspended: 'active' },
      restore: { deleted: 'active' },
      delete: { active: 'deleted', suspended: 'deleted' },
    }[action]?.[found.status];
    if (!becomes) return refuse(409, `account \`${found.name}\` is ${found.status}: it cannot ${action}`);
    if (found === account)
      return refuse(409, 'this is the account that you are in: switch to another one first');
    return Object.assign(found, { status: becomes });
  }

  const table = Object.entries(routes).map(([name, answer]) => {
    const [method, pattern] = name.split(' ');
    return { method, parts: pattern.split('/'), answer };
  });

  return {
    csv: (query) => ['seq,createdAt,userName,action', ...filtered(query).map((each) => each.seq)].join('\n'),

    /** Undefined when the call is none of these. */
    answer(method, at, query, body, empty) {
      const found = table.find(
        (route) =>
          route.method === method &&
          route.parts.length === at.length &&
          route.parts.every((part, index) => part === '*' || part === at[index]),
      );
      if (!found) return undefined;
      const answer = found.answer({ at, query, body });
      if (!empty || method !== 'GET') return answer;
      if (Array.isArray(answer) && at[1] !== 'kinds') return [];
      return answer.docs ? { docs: [], total: 0 } : answer;
    },
  };
}
