import { UnstyledButton } from '@mantine/core';
import { Fragment } from 'react';
import type { BuildStep } from '../api/types';
import { ToneIcon } from '../ui/Status';
import styles from './StepGraph.module.css';
import { buildTone } from './tones';

/** Columns in the order of their first step: a stage each, and one without a name for steps that have none. */
export function columnsOf(steps: BuildStep[]): { stage: string; steps: BuildStep[] }[] {
  const columns = new Map<string, BuildStep[]>();
  for (const step of steps) {
    const stage = step.stage ?? '';
    columns.set(stage, [...(columns.get(stage) ?? []), step]);
  }
  return [...columns].map(([stage, all]) => ({ stage, steps: all }));
}

/** The build at a glance: stages from left to right, a click goes to the step's part of the log. */
export function StepGraph({ steps, onShow }: { steps: BuildStep[]; onShow: (name: string) => void }) {
  const columns = columnsOf(steps);
  if (columns.length < 2) return null;
  return (
    <section className="panel" aria-label="Stages">
      <div className={styles.graph}>
        {columns.map(({ stage, steps: all }, index) => (
          <Fragment key={stage}>
            {index > 0 && (
              <span className={styles.arrow} aria-hidden="true">
                →
              </span>
            )}
            <div className={styles.stage}>
              <h2>{stage || 'Before'}</h2>
              {all.map((step) => (
                <UnstyledButton key={step.name} className={styles.step} onClick={() => onShow(step.name)}>
                  <ToneIcon tone={buildTone(step.status)} />
                  <span>{step.title || step.name}</span>
                  {step.tests && (
                    <span className="muted">
                      {step.tests.passed}✓ {step.tests.failed}✗
                    </span>
                  )}
                </UnstyledButton>
              ))}
            </div>
          </Fragment>
        ))}
      </div>
    </section>
  );
}
