// Runtimes of the mock: one that is online, one that is not, and those that a test registers, which come a moment later.

const iso = (at) => new Date(at).toISOString();

const runtime = (name, state, extra) => ({
  name,
  version: '0.1.0',
  cluster: '',
  url: `/tunnels/64b000000000000000000000-${name}`,
  ingressUrl: '',
  accessMode: 'tunnel',
  state,
  online: state === 'online',
  applications: 0,
  tunnels: state === 'online' ? 1 : 0,
  health: state === 'online' ? 'healthy' : 'unreachable',
  namespace: 'argocd',
  clusters: [],
  ...extra,
});

const token = (name) => ({
  name,
  token: '64b0ffffffffffffffffffff.5ec4e7',
  command: 'slipway runtime --server https://slipway.example',
});

const comes = (made, changed) => {
  Object.assign(made, { state: 'online', online: true, tunnels: 1, version: '0.1.0' });
  changed('runtime', made.name);
};

const managed = (name, state, extra) => ({
  runtime: 'local',
  name,
  server: `https://${name}.example:6443`,
  state,
  message: '',
  since: iso(Date.now() - 6e5),
  attemptedAt: iso(Date.now()),
  serverVersion: '1.34.4',
  applications: 0,
  isOwn: false,
  ...extra,
});

/** A feed that has something newer for one of them. */
export const releases = () => ({
  feed: 'ok',
  latest: '0.2.0',
  components: [
    { component: 'runtime', name: 'local', version: '0.1.0', update: '' },
    {
      component: 'runtime',
      name: 'frankfurt',
      version: '0.1.0',
      update: 'required',
      message: '0.2.0 closes a hole',
    },
  ],
});

export const createClusters = () => [
  managed('in-cluster', 'Successful', {
    server: 'https://kubernetes.default.svc',
    applications: 4,
    isOwn: true,
  }),
  managed('paris', 'Failed', { message: 'cannot reach the cluster: connection refused', applications: 2 }),
  managed('tokyo', 'Unknown', { message: 'it is being connected', serverVersion: '' }),
];

export function createRuntimes(now, changed) {
  const all = [
    runtime('local', 'online', {
      cluster: 'embedded cluster, pods by podman 4.3.1',
      lastSeen: iso(Date.now()),
      applications: 4,
      installedBy: 'up',
      modules: ['GitOps', 'Rollouts'],
      health: 'degraded',
      healthReasons: ['cluster production: 401 Unauthorized'],
      clusters: [
        managed('in-cluster', 'Successful', { applications: 2, isOwn: true }),
        managed('production', 'Failed', { message: '401 Unauthorized', since: iso(now - 6e4) }),
      ],
    }),
    runtime('frankfurt', 'offline', {
      cluster: 'Kubernetes 1.34, 12 nodes',
      lastSeen: iso(now - 7e5),
      healthReasons: [`it was last heard of at ${iso(now - 7e5)}`],
      created: iso(now - 9e8),
      applications: 1,
      installedBy: 'helm',
      chart: 'slipway-runtime-0.1.0',
      modules: ['GitOps'],
    }),
  ];
  const register = ({ name, ingressUrl = '' }) => {
    if (all.some((each) => each.name === name))
      return { refuse: 409, message: `there is a runtime \`${name}\` already: choose another name` };
    const made = runtime(name, 'never-connected', { version: '', ingressUrl });
    all.push(made);
    setTimeout(comes, 1500, made, changed).unref();
    return token(name);
  };
  const detail = (found) => ({
    ...found,
    allowedAddresses: [],
    components: [
      { name: 'applications', state: 'healthy', replica: '', heard: iso(now), lastActivity: iso(now) },
      { name: 'rollouts', state: 'off', replica: '', heard: iso(now) },
    ],
    connectivity: [
      {
        name: 'callers → app-proxy',
        state: found.online ? 'connected' : 'unreachable',
        message: found.online ? 'through its tunnel' : 'no tunnel is open',
      },
      { name: 'reports', state: 'connected', lastActivity: iso(now), message: 'its reports arrive' },
    ],
    sessions: found.online
      ? [
          {
            peer: '192.0.2.7',
            since: iso(Date.now() - 6e5),
            inFlight: 0,
            served: 42,
            receivedBytes: 1536,
            sentBytes: 52_428_800,
          },
        ]
      : [],
  });
  const answer = (method, [name, part], body) => {
    if (method === 'POST' && !name) return register(body);
    const found = all.find((each) => each.name === name);
    if (!found) return undefined;
    if (part === 'pass') return { token: 'pass.mock', url: found.url, expires: iso(Date.now() + 12e4) };
    if (part === 'token' && method === 'POST') return token(name);
    if (part === 'token')
      return Boolean(Object.assign(found, { state: 'revoked', online: false, tunnels: 0 }));
    if (method === 'PATCH') return Object.assign(found, body.name ? { name: body.name } : {});
    if (method === 'DELETE') return all.splice(all.indexOf(found), 1).length === 1;
    return detail(found);
  };
  return { all, answer };
}
