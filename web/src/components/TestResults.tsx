import type { Build } from '../api/types';
import { TableFrame } from '../ui/TableFrame';

/**
 * What the tests of a build came to: counts and names. Cases that failed are shown, the others unfold. What they
 * printed stays with the runner.
 */
export function TestResults({ build }: { build: Build }) {
  const tested = build.steps?.filter((step) => step.tests) ?? [];
  if (tested.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="tests">
      <div className="body" style={{ padding: '10px 14px' }}>
        <h2 id="tests" style={{ fontSize: 14, margin: '0 0 6px' }}>
          Tests
        </h2>
        <TableFrame>
          <table className="data">
            <thead>
              <tr>
                <th scope="col">Step</th>
                <th scope="col">Passed</th>
                <th scope="col">Failed</th>
                <th scope="col">Skipped</th>
                <th scope="col">Cases</th>
              </tr>
            </thead>
            <tbody>
              {tested.map((step) => (
                <tr key={step.name} style={{ verticalAlign: 'top' }}>
                  <td>{step.title || step.name}</td>
                  <td>{step.tests?.passed}</td>
                  <td>{step.tests?.failed}</td>
                  <td>{step.tests?.skipped}</td>
                  <td style={{ whiteSpace: 'normal' }}>
                    <Names names={step.tests?.failedCases} />
                    <Folded what="passed" names={step.tests?.passedCases} of={step.tests?.passed} />
                    <Folded what="skipped" names={step.tests?.skippedCases} of={step.tests?.skipped} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableFrame>
      </div>
    </section>
  );
}

function Names({ names }: { names: string[] | undefined }) {
  if (!names?.length) return null;
  return (
    <ul style={{ margin: 0, paddingLeft: 16 }}>
      {names.map((name, index) => (
        // A report may name two cases alike.
        <li key={`${index} ${name}`}>
          <code>{name}</code>
        </li>
      ))}
    </ul>
  );
}

function Folded({ what, names, of = 0 }: { what: string; names: string[] | undefined; of?: number }) {
  if (!names?.length) return null;
  const more = of - names.length;
  return (
    <details>
      <summary className="muted">
        {of} {what}
      </summary>
      <Names names={names} />
      {more > 0 && (
        <p className="muted" style={{ margin: 0 }}>
          and {more} more, in the report with the runner
        </p>
      )}
    </details>
  );
}
