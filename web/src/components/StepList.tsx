import { UnstyledButton } from '@mantine/core';
import type { BuildStep } from '../api/types';
import { Prose } from '../ui/Prose';
import { ToneIcon } from '../ui/Status';
import { Elapsed } from '../ui/Time';
import styles from './StepList.module.css';
import { buildTone } from './tones';

interface StepListProps {
  steps: BuildStep[];
  onShow: (name: string) => void;
}

/** The steps in order, under their stages; a click goes to the step's part of the log. */
export function StepList({ steps, onShow }: StepListProps) {
  return (
    <nav className={styles.list} aria-label="Steps">
      {steps.length === 0 && <p className={styles.none}>Steps appear once a runner has read the pipeline.</p>}
      {groupByStage(steps).map((group, index) => (
        <section key={`${index}-${group.stage}`} aria-label={group.stage || 'Steps'}>
          {group.stage && <h2 className={styles.stage}>{group.stage}</h2>}
          <ol>
            {group.steps.map((step) => (
              <li key={step.name}>
                <UnstyledButton className={styles.step} onClick={() => onShow(step.name)}>
                  <ToneIcon tone={buildTone(step.status)} />
                  <span className={styles.title}>
                    <span>{step.title || step.name}</span>
                    <span className={styles.detail}>
                      {step.status}
                      {(step.attempt ?? 0) > 1 && ` · attempt ${step.attempt}`}
                      {typeof step.exitCode === 'number' &&
                        step.exitCode !== 0 &&
                        ` · exit code ${step.exitCode}`}
                      {step.previouslyExecuted && ' · reused'}
                      {step.tests &&
                        ` · ${step.tests.passed} tests passed, ${step.tests.failed} failed, ${step.tests.skipped} skipped`}
                    </span>
                    {step.message && (
                      <span className={styles.message}>
                        <Prose>{step.message}</Prose>
                      </span>
                    )}
                  </span>
                  <span className={styles.time}>
                    <Elapsed from={step.started} to={step.finished} />
                  </span>
                </UnstyledButton>
              </li>
            ))}
          </ol>
        </section>
      ))}
    </nav>
  );
}

export interface StageGroup {
  stage: string;
  steps: BuildStep[];
}

/** Neighbours of one stage together. A stage that comes again later is drawn again: the order of steps is the truth. */
export function groupByStage(steps: BuildStep[]): StageGroup[] {
  const groups: StageGroup[] = [];
  for (const step of steps) {
    const stage = step.stage ?? '';
    const last = groups.at(-1);
    if (last?.stage === stage) last.steps.push(step);
    else groups.push({ stage, steps: [step] });
  }
  return groups;
}
