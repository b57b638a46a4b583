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

export function createRuntimes(now, changed) {
  const all = [
    runtime('local', 'online', {
      cluster: 'embedded cluster, pods by podman 4.3.1',
      lastSeen: iso(Date.now()),
      applications: 4,
    }),
    runtime('frankfurt', 'offline', {
      cluster: 'Kubernetes 1.34, 12 nodes',
      lastSeen: iso(now - 7e5),
      created: iso(now - 9e8),
      applications: 1,
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
    sessions: found.online
      ? [{ peer: '192.0.2.7', since: iso(Date.now() - 6e5), inFlight: 0, served: 42 }]
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
