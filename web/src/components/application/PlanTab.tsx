import { useQuery } from '@tanstack/react-query';
import type { ApplicationRef } from '../../api/appProxy';
import { planQuery } from '../../api/queries';
import type { ApplicationPlan } from '../../api/types';
import { CopyIcon } from '../../ui/CopyText';
import { Check } from '../../ui/icons';
import { Empty, QueryView } from '../../ui/States';
import { TableFrame } from '../../ui/TableFrame';

/** What a sync would do now, in order: the same plan that `slipway app plan` prints. */
export function PlanTab({ reference }: { reference: ApplicationRef }) {
  const plan = useQuery(planQuery(reference));
  return (
    <QueryView
      query={plan}
      empty={({ steps, waiting }) =>
        steps.length === 0 &&
        waiting.length === 0 && (
          <Empty title="Nothing to do" icon={<Check />}>
            A sync would change nothing.
          </Empty>
        )
      }
    >
      {(data) => <PlanView plan={data} />}
    </QueryView>
  );
}

function PlanView({ plan }: { plan: ApplicationPlan }) {
  return (
    <div className="stack" style={{ padding: '12px 0' }}>
      <p className="row" style={{ padding: '0 14px' }}>
        A sync to <code>{plan.revision.slice(0, 8)}</code> would do this, in this order:
        <CopyIcon text={plan.text} what="plan as text" />
      </p>
      {plan.waiting.length > 0 && (
        <ul style={{ margin: 0, padding: '0 14px 0 32px' }} aria-label="Waiting for">
          {plan.waiting.map((reason) => (
            <li key={reason}>{reason}</li>
          ))}
        </ul>
      )}
      <TableFrame>
        <table className="data" aria-label="Plan">
          <thead>
            <tr>
              <th className="right">#</th>
              <th>Phase</th>
              <th className="right">Wave</th>
              <th>Action</th>
              <th>Resource</th>
              <th>Why</th>
            </tr>
          </thead>
          <tbody>
            {plan.steps.map((step, index) => (
              <tr key={`${index}-${step.resource}`}>
                <td className="right muted">{index + 1}</td>
                <td>{step.phase}</td>
                <td className="right">{step.wave}</td>
                <td>
                  <strong>{step.action}</strong>
                </td>
                <td className="mono">{step.resource}</td>
                <td>{step.why}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </div>
  );
}
