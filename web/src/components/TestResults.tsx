import type { Build } from '../api/types';

/** What the tests of a build came to: counts, and the names of cases that failed. Their output stays with the runner. */
export function TestResults({ build }: { build: Build }) {
  const tested = build.steps?.filter((step) => step.tests) ?? [];
  if (tested.length === 0) return null;
  return (
    <section className="panel" aria-labelledby="tests">
      <div className="body" style={{ padding: '10px 14px' }}>
        <h2 id="tests" style={{ fontSize: 14, margin: '0 0 6px' }}>
          Tests
        </h2>
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Step</th>
              <th scope="col">Passed</th>
              <th scope="col">Failed</th>
              <th scope="col">Skipped</th>
              <th scope="col">Cases that failed</th>
            </tr>
          </thead>
          <tbody>
            {tested.map((step) => (
              <tr key={step.name}>
                <td>{step.title || step.name}</td>
                <td>{step.tests?.passed}</td>
                <td>{step.tests?.failed}</td>
                <td>{step.tests?.skipped}</td>
                <td>
                  <ul style={{ margin: 0, paddingLeft: 16 }}>
                    {step.tests?.failedCases?.map((name) => (
                      <li key={name}>
                        <code>{name}</code>
                      </li>
                    ))}
                  </ul>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
