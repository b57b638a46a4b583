import { UnstyledButton } from '@mantine/core';
import { useMemo } from 'react';
import { ToneIcon } from '../ui/Status';
import styles from './StepGraph.module.css';
import { layoutOf, type GraphStep } from './stepLayout';
import { buildTone } from './tones';

const WIDTH = 176;
const HEIGHT = 34;
const ACROSS = WIDTH + 44;
const DOWN = HEIGHT + 8;
const HEAD = 24;
const x = (column: number) => column * ACROSS;

interface StepGraphProps {
  steps: GraphStep[];
  /** A click goes to the step's part of the log; before a build there is none. */
  onShow?: (name: string) => void;
}

/** What waits for what, under its stage: of a build, or of a pipeline that has not run. */
export function StepGraph({ steps, onShow }: StepGraphProps) {
  const { placed, edges, heads } = useMemo(() => layoutOf(steps), [steps]);
  if (heads.length < 2) return null;
  const top = heads.some(Boolean) ? HEAD : 0;
  const y = (row: number) => top + row * DOWN;
  const width = x(heads.length - 1) + WIDTH;
  const height = y(Math.max(...placed.map(({ row }) => row))) + HEIGHT;
  return (
    <section className="panel" aria-label="Graph of the steps">
      <div className={styles.frame}>
        <div className={styles.graph} style={{ width, height }}>
          <svg className={styles.edges} width={width} height={height} aria-hidden="true">
            {edges.map(([from, to]) => {
              const [x1, y1] = [x(from.column) + WIDTH, y(from.row) + HEIGHT / 2];
              const [x2, y2] = [x(to.column), y(to.row) + HEIGHT / 2];
              const middle = x2 - (ACROSS - WIDTH) / 2;
              return (
                <path key={`${from.step.name}>${to.step.name}`} d={`M${x1},${y1} H${middle} V${y2} H${x2}`} />
              );
            })}
          </svg>
          {heads.map(
            (head, column) =>
              head && (
                <h2 key={head} style={{ left: x(column), width: WIDTH }}>
                  {head}
                </h2>
              ),
          )}
          {placed.map(({ step, column, row }) => {
            const place = { left: x(column), top: y(row), width: WIDTH, height: HEIGHT };
            const title = step.title || step.name;
            if (!onShow || step.status === undefined) {
              return (
                <div key={step.name} className={styles.step} style={place} title={`${title}: ${step.type}`}>
                  <span className={styles.title}>{title}</span>
                </div>
              );
            }
            return (
              <UnstyledButton
                key={step.name}
                className={styles.step}
                style={place}
                title={`${title}: ${step.status}`}
                onClick={() => onShow(step.name)}
              >
                <ToneIcon tone={buildTone(step.status)} />
                <span className={styles.title}>{title}</span>
                {step.tests && (
                  <span className="muted">
                    {step.tests.passed}✓ {step.tests.failed}✗
                  </span>
                )}
              </UnstyledButton>
            );
          })}
        </div>
      </div>
    </section>
  );
}
