import { useQueryClient } from '@tanstack/react-query';
import type { ApplicationRef } from '../../api/appProxy';
import type { Rollout, RolloutStep } from '../../api/types';
import { Prose } from '../../ui/Prose';
import { sentence } from '../../ui/States';
import { Status } from '../../ui/Status';
import { stepTone } from '../tones';
import { AnalysisRuns } from './AnalysisRuns';
import { RolloutActions } from './RolloutActions';
import { RolloutRevisions } from './RolloutRevisions';
import styles from './RolloutPlayer.module.css';

interface RolloutPlayerProps {
  rollout: Rollout;
  reference: ApplicationRef;
  /** Why nothing can be asked of the runtime now. */
  disabledReason: string | undefined;
}

/** A Rollout as one follows it: where it stands, why it is not moving, what can be asked of it, and what was measured. */
export function RolloutPlayer({ rollout, reference, disabledReason }: RolloutPlayerProps) {
  const queryClient = useQueryClient();
  const renew = () => queryClient.invalidateQueries({ queryKey: ['applications'] });
  return (
    <div className="stack">
      <div className="panel">
        <header>
          <h2>Progress</h2>
        </header>
        <div className="body stack">
          <Waiting rollout={rollout} />
          <RolloutActions {...{ rollout, reference, disabledReason }} onDone={renew} />
          {rollout.weights && <Weights rollout={rollout} />}
          <Steps rollout={rollout} />
        </div>
      </div>
      <RolloutRevisions rollout={rollout} />
      <AnalysisRuns runs={rollout.runs ?? []} />
    </div>
  );
}

/** The sentence that people look for first. */
export function Waiting({ rollout }: { rollout: Rollout }) {
  const text = rollout.waiting || rollout.message;
  return (
    <p aria-label="Why it is not moving" role="status">
      {text ? <Prose>{sentence(text)}</Prose> : 'It is where it should be: nothing is waited for.'}
    </p>
  );
}

function Weights({ rollout }: { rollout: Rollout }) {
  const { weights } = rollout;
  if (!weights) return null;
  const share = (value: number) => `${Math.round((value / Math.max(1, weights.most)) * 1000) / 10} %`;
  const place = (value: number) => `${(value / Math.max(1, weights.most)) * 100}%`;
  const from = weights.routed ? 'by the router' : 'by the pods that are available';
  return (
    <div className={styles.weights}>
      <span>
        New version: <strong>{share(weights.now)}</strong> of the requests
        {weights.now !== weights.wanted && <> ({share(weights.wanted)} wanted)</>}
        <span className="muted"> {from}</span>
        {weights.verified === false && <span className="muted">, which has not taken it yet</span>}
      </span>
      <div
        className={styles.bar}
        role="img"
        aria-label={`${share(weights.now)} of the requests go to the new version, ${share(weights.wanted)} are wanted`}
      >
        <span className={styles.now} style={{ width: place(weights.now) }} />
        <span className={styles.wanted} style={{ left: place(weights.wanted) }} />
      </div>
    </div>
  );
}

/** What the states are called on the pages; the states themselves are the API's. */
const STATES: Record<string, string> = {
  PENDING: 'pending',
  ACTIVE: 'active',
  PASSED: 'passed',
  FAILED: 'failed',
  PAUSED_INDEFINITE: 'waits for a person',
  PAUSED_INCONCLUSIVE: 'inconclusive, waits for a person',
  TERMINATED: 'terminated',
};

/** Nothing goes on there any more. */
const OVER = new Set(['PASSED', 'FAILED', 'TERMINATED']);

export function Steps({ rollout }: { rollout: Rollout }) {
  const steps = rollout.steps ?? [];
  if (steps.length === 0) {
    return rollout.strategy === 'Canary' ? (
      <p className="muted">It has no steps: all pods are replaced.</p>
    ) : null;
  }
  return (
    <ol className={styles.steps} aria-label="Steps">
      {steps.map((step, index) => (
        <Step
          key={`${index}-${step.words}`}
          {...{ step, index }}
          current={rollout.step === index && !OVER.has(step.state)}
        />
      ))}
    </ol>
  );
}

function Step({ step, index, current }: { step: RolloutStep; index: number; current: boolean }) {
  const state = STATES[step.state] ?? step.state.toLowerCase();
  return (
    <li className={styles.step} data-state={step.state} aria-current={current ? 'step' : undefined}>
      <span className="muted">{index + 1}</span>
      <span className={styles.words}>{step.words}</span>
      <Status plain tone={stepTone(step.state)}>
        {state}
      </Status>
    </li>
  );
}
