// Applications in the states that a page has to be able to show.

import { abortedRollout, pausedRollout } from './rollouts.mjs';

const iso = (secondsAgo) => new Date(Date.now() - secondsAgo * 1000).toISOString();

export const commit = (sha, message, author, secondsAgo) => ({ sha, message, author, date: iso(secondsAgo) });

const CURRENT = commit(
  '9f2c41d07be2a6c1f4b0c8d1e2a3b4c5d6e7f809',
  'deploy demo-app 4be09a1',
  'Slipway <bot@slipway.local>',
  5400,
);
const BEFORE = commit(
  '71c0b2e44d1a9b8c7d6e5f4a3b2c1d0e9f8a7b6c',
  'deploy demo-app 1c77d20',
  'Slipway <bot@slipway.local>',
  90_000,
);

const node = (kind, name, more = {}) => ({
  group: '',
  version: 'v1',
  kind,
  namespace: 'demo',
  name,
  uid: `${kind}-${name}`.toLowerCase(),
  parentUid: '',
  requiresPruning: false,
  ...more,
});

export function demoResources({
  status = 'Synced',
  health = 'Healthy',
  podHealth = health,
  podMessage,
  pods = 2,
  version = 'demo-app:4be09a1',
} = {}) {
  const apps = { group: 'apps' };
  return [
    node('ConfigMap', 'demo-greeting', { status: 'Synced' }),
    node('Service', 'demo', { status: 'Synced', health: 'Healthy' }),
    node('Deployment', 'demo', {
      ...apps,
      status,
      health,
      info: `${podHealth === 'Healthy' ? pods : 0}/${pods} ready`,
      ...(podMessage ? { healthMessage: podMessage } : {}),
    }),
    node('ReplicaSet', 'demo-7c9f6d5b8', { ...apps, parentUid: 'deployment-demo', health, info: version }),
    ...Array.from({ length: pods }, (_, index) =>
      node('Pod', `demo-7c9f6d5b8-${(index * 7919 + 4242).toString(36).padStart(5, 'x')}`, {
        parentUid: 'replicaset-demo-7c9f6d5b8',
        health: podHealth,
        info: podHealth === 'Healthy' ? 'running' : 'Pending',
        ...(podMessage ? { healthMessage: podMessage } : {}),
      }),
    ),
    node('EndpointSlice', 'demo-x2k9p', { group: 'discovery.k8s.io', parentUid: 'service-demo' }),
  ];
}

const base = {
  runtime: 'local',
  namespace: 'argocd',
  project: 'default',
  repoUrl: 'http://127.0.0.1:8080/git/demo/demo-deploy.git',
  path: 'app',
  targetRevision: 'main',
  destination: 'embedded cluster, namespace demo',
  syncStatus: 'Synced',
  healthStatus: 'Healthy',
  summary: 'Runs what commit 9f2c41d0 says.',
  conditions: [],
  images: ['registry.local/demo-app:4be09a1'],
  automated: true,
};

const succeeded = {
  phase: 'Succeeded',
  message: 'successfully synced 3 resources',
  startedAt: iso(5300),
  finishedAt: iso(5291),
  waitingOn: [],
  revision: CURRENT.sha,
  initiatedBy: 'automated sync',
};

export function createApplications() {
  const history = [
    {
      id: 1,
      revision: BEFORE,
      startedAt: iso(89_912),
      deployedAt: iso(89_900),
      initiatedBy: 'admin',
    },
    {
      id: 2,
      revision: CURRENT,
      startedAt: iso(5366),
      deployedAt: iso(5291),
      initiatedBy: 'automated sync',
    },
  ];
  const noEngine =
    'pods stay Pending: no container engine on this machine; install podman, then restart slipway';
  return [
    {
      ...base,
      name: 'demo',
      revision: CURRENT,
      operation: succeeded,
      resources: demoResources(),
      history,
      observedAt: iso(20),
    },
    {
      ...base,
      name: 'shop-frontend',
      automated: false,
      syncStatus: 'OutOfSync',
      revision: commit(
        'c0ffee1234567890abcdef1234567890abcdef12',
        'raise the memory limit\n\nThe cache needs it.',
        'Grace Hopper <grace@example.com>',
        800,
      ),
      resources: [
        ...demoResources({ status: 'OutOfSync' }),
        node('Job', 'old-migration', {
          group: 'batch',
          status: 'OutOfSync',
          health: 'Healthy',
          requiresPruning: true,
        }),
        node('Rollout', 'web', {
          group: 'argoproj.io',
          version: 'v1alpha1',
          status: 'Synced',
          health: 'Suspended',
          healthMessage: 'CanaryPauseStep',
        }),
        node('ReplicaSet', 'web-3dde', {
          group: 'apps',
          parentUid: 'rollout-web',
          health: 'Healthy',
          info: '1/1 ready',
        }),
      ],
      rollouts: [pausedRollout('demo')],
      summary: 'Two resources differ from Git; sync it, or switch automatic sync on.',
      operation: { ...succeeded, startedAt: iso(86_400), finishedAt: iso(86_390) },
      history,
      observedAt: iso(40),
    },
    {
      ...base,
      name: 'payments',
      syncStatus: 'Unknown',
      revision: commit(
        'deadbeef34567890abcdef1234567890abcdef12',
        'tidy up the manifests',
        'Linus <linus@example.com>',
        300,
      ),
      resources: demoResources(),
      summary:
        'The manifests of commit deadbeef cannot be read; the running version stays. Fix app/deployment.yaml.',
      conditions: [
        {
          type: 'ComparisonError',
          message:
            'app/deployment.yaml:14:7: mapping values are not allowed here\n  14 |       image: demo: latest\n                         ^ quote the value',
          lastTransitionTime: iso(290),
        },
      ],
      operation: succeeded,
      history,
      observedAt: iso(10),
    },
    {
      ...base,
      name: 'sandbox',
      healthStatus: 'Progressing',
      healthMessage: noEngine,
      revision: CURRENT,
      resources: demoResources({ health: 'Progressing', podMessage: noEngine }),
      summary: `Synced, but ${noEngine}.`,
      operation: {
        ...succeeded,
        phase: 'Running',
        message: 'waiting for wave 0',
        finishedAt: undefined,
        startedAt: iso(95),
        waitingOn: ['Deployment demo/demo: 0 of 2 pods are ready'],
      },
      history: [],
      observedAt: iso(5),
    },
    {
      ...base,
      name: 'search-cluster',
      runtime: 'frankfurt',
      healthStatus: 'Degraded',
      healthMessage: 'Deployment demo: 38 of 40 pods are ready',
      revision: BEFORE,
      resources: demoResources({ pods: 40 }),
      rollouts: [abortedRollout('search')],
      summary: 'Two pods crash on start: exit code 1.',
      operation: {
        ...succeeded,
        phase: 'Failed',
        message: 'one resource failed to become healthy within 10 minutes',
      },
      history,
      observedAt: iso(700),
    },
  ];
}

const deployment = (version, memory) => `apiVersion: apps/v1
kind: Deployment
metadata:
  name: demo
  namespace: demo
  labels:
    app: demo
spec:
  replicas: 2
  selector:
    matchLabels:
      app: demo
  template:
    metadata:
      labels:
        app: demo
    spec:
      containers:
        - name: demo
          image: registry.local/demo-app:${version}
          ports:
            - containerPort: 8080
          resources:
            limits:
              memory: ${memory}
`;

export const diff = {
  resources: [
    {
      group: 'apps',
      kind: 'Deployment',
      namespace: 'demo',
      name: 'demo',
      change: 'change',
      live: deployment('1c77d20', '64Mi'),
      desired: deployment('4be09a1', '128Mi'),
      unified: `--- live\n+++ desired\n@@ -18,10 +18,10 @@\n     spec:\n       containers:\n         - name: demo\n-          image: registry.local/demo-app:1c77d20\n+          image: registry.local/demo-app:4be09a1\n           ports:\n             - containerPort: 8080\n           resources:\n             limits:\n-              memory: 64Mi\n+              memory: 128Mi\n`,
    },
    {
      group: 'batch',
      kind: 'Job',
      namespace: 'demo',
      name: 'old-migration',
      change: 'delete',
      live: 'apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: old-migration\n  namespace: demo\n',
      desired: '',
      unified:
        '--- live\n+++ desired\n@@ -1,5 +0,0 @@\n-apiVersion: batch/v1\n-kind: Job\n-metadata:\n-  name: old-migration\n-  namespace: demo\n',
    },
    {
      group: '',
      kind: 'Service',
      namespace: 'demo',
      name: 'demo',
      change: 'same',
      live: '',
      desired: '',
      unified: '',
    },
  ],
};

export const plan = {
  revision: 'c0ffee1234567890abcdef1234567890abcdef12',
  steps: [
    { phase: 'PreSync', wave: 0, action: 'create', resource: 'Job demo/migrate', why: 'hook of this sync' },
    {
      phase: 'Sync',
      wave: 0,
      action: 'update',
      resource: 'Deployment demo/demo',
      why: 'image and memory limit differ',
    },
    { phase: 'Sync', wave: 5, action: 'prune', resource: 'Job demo/old-migration', why: 'no longer in Git' },
  ],
  waiting: [],
  text: 'PreSync 0  create  Job demo/migrate\nSync 0     update  Deployment demo/demo\nSync 5     prune   Job demo/old-migration\n',
};

const FACETS = {
  health: 'healthStatus',
  sync: 'syncStatus',
  runtime: 'runtime',
  namespace: 'namespace',
  project: 'project',
};

const urgency = ({ healthStatus, syncStatus }) =>
  healthStatus === 'Degraded' ? 3 : healthStatus !== 'Healthy' ? 2 : syncStatus === 'Synced' ? 0 : 1;

/** A page of what fits, as the server answers it. */
export function listed(all, query) {
  const word = (query.get('search') ?? '').toLowerCase();
  const chosen = (facet) => (query.get(facet) ?? '').split(',').filter(Boolean);
  const found = all.filter(
    (app) => app.name.includes(word) && (!query.get('name') || app.name === query.get('name')),
  );
  const fits = (app, facet) => chosen(facet).length === 0 || chosen(facet).includes(app[FACETS[facet]]);
  const facets = Object.fromEntries(
    Object.keys(FACETS).map((facet) => {
      const counts = {};
      const others = Object.keys(FACETS).filter((other) => other !== facet);
      for (const app of found.filter((each) => others.every((other) => fits(each, other))))
        counts[app[FACETS[facet]]] = (counts[app[FACETS[facet]]] ?? 0) + 1;
      return [facet, counts];
    }),
  );
  const rows = found.filter((app) => Object.keys(FACETS).every((facet) => fits(app, facet)));
  if (query.get('sort') === 'problems') rows.sort((one, other) => urgency(other) - urgency(one));
  const from = Number(query.get('offset') ?? 0);
  const page = rows.slice(from, from + Number(query.get('limit') ?? 100));
  const applications = page.map(
    ({ resources: _r, history, conditions: _c, images: _i, rollouts: _o, ...row }) => ({
      ...row,
      deployedAt: history?.at(-1)?.deployedAt,
    }),
  );
  return { applications, total: rows.length, facets };
}
