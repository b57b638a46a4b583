// Rollouts in the states that a page has to be able to show, and what becomes of them when somebody asks.

const iso = (secondsAgo) => new Date(Date.now() - secondsAgo * 1000).toISOString();

const WORDS = ['setWeight: 20', 'pause', 'setWeight: 50', 'analysis', 'setWeight: 80', 'pause: 10m'];
const WEIGHTS = [20, 20, 50, 50, 80, 80];

const measured = (values) =>
  values.map(([number, phase], index) => ({
    at: iso((values.length - index) * 30),
    phase,
    value: `[${number}]`,
    number,
  }));

const metric = (name, values, more = {}) => ({
  name,
  provider: 'prometheus',
  phase: 'Successful',
  successCondition: 'result[0] >= 0.95',
  dryRun: false,
  successful: values.filter(([, phase]) => phase === 'Successful').length,
  failed: values.filter(([, phase]) => phase === 'Failed').length,
  inconclusive: 0,
  error: 0,
  measurements: measured(values),
  ...more,
});

const good = [0.99, 0.985, 0.97, 0.991, 0.978, 0.983].map((value) => [value, 'Successful']);

const run = (revision, phase, metrics, more = {}) => ({
  name: `web-6d5b8c-${revision}-3`,
  kind: 'Step',
  step: 3,
  revision: String(revision),
  phase,
  startedAt: iso(200),
  completedAt: phase === 'Running' ? '' : iso(20),
  metrics,
  ...more,
});

const set = (revision, image, roles, pods, of = pods) => ({
  revision,
  name: `web-${(revision * 7919).toString(16)}c8d`,
  hash: `${(revision * 7919).toString(16)}c8d`,
  roles,
  images: [image],
  desired: of,
  ready: pods,
  available: pods,
  created: iso(90_000 / revision),
});

/** Every part that depends on where it stands. */
function at(rollout, step, phase, waiting) {
  const aborted = phase === 'Degraded';
  const done = step >= WORDS.length;
  const asked = phase === 'Paused';
  const state = (index) => {
    if (aborted) return index === 3 ? 'FAILED' : 'TERMINATED';
    if (index < step || done) return 'PASSED';
    if (index > step) return 'PENDING';
    return asked ? 'PAUSED_INDEFINITE' : 'ACTIVE';
  };
  const wanted = done ? 100 : aborted ? 0 : WEIGHTS[step];
  const reasons = {
    'rollout-resume': asked ? undefined : 'web is not paused',
    'rollout-skip-current-step': done || aborted ? 'web is at no step that could be skipped' : undefined,
    'rollout-promote-full': done ? 'web has no update under way that could be promoted' : undefined,
    'rollout-pause': undefined,
    'rollout-abort': aborted
      ? 'web is aborted already'
      : done
        ? 'web has no update under way that could be aborted; go back with `undo`'
        : undefined,
    'rollout-retry': aborted ? undefined : 'web was not aborted',
    'rollout-restart': undefined,
  };
  const pods = Math.round((wanted / 100) * 5);
  return Object.assign(rollout, {
    step,
    phase,
    message: '',
    waiting,
    steps: WORDS.map((words, index) => ({ words, state: state(index) })),
    weights: { now: wanted, wanted, most: 100, routed: true },
    revisions: done
      ? [set(2, 'registry.local/shop:2.1.0', ['stable'], 5), set(1, 'registry.local/shop:2.0.4', [], 0)]
      : [
          set(2, 'registry.local/shop:2.1.0', ['canary'], pods),
          set(1, 'registry.local/shop:2.0.4', ['stable'], 5),
        ],
    runs:
      step < 3 && !aborted
        ? []
        : aborted
          ? [
              run(
                2,
                'Failed',
                [
                  metric('success rate', [...good.slice(0, 3), [0.71, 'Failed'], [0.64, 'Failed']], {
                    phase: 'Failed',
                    message: 'result[0] >= 0.95 is false',
                  }),
                  metric('latency', [], {
                    phase: '',
                    measurements: [],
                    provider: 'web',
                    successCondition: '',
                  }),
                ],
                { message: 'Metric "success rate" assessed Failed due to failed (2) > failureLimit (1)' },
              ),
            ]
          : [run(2, done ? 'Successful' : 'Running', [metric('success rate', good)])],
    desired: 5,
    updated: pods,
    ready: 5,
    available: 5,
    actions: Object.entries(reasons).map(([operation, disabledReason]) => ({
      operation,
      ...(disabledReason ? { disabledReason } : {}),
    })),
  });
}

const empty = (namespace) => ({
  namespace,
  name: 'web',
  uid: `rollout-web-${namespace}`,
  strategy: 'Canary',
});

const PAUSE =
  'step 2 of 6 waits for a person: `slipway rollout promote web` goes on, `slipway rollout abort web` goes back';
const ABORTED =
  'Rollout aborted update to revision 2: Step-based analysis phase error/failed; the stable version serves. Try again with `slipway rollout retry web`, or change the pod template';

export const pausedRollout = (namespace) => at(empty(namespace), 1, 'Paused', PAUSE);
export const abortedRollout = (namespace) => at(empty(namespace), 0, 'Degraded', ABORTED);

/** What the runtime answers; the Rollout is another one afterwards. */
export function orderRollout(rollout, operation) {
  const offered = rollout.actions.find((action) => action.operation === operation);
  if (!offered) return undefined;
  if (offered.disabledReason) return { refuse: 409, message: offered.disabledReason };
  const onward = (step) =>
    step >= WORDS.length
      ? at(rollout, WORDS.length, 'Healthy', '')
      : step === 3
        ? at(rollout, 3, 'Progressing', 'step 4 waits for the analysis web-6d5b8c-2-3 (Running)')
        : at(rollout, step, 'Progressing', '4 of 5 pods of revision 2 are available');
  switch (operation) {
    case 'rollout-resume':
      onward(3);
      return { message: 'web goes on' };
    case 'rollout-skip-current-step':
      onward(rollout.step + 1);
      return { message: 'web goes to the next step' };
    case 'rollout-promote-full':
      onward(WORDS.length);
      return { message: 'web is promoted' };
    case 'rollout-abort':
      at(rollout, 0, 'Degraded', ABORTED);
      return { message: 'web is aborted' };
    case 'rollout-retry':
      onward(0);
      return { message: 'web is tried again' };
    case 'rollout-pause':
      at(rollout, rollout.step, 'Paused', 'somebody paused it (spec.paused)');
      return { message: 'web is paused' };
    default:
      return { message: 'web restarts its pods' };
  }
}

const urgency = ({ phase }) => ['Degraded', 'Paused', 'Progressing', 'Healthy'].indexOf(phase);

/** Of all applications, as the server lists them. */
export function listedRollouts(applications) {
  return applications
    .flatMap((application) =>
      (application.rollouts ?? []).map((rollout) => ({
        runtime: application.runtime,
        applicationNamespace: application.namespace,
        application: application.name,
        namespace: rollout.namespace,
        name: rollout.name,
        strategy: rollout.strategy,
        phase: rollout.phase,
        waiting: rollout.waiting,
        step: rollout.step,
        steps: rollout.steps.length,
        weights: rollout.weights,
        desired: rollout.desired,
        available: rollout.available,
        images: rollout.revisions[0]?.images ?? [],
      })),
    )
    .toSorted((one, other) => urgency(one) - urgency(other));
}
