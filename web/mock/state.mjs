// What the mock knows, and the scenario that plays when a pipeline is run: build, commit, sync, healthy.
import { createAdmin } from './admin.mjs';
import {
  actionsOf,
  commit,
  createApplications,
  demoResources,
  diff,
  listed,
  manifestOf,
  noted,
  plan,
} from './applications.mjs';
import { texts } from './logs.mjs';
import { listedRollouts, orderRollout } from './rollouts.mjs';
import { createDeclare } from './declare.mjs';
import { createGitAccess } from './gitAccess.mjs';
import { createClusters, createRuntimes, releases } from './runtimes.mjs';

const STEPS = [
  { name: 'clone', title: 'Clone demo-app', type: 'git-clone', stage: 'prepare' },
  { name: 'test', title: 'Unit tests', type: 'freestyle', stage: 'check' },
  { name: 'build', title: 'Build the image', type: 'build', stage: 'check' },
  { name: 'deploy', title: 'Commit the version to demo-deploy', type: 'freestyle', stage: 'ship' },
];
const PIPELINES = ['demo/demo-app', 'platform/api', 'platform/web', 'platform/nightly'];
const COMMITS = [
  ['9f2c41d07be2a6c1f4b0c8d1e2a3b4c5d6e7f809', 'greet in a friendlier way', 'Ada Lovelace <ada@example.com>'],
  [
    '4be09a17be2a6c1f4b0c8d1e2a3b4c5d6e7f8091',
    'read the port from the environment',
    'Grace Hopper <grace@example.com>',
  ],
  [
    '1c77d207be2a6c1f4b0c8d1e2a3b4c5d6e7f8092',
    'bump the base image so that the scanner is quiet again, and explain in the README why',
    'Linus <linus@example.com>',
  ],
];

const iso = (ms) => new Date(ms).toISOString();
const hex = (number) => number.toString(16).padStart(24, '6');

/** A build as the API shows it, without what only the mock keeps. */
function visible(build) {
  const shown = { ...build };
  delete shown.chunks;
  delete shown.hugeLines;
  delete shown.onTerminate;
  return shown;
}

function page(all, query) {
  const limit = Number(query.get('limit') ?? 10);
  const from = query.has('page') ? (Number(query.get('page')) - 1) * limit : Number(query.get('offset') ?? 0);
  return all.slice(from, from + limit);
}

export function createState(changed, speed) {
  const now = Date.now();
  const timers = new Set();
  const listeners = new Set();
  const applications = createApplications();
  const builds = [];
  let nextId = 0xa00;

  const later = (ms, work) => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      work();
    }, ms / speed);
    timers.add(timer);
  };

  const user = {
    _id: hex(1),
    userName: 'admin',
    email: 'admin@slipway.local',
    roles: ['User', 'Admin'],
    activeAccountName: 'default',
    account: [
      { _id: hex(2), name: 'default', role: 'Admin', active: true },
      { _id: hex(3), name: 'research', role: 'User', active: false },
    ],
    platformAdmin: true,
    teams: ['admins', 'users'],
    kind: 'user',
    csrfToken: 'mock-csrf',
    sessionEnds: iso(now + 4.1e7),
  };
  const admin = createAdmin(user);

  const pipelines = PIPELINES.map((name, index) => ({
    version: '1.0',
    kind: 'pipeline',
    metadata: {
      id: hex(0x100 + index),
      name,
      project: name.split('/')[0],
      revision: 3,
      ...(index === 1 ? { description: 'Builds and tests the API' } : {}),
      created_at: iso(now - 9e8),
      updated_at: iso(now - 3e7),
    },
    spec: {
      triggers:
        index === 3
          ? []
          : [
              {
                name: 'push',
                type: 'git',
                repo: index === 0 ? 'demo/demo-app' : `platform/${name.split('/')[1]}`,
                events: ['push.heads'],
                ...(index === 1 ? { branchRegex: '/^(main|release-.*)$/' } : {}),
              },
            ],
      variables:
        index === 1
          ? [
              { key: 'REGION', value: 'eu-central-1' },
              { key: 'TOKEN', value: '', encrypted: true },
            ]
          : [],
      ...(index === 1
        ? {
            steps: {
              test: { title: 'Unit tests', image: 'rust:1.95', commands: ['cargo test'] },
              package: { title: 'Package', image: 'rust:1.95', commands: ['cargo build --release'] },
            },
          }
        : {
            specTemplate: {
              location: 'git',
              repo: 'demo/demo-app',
              path: 'codefresh.yml',
              revision: 'main',
            },
          }),
    },
  }));

  function newBuild(pipeline, createdMs, commitIndex, more = {}) {
    const [revision, commitMessage, committer] = COMMITS[commitIndex % COMMITS.length];
    const build = {
      id: hex(nextId++),
      status: 'pending',
      created: iso(createdMs),
      pipelineName: pipeline.metadata.name,
      serviceId: pipeline.metadata.id,
      repoOwner: 'demo',
      repoName: 'demo-app',
      branchName: 'main',
      revision,
      commitMessage,
      committer,
      pipelineTriggerName: 'push',
      webhookTriggered: true,
      steps: STEPS.map((step) => ({ ...step, status: 'pending', attempt: 1, logBytes: 0 })),
      can: { terminate: true, restart: false },
      chunks: [],
      ...more,
    };
    build.progress = build.id;
    builds.unshift(build);
    return build;
  }

  const say = (build, step, text) => {
    build.chunks.push({ seq: build.chunks.length, step, offset: 0, text });
    for (const listener of listeners) listener();
  };

  function finish(build, status, message, endMs = Date.now()) {
    build.status = status;
    build.message = message;
    build.finished = iso(endMs);
    build.can = { terminate: false, restart: true };
  }

  /** A build of the past, complete with its log. */
  function past(pipeline, createdMs, commitIndex, failed) {
    const build = newBuild(pipeline, createdMs, commitIndex, { executor: 'podman', runner: 'local' });
    build.started = iso(createdMs + 700);
    let at = createdMs + 700;
    for (const step of build.steps) {
      const broken = failed && step.name === 'test';
      step.started = iso(at);
      at += 1500 + ((commitIndex * 977 + step.name.length * 331) % 9000);
      step.finished = iso(at);
      step.status = broken ? 'error' : 'success';
      step.exitCode = broken ? 101 : 0;
      for (const text of texts[broken ? 'testFailed' : step.name]) say(build, step.name, text);
      if (!broken) continue;
      step.message = 'the command `cargo test --quiet` ended with exit code 101';
      for (const rest of build.steps.slice(build.steps.indexOf(step) + 1)) {
        rest.status = 'skipped';
        rest.message = 'an earlier step failed';
      }
      finish(build, 'error', 'step `test` ended with exit code 101', at);
      return build;
    }
    finish(build, 'success', undefined, at);
    return build;
  }

  for (let index = 60; index > 0; index--)
    past(pipelines[index % 4], now - index * 4.1e6, index, index % 7 === 3);
  const failed = past(pipelines[0], now - 3e6, 2, true);
  const huge = newBuild(pipelines[3], now - 2e6, 0, {
    executor: 'kubernetes',
    runner: 'cluster-1',
    started: iso(now - 2e6),
    hugeLines: 2_500_000,
    pipelineTriggerName: undefined,
    webhookTriggered: false,
  });
  huge.steps = [
    {
      name: 'compile',
      title: 'Compile everything',
      type: 'freestyle',
      status: 'success',
      started: iso(now - 2e6),
      finished: iso(now - 1e6),
    },
  ];
  finish(huge, 'success', undefined, now - 1e6);
  const pending = newBuild(pipelines[2], now - 60_000, 1, {
    steps: [],
    message: 'waits for a runner: none that is online has a free place',
  });
  newBuild(pipelines[2], now - 120_000, 1, { status: 'pending-approval', steps: [] });
  const terminated = past(pipelines[1], now - 9e5, 1, false);
  Object.assign(terminated, { status: 'terminated', message: 'terminated by admin' });

  /** Steps one after the other, each saying its lines a few at a time. */
  function play(build, done) {
    build.status = 'running';
    build.runner = 'local';
    build.executor = 'podman';
    build.started = iso(Date.now());
    changed('build', build.id);
    const run = (index) => {
      const step = build.steps[index];
      if (build.status === 'terminating') {
        finish(build, 'terminated', 'terminated by admin');
        changed('build', build.id);
        for (const listener of listeners) listener();
        return;
      }
      if (!step) {
        finish(build, 'success');
        changed('build', build.id);
        for (const listener of listeners) listener();
        done?.();
        return;
      }
      step.status = 'running';
      step.started = iso(Date.now());
      changed('build', build.id);
      const lines = texts[step.name];
      const speak = (line) => {
        if (line < lines.length && build.status === 'running') {
          say(build, step.name, lines[line]);
          later(line < 6 ? 180 : 40, () => speak(line + 1));
          return;
        }
        step.status = build.status === 'running' ? 'success' : 'terminated';
        step.finished = iso(Date.now());
        step.exitCode = 0;
        changed('build', build.id);
        later(200, () => run(index + 1));
      };
      speak(0);
    };
    later(600, () => run(0));
  }

  const demo = applications[0];
  const touch = (change) => {
    Object.assign(demo, change, { observedAt: iso(Date.now()) });
    changed('application', `${demo.runtime}/${demo.namespace}/${demo.name}`);
  };

  // A test that has to see every state takes the steps itself; for eyes they come by the clock.
  const steps = [];
  let byHand = false;
  const onward = (ms, work) => (byHand ? steps.push(work) : later(ms, work));

  /** The new version reaches the cluster: out of sync, syncing, progressing, healthy. */
  function deploy() {
    const revision = commit(
      '5a22f01c4b0c8d1e2a3b4c5d6e7f80919f2c41d0',
      'deploy demo-app 9f2c41d',
      'Slipway <bot@slipway.local>',
      0,
    );
    const operation = {
      phase: 'Running',
      message: 'applying 1 resource',
      startedAt: iso(Date.now()),
      waitingOn: ['Deployment demo/demo: 0 of 2 new pods are ready'],
      revision: revision.sha,
      initiatedBy: 'automated sync',
    };
    touch({
      revision,
      syncStatus: 'OutOfSync',
      resources: demoResources({ status: 'OutOfSync' }),
      summary: 'One resource differs from commit 5a22f01c; an automatic sync starts.',
    });
    onward(1500, () => touch({ operation, summary: 'Syncing to commit 5a22f01c.' }));
    onward(3000, () =>
      touch({
        syncStatus: 'Synced',
        healthStatus: 'Progressing',
        resources: demoResources({ health: 'Progressing', version: 'demo-app:9f2c41d' }),
        summary: 'New pods are starting.',
      }),
    );
    onward(5500, () =>
      touch({
        healthStatus: 'Healthy',
        operation: {
          ...operation,
          phase: 'Succeeded',
          message: 'successfully synced 3 resources',
          waitingOn: [],
          finishedAt: iso(Date.now()),
        },
        resources: demoResources({ version: 'demo-app:9f2c41d' }),
        images: ['registry.local/demo-app:9f2c41d'],
        history: [
          ...demo.history,
          {
            id: demo.history.length + 1,
            revision,
            deployedAt: iso(Date.now()),
            initiatedBy: 'automated sync',
          },
        ],
        summary: 'Runs what commit 5a22f01c says.',
      }),
    );
  }

  const start = (pipeline, more) => {
    const build = newBuild(pipeline, Date.now(), 0, {
      webhookTriggered: false,
      pipelineTriggerName: undefined,
      ...more,
    });
    play(build, deploy);
    return build.id;
  };

  /** A build that runs until somebody terminates it. */
  function startEndless() {
    const build = newBuild(pipelines[0], Date.now(), 0);
    Object.assign(build, {
      status: 'running',
      runner: 'local',
      executor: 'podman',
      started: iso(Date.now()),
    });
    Object.assign(build.steps[0], { status: 'running', started: iso(Date.now()) });
    say(build, 'clone', 'waiting for the lock of the repository\n');
    build.onTerminate = () => {
      build.steps[0].status = 'terminated';
      finish(build, 'terminated', 'terminated by admin');
      changed('build', build.id);
      for (const listener of listeners) listener();
    };
    return build.id;
  }

  const repositories = ['demo/demo-app', 'demo/demo-deploy', 'platform/empty'].map((name, index) => ({
    id: hex(0x200 + index),
    name,
    cloneUrl: `http://127.0.0.1:8080/git/${name}.git`,
    defaultBranch: 'main',
    ...(index < 2
      ? {
          head: {
            sha: COMMITS[index][0],
            message: COMMITS[index][1],
            author: COMMITS[index][2],
            pushedAt: iso(now - 4e6),
          },
        }
      : {}),
  }));

  const runtimes = createRuntimes(now, changed);

  const lists = {
    repos: () => repositories,
    runtimes: () => runtimes.all,
    runners: () => [
      { name: 'local', version: '0.1.0', executor: 'podman', online: true, lastSeen: iso(Date.now()) },
      {
        name: 'cluster-1',
        version: '0.1.0',
        executor: 'kubernetes',
        online: false,
        lastSeen: iso(now - 4e7),
      },
    ],
  };

  const gitAccess = createGitAccess();
  const declaring = createDeclare(applications, changed, speed);
  const findApplication = (namespace, name, runtime) =>
    applications.find(
      (each) => each.namespace === namespace && each.name === name && (!runtime || each.runtime === runtime),
    );

  return {
    user,
    ids: { failed: failed.id, huge: huge.id, pending: pending.id },
    pipelines,
    start: () => start(pipelines[0]),
    startEndless,
    deployByHand: () => (byHand = true),
    deployOnward: () => steps.shift()?.(),
    build: (id) => builds.find((build) => build.id === id),
    listen: (listener) => listeners.add(listener),
    unlisten: (listener) => listeners.delete(listener),
    stop: () => timers.forEach(clearTimeout),
    auditCsv: admin.csv,

    answer(method, path, query, body, empty) {
      const administered = admin.answer(method, path, query, body, empty);
      if (administered !== undefined) return administered;
      const [noun, first, second] = path;
      if (noun === 'runtimes' && (first || method === 'POST'))
        return runtimes.answer(method, path.slice(1), body);
      if (noun === 'gitops' && first === 'clusters') return empty ? [] : createClusters();
      if (noun === 'gitops' && first === 'rollouts') return empty ? [] : listedRollouts(applications);
      if (noun === 'releases') return releases();
      switch (`${method} ${noun}`) {
        case 'GET user':
          return user;
        case 'POST auth':
          return {};
        case 'POST repos': {
          if (!/^[^/\s]+\/[^/\s]+$/.test(body.name))
            return { refuse: 400, message: `\`${body.name}\` is no name for a repository: write owner/name` };
          const made = {
            id: hex(nextId++),
            name: body.name,
            cloneUrl: `http://127.0.0.1:8080/git/${body.name}.git`,
            defaultBranch: 'main',
          };
          repositories.push(made);
          return made;
        }
        case 'GET projects': {
          const names = [...new Set(pipelines.map(({ metadata }) => metadata.project))];
          const projects = names.map((projectName, index) => ({
            id: hex(0x900 + index),
            projectName,
            tags: index === 0 ? ['web'] : [],
            variables: index === 0 ? [{ key: 'REGION', value: 'eu' }] : [],
            favorite: false,
            pipelinesNumber: pipelines.filter(({ metadata }) => metadata.project === projectName).length,
            updatedAt: iso(now - 3e7),
          }));
          return empty ? { projects: [], total: 0 } : { projects, total: projects.length };
        }
        case 'GET hooks':
          return [];
        case 'GET pipelines':
          if (second === 'revisions')
            return [3, 2, 1, 0].map((revision) => ({
              revision,
              name: first,
              author: 'admin@slipway.local',
              at: iso(now - (4 - revision) * 3e7),
            }));
          if (second === 'diff')
            return { from: 2, to: 3, before: 'priority: 1\n', after: 'priority: 5\nconcurrency: 2\n' };
          if (first) return pipelines.find(({ metadata }) => metadata.name === first);
          if (query.get('projectId')) {
            const names = [...new Set(pipelines.map(({ metadata }) => metadata.project))];
            const wanted = names.find((_, index) => hex(0x900 + index) === query.get('projectId'));
            const docs = pipelines.filter(({ metadata }) => metadata.project === wanted);
            return { docs, count: docs.length };
          }
          return empty ? { docs: [], count: 0 } : { docs: page(pipelines, query), count: pipelines.length };
        case 'POST pipelines': {
          if (first === 'yaml') return validate(body.yaml);
          if (first === undefined) {
            if (!body.metadata?.name) return { refuse: 400, message: 'metadata.name is needed' };
            pipelines.push({ ...body, metadata: { ...body.metadata, id: hex(nextId++), revision: 0 } });
            return body;
          }
          if (second === 'triggers')
            return [{ trigger: 'push', fires: false, reason: 'branch `x` does not fit `/^main$/`' }];
          const pipeline = pipelines.find(({ metadata }) => metadata.name === second);
          return pipeline && start(pipeline, { branchName: body.branch ?? 'main' });
        }
        case 'GET workflow': {
          const matching = empty
            ? []
            : builds.filter(
                (build) =>
                  (!query.get('pipeline') || build.serviceId === query.get('pipeline')) &&
                  (!query.get('status') || build.status === query.get('status')),
              );
          return { workflows: { docs: page(matching, query).map(visible), total: matching.length } };
        }
        case 'GET builds': {
          const build = this.build(first === 'rebuild' ? second : first);
          if (first !== 'rebuild' || !build) return build && visible(build);
          return start(pipelines.find(({ metadata }) => metadata.id === build.serviceId));
        }
        case 'DELETE progress': {
          const build = this.build(first);
          if (!build) return undefined;
          if (!build.can.terminate) return { refuse: 409, message: `the build is ${build.status} already` };
          build.status = 'terminating';
          build.can.terminate = false;
          if (build.onTerminate) later(300, build.onTerminate);
          changed('build', build.id);
          return {};
        }
        case 'GET applications':
          if (first) return findApplication(second, path[3], first);
          return listed(empty ? [] : applications, query);
        default:
          return method === 'GET' && lists[noun] ? (empty ? [] : lists[noun]()) : undefined;
      }
    },

    gitAccess: (method, verb, body, query) => declaring.lists(verb, query) ?? gitAccess(method, verb, body),

    appProxy(method, [namespace, name, verb], body, query) {
      if (verb === 'delete') return declaring.delete(namespace, name, body);
      if (verb === 'create') return declaring.create(namespace, name, body);
      const application = findApplication(namespace, name);
      if (!application) return undefined;
      if (application.runtime === 'frankfurt')
        return { refuse: 503, message: 'the runtime `frankfurt` is not connected; start it there' };
      const outOfSync = application.syncStatus === 'OutOfSync';
      const one = (application.resources ?? []).find(
        (each) => each.kind === query?.get('kind') && each.name === query?.get('resourceName'),
      );
      switch (`${method} ${verb}`) {
        case 'GET diff':
          if (query.has('deployment')) return diff;
          return outOfSync ? diff : { resources: diff.resources.filter(({ change }) => change === 'same') };
        case 'GET plan':
          return outOfSync
            ? plan(query.get('prune') === 'true')
            : { revision: application.revision.sha, steps: [], waiting: [], text: '' };
        case 'POST sync':
          if (application === demo && !body?.dryRun) deploy();
          return { message: 'the sync was asked for' };
        case 'GET resource':
          return one && manifestOf(one);
        case 'GET events':
          return one && noted(one);
        case 'GET actions':
          return one && actionsOf(one);
        case 'POST action':
          return /^\d+$/.test(body.parameters.replicas ?? '0')
            ? { message: `action ${body.action} was run on ${body.kind}/${body.resourceName}` }
            : { refuse: 422, message: '`replicas` has to be a number' };
        case 'POST refresh':
          return { message: 'the refresh was asked for' };
        case 'POST terminate':
          return application.operation?.finishedAt
            ? { refuse: 409, message: 'no operation is in progress' }
            : { message: 'the operation is being ended' };
        case 'POST rollback':
          application.automated = false;
          return {
            message: `the rollback to ${body.id} was asked for, and automated sync was switched off so that it lasts`,
          };
        default: {
          const wanted = ({ namespace: within, name: of }) =>
            within === body.namespace && of === body.resourceName;
          const rollout = verb.startsWith('rollout-') && (application.rollouts ?? []).find(wanted);
          if (!rollout) return undefined;
          const answer = orderRollout(rollout, verb);
          changed('application', `${application.runtime}/${application.namespace}/${application.name}`);
          return answer;
        }
      }
    },
  };
}

/** Steps one after the other, by the names at the second level. */
function planned(yaml) {
  const names = [...yaml.matchAll(/^ {2}(\w+):\s*$/gm)].map(([, name]) => name);
  return names.map((name, index) => ({
    name,
    title: name,
    type: 'freestyle',
    needs: index > 0 ? [names[index - 1]] : [],
  }));
}

function validate(yaml) {
  const line = yaml.split('\n').findIndex((each) => /\bimage:\s*$/.test(each)) + 1;
  const outdated = yaml.split('\n').findIndex((each) => each.includes('type: composition')) + 1;
  const steps = planned(yaml);
  if (line === 0 && outdated === 0) return { valid: true, steps };
  if (line === 0)
    return {
      valid: true,
      steps,
      details: [{ message: 'step version not specified', line: outdated, column: 5, level: 'warning' }],
    };
  return {
    valid: false,
    message: 'one error',
    details: [{ message: 'a step needs an image; name one', line, column: 12, level: 'error' }],
  };
}
