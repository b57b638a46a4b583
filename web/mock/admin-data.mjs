// The people, rights and records that the mock starts with.

export const iso = (secondsAgo) => new Date(Date.now() - secondsAgo * 1000).toISOString();
export const id = (number) => (0x900000 + number).toString(16).padStart(24, '7');

const DONE = [
  ['update', 'pipeline', 'demo/demo-app', 'allowed', 200],
  ['create', 'api-key', 'laptop', 'allowed', 200],
  ['login', 'session', 'ada@example.com', 'denied', 401],
  ['delete', 'context', 'registry-login', 'failed', 409],
  ['run', 'pipeline', 'platform/api', 'allowed', 200],
];

export function auditRecord(seq, user) {
  const [action, entity, entityName, outcome, status] = DONE[seq % DONE.length];
  const detail = {
    ...(action === 'update'
      ? {
          before: { name: entityName, triggers: [{ branch: 'main', disabled: false }], timeout: 60 },
          after: { name: entityName, timeout: 90, triggers: [{ branch: 'main', disabled: true }] },
        }
      : {}),
    ...(action === 'create' ? { after: { scopes: [], kind: 'user' } } : {}),
    ...(outcome === 'allowed'
      ? {}
      : { reason: 'e-mail or password is wrong: check both and try again' }),
  };
  return {
    seq,
    createdAt: iso((131 - seq) * 3100),
    actorKind: outcome === 'denied' ? 'unknown' : 'user',
    userId: outcome === 'denied' ? '' : user._id,
    userName: outcome === 'denied' ? 'ada@example.com' : 'admin',
    address: seq % 3 ? '127.0.0.1' : '203.0.113.9',
    action,
    entity,
    entityId: id(200 + (seq % 5)),
    entityName,
    outcome,
    status,
    method: action === 'delete' ? 'DELETE' : 'POST',
    path: `/api/${entity}s`,
    requestId: `req-${seq}`,
    detail,
    hash: (0xabc000 + seq).toString(16).repeat(10),
  };
}

const inTeam = ({ _id, userName }, source = 'manual') => ({ _id, userName, kind: 'user', source });

/** Lists to be changed, and what makes one more of a kind. */
export function createAdminData(user) {
  const account = {
    _id: user.account[0]._id,
    name: 'default',
    status: 'active',
    created: iso(9e6),
    settings: {
      inactivityMinutes: 720,
      sessionHours: 168,
      allowedDomains: ['example.com'],
      passwordLogin: true,
    },
    limits: { plan: 'team', seats: 5, parallelBuilds: 4 },
  };
  const accounts = [
    account,
    { ...account, _id: user.account[1]._id, name: 'research', limits: {}, created: iso(6e6) },
    {
      ...account,
      _id: id(3),
      name: 'trial-2025',
      status: 'suspended',
      limits: { seats: 2 },
      created: iso(3e7),
    },
    { ...account, _id: id(4), name: 'old-shop', status: 'deleted', limits: {}, created: iso(8e7) },
  ];

  const member = (number, userName, more = {}) => ({
    _id: id(number),
    userName,
    email: `${userName}@example.com`,
    role: 'User',
    enabled: true,
    suspended: false,
    teams: ['users'],
    created: iso(5e6),
    lastLogin: iso(number * 7000),
    ...more,
  });
  const members = [
    member(1, 'admin', { _id: user._id, email: user.email, role: 'Admin', teams: ['admins', 'users'] }),
    member(11, 'ada', { teams: ['users', 'developers'] }),
    member(12, 'grace', { role: 'Admin', teams: ['admins', 'users', 'operators'] }),
    member(13, 'linus', { enabled: false, lastLogin: undefined }),
  ];
  const people = members.map(({ _id, userName, email, enabled, lastLogin }, index) => ({
    _id,
    userName,
    email,
    enabled,
    lastLogin,
    platformAdmin: index === 0,
    accounts: index < 2 ? ['default', 'research'] : ['default'],
  }));

  const team = (number, name, type, users, more = {}) => ({
    _id: id(number),
    name,
    type,
    account: account._id,
    source: 'manual',
    tags: [],
    users,
    serviceAccounts: [],
    ...more,
  });
  const teams = [
    team(
      21,
      'users',
      'default',
      members.map((each) => inTeam(each, 'role')),
    ),
    team(22, 'admins', 'admin', [inTeam(members[0], 'role'), inTeam(members[2], 'role')]),
    team(23, 'developers', undefined, [inTeam(members[1])], { tags: ['product'] }),
    team(24, 'operators', undefined, [inTeam(members[2], 'sso')], { source: 'sso' }),
  ];

  const invitation = (number, email, more = {}) => ({
    _id: id(number),
    email,
    role: 'User',
    teams: [id(23)],
    invitedBy: 'admin',
    created: iso(90_000),
    expires: iso(-500_000),
    expired: false,
    ...more,
  });
  const invitations = [
    invitation(31, 'barbara@example.com'),
    invitation(32, 'edsger@example.com', { role: 'Admin', teams: [], expires: iso(3e5), expired: true }),
  ];

  const robots = [
    {
      _id: id(41),
      name: 'release-bot',
      role: 'User',
      enabled: true,
      teams: [{ _id: id(23), name: 'operators' }],
      keys: 1,
      created: iso(4e6),
    },
    {
      _id: id(42),
      name: 'metrics',
      role: 'User',
      enabled: false,
      teams: [],
      keys: 0,
      created: iso(2e6),
    },
  ];

  const key = (number, name, more = {}) => ({
    _id: id(number),
    name,
    tokenPrefix: `slw_${number}f3`,
    created: iso(number * 9000),
    scopes: [],
    subject: { type: 'user', ref: user._id, name: 'admin' },
    lastUsed: iso(number * 40),
    ...more,
  });
  const keys = [
    key(51, 'laptop'),
    key(52, 'dashboards', { scopes: ['build:read', 'gitops:read'], lastUsed: undefined }),
    key(53, 'ci', { subject: { type: 'service-account', ref: id(41), name: 'release-bot' } }),
  ];

  const sessions = [
    {
      id: id(61),
      account: 'default',
      created: iso(7200),
      lastSeen: iso(4),
      address: '127.0.0.1',
      agent: 'Mozilla/5.0 (X11; Linux x86_64) Chrome/142',
      method: 'password',
      current: true,
    },
    {
      id: id(62),
      account: 'research',
      created: iso(90_000),
      lastSeen: iso(8000),
      address: '203.0.113.9',
      agent: 'Mozilla/5.0 (Macintosh) Safari/18',
      method: 'gitea',
      current: false,
    },
  ];

  const rule = (number, teamNames, entityType, actions, more = {}) => ({
    id: id(number),
    teams: teamNames.map((name) => teams.find((each) => each.name === name)?._id ?? name),
    teamNames,
    entityType,
    actions,
    tags: [],
    tagMatch: 'any',
    entityAttributes: [],
    created: iso(3e6),
    ...more,
  });
  const rules = [
    rule(71, ['users'], 'pipeline', ['read', 'run'], { tags: ['*'] }),
    rule(72, ['developers', 'operators'], 'pipeline', ['update', 'delete'], {
      tags: ['product', 'staging'],
      relatedResource: 'project',
    }),
    rule(73, ['operators'], 'gitopsApplications', ['SYNC', 'APP_ROLLBACK'], {
      entityAttributes: [
        { name: 'RUNTIME', value: 'frankfurt' },
        { name: 'LABEL', key: 'tier', value: 'prod*' },
      ],
    }),
  ];

  const context = (name, type, data, more = {}, spec = {}) => ({
    apiVersion: 'v1',
    kind: 'context',
    metadata: {
      name,
      default: false,
      system: false,
      revision: 2,
      created_at: iso(4e6),
      updated_at: iso(40_000),
      ...more,
    },
    spec: { type, data, ...spec },
    owner: 'admin',
  });
  const contexts = [
    context(
      'regions',
      'config',
      { REGION: 'eu-central-1', STAGE: 'prod' },
      { labels: { tags: ['product'] } },
    ),
    context('registry-login', 'secret', { USER: 'robot', PASSWORD: 'hunter2' }),
    context('signing-key', 'secret', { KEY: 'k3y' }, { forbidDecrypt: true }),
    context('feature-flags', 'yaml', { flags: { newHome: true } }),
    context('github', 'git.github', {
      auth: { type: 'basic', apiHost: 'github.com', username: 'bot', password: 'ghp_1' },
    }),
    context('charts', 'helm-repository', { repositoryUrl: 'https://charts.example.com' }),
  ];
  const providers = [
    {
      id: id(81),
      name: 'gitea',
      kind: 'oidc',
      enabled: true,
      settings: {
        displayName: 'Gitea',
        issuer: 'https://git.example.com/',
        clientId: 'slipway',
        scopes: ['openid', 'profile', 'email', 'groups'],
        groupsClaim: 'groups',
        createMembers: true,
        adminGroup: 'platform:owners',
      },
      hasSecret: true,
      callbackUrl: 'http://127.0.0.1:8080/api/auth/gitea/callback',
      loginUrl: 'http://127.0.0.1:8080/api/auth/gitea/login',
    },
  ];

  const audit = Array.from({ length: 130 }, (_, index) => auditRecord(130 - index, user));
  return {
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
  };
}
