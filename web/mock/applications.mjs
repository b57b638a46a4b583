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

const result = (phase, kind, name, status, message, more = {}) => ({
  group: '',
  kind,
  namespace: 'demo',
  name,
  phase,
  status,
  message,
  ...more,
});

/** A hook, and objects of one wave. */
const results = [
  result('PreSync', 'Job', 'migrate', 'Succeeded', '', { group: 'batch', hook: 'PreSync' }),
  result('Sync', 'ConfigMap', 'demo-greeting', 'Synced', 'configmap/demo-greeting unchanged'),
  result('Sync', 'Deployment', 'demo', 'Synced', 'deployment.apps/demo configured', { group: 'apps' }),
];

const failedResults = [
  ...results.slice(0, 2),
  result(
    'Sync',
    'Deployment',
    'demo',
    'SyncFailed',
    'Deployment.apps "demo" is invalid: spec.replicas: Invalid value: -1',
    {
      group: 'apps',
    },
  ),
];

const succeeded = {
  results,
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
      why: 'manual',
    },
    {
      id: 2,
      revision: CURRENT,
      startedAt: iso(5366),
      deployedAt: iso(5291),
      initiatedBy: 'automated sync',
      automated: true,
      why: 'commit',
      images: ['registry.local/demo-app:4be09a1'],
      imageChanges: [{ image: 'registry.local/demo-app', before: ['9f2c41d'], after: ['4be09a1'] }],
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
        results: failedResults,
        moreResults: 1200,
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

const step = (phase, wave, action, group, kind, name, why) => ({
  phase,
  wave,
  action,
  resource: `${group ? `${group}/` : ''}${kind} demo/${name}`,
  group,
  kind,
  namespace: 'demo',
  name,
  why,
});

/** As a runtime plans: what would be pruned is in it when that was asked for. */
export const plan = (prune) => ({
  revision: 'c0ffee1234567890abcdef1234567890abcdef12',
  steps: [
    step('PreSync', 0, 'run hook', 'batch', 'Job', 'migrate', 'PreSync hook'),
    step('Sync', 0, 'apply', 'apps', 'Deployment', 'demo', 'image and memory limit differ'),
    step('Sync', 0, 'apply', '', 'ConfigMap', 'settings', 'live differs from the manifest'),
    ...(prune
      ? [step('Sync', 5, 'prune', 'batch', 'Job', 'old-migration', 'it is not in the manifests any more')]
      : []),
  ],
  waiting: [],
  text: 'Sync wave 0\n  now  apply apps/Deployment demo/demo (image and memory limit differ)\n',
});

/** What a runtime noted about an object: of pods that wait, why. */
export const noted = ({ kind, name, namespace, healthMessage }) => ({
  events: healthMessage
    ? [
        {
          kind,
          namespace,
          name,
          type: 'Warning',
          reason: 'FailedScheduling',
          message: healthMessage,
          count: 12,
          firstSeen: iso(900),
          lastSeen: iso(30),
          source: 'default-scheduler',
        },
        {
          kind,
          namespace,
          name,
          type: 'Normal',
          reason: 'Created',
          message: `Created ${kind} ${name}`,
          count: 1,
          firstSeen: iso(900),
          lastSeen: iso(900),
          source: 'controller',
        },
      ]
    : [],
});

export const manifestOf = ({ group, version, kind, namespace, name, uid }) => ({
  yaml:
    kind === 'Deployment'
      ? deployment('4be09a1', '128Mi')
      : `apiVersion: ${group ? `${group}/` : ''}${version}\nkind: ${kind}\nmetadata:\n  name: ${name}\n  namespace: ${namespace}\n  uid: ${uid}\n`,
});

export const actionsOf = ({ kind }) => ({
  actions:
    kind === 'Deployment'
      ? [
          { name: 'pause', disabled: false, displayName: '', parameters: [] },
          { name: 'restart', disabled: false, displayName: '', parameters: [] },
          { name: 'resume', disabled: true, displayName: '', parameters: [] },
          { name: 'scale', disabled: false, displayName: '', parameters: ['replicas'] },
        ]
      : [],
});

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
