import { Checkbox } from '@mantine/core';
import type { Dispatch, SetStateAction } from 'react';
import { TableFrame } from '../../ui/TableFrame';
import { isHook, isPart, stepId, type Step } from './syncWish';

interface PlanChoiceProps {
  steps: Step[];
  waiting: string[];
  withoutHooks: boolean;
  /** Those that are not to be synced. */
  left: ReadonlySet<string>;
  setLeft: Dispatch<SetStateAction<ReadonlySet<string>>>;
}

/** The plan in its order, with what is deleted first; each resource can be left out. */
export function PlanChoice({ steps, waiting, withoutHooks, left, setLeft }: PlanChoiceProps) {
  if (steps.length === 0) return <p className="muted">A sync would change nothing.</p>;
  const rows = steps.toSorted((a, b) => Number(b.action === 'prune') - Number(a.action === 'prune'));
  const ids = [...new Set(steps.filter((step) => !isHook(step)).map(stepId))];
  const turn = (id: string, on: boolean) =>
    setLeft((before) => new Set(on ? [...before].filter((each) => each !== id) : [...before, id]));
  const out = ids.filter((id) => left.has(id)).length;
  const noHooks = withoutHooks || isPart(steps, left);
  return (
    <>
      {waiting.length > 0 && (
        <ul style={{ margin: 0 }} aria-label="Waiting for">
          {waiting.map((reason) => (
            <li key={reason}>{reason}</li>
          ))}
        </ul>
      )}
      <TableFrame>
        <table className="data" aria-label="Plan">
          <thead>
            <tr>
              <th>
                <Checkbox
                  aria-label="All resources"
                  checked={out === 0}
                  indeterminate={out > 0 && out < ids.length}
                  onChange={() => setLeft(out === 0 ? new Set(ids) : new Set())}
                />
              </th>
              <th className="right">Wave</th>
              <th>Action</th>
              <th>Resource</th>
              <th>Why</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((step) => {
              const id = stepId(step);
              const hook = isHook(step);
              return (
                <tr key={`${step.phase}-${step.action}-${id}`}>
                  <td>
                    <Checkbox
                      aria-label={step.resource}
                      checked={hook ? !noHooks : !left.has(id)}
                      disabled={hook}
                      onChange={(event) => turn(id, event.currentTarget.checked)}
                    />
                  </td>
                  <td className="right">
                    {step.phase === 'Sync' ? step.wave : `${step.phase} ${step.wave}`}
                  </td>
                  <td style={step.action === 'prune' ? { color: 'var(--bad)' } : {}}>
                    <strong>{step.action}</strong>
                  </td>
                  <td className="mono">{step.resource}</td>
                  <td>{step.why}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </TableFrame>
      {out > 0 && <p className="muted">Hooks run only when everything is synced.</p>}
    </>
  );
}
