import type { Operation, ResultOfSync } from '../../api/types';
import { DataTable } from '../../ui/DataTable';
import { Ship } from '../../ui/icons';
import { Prose } from '../../ui/Prose';
import { Empty, sentence } from '../../ui/States';
import { Status } from '../../ui/Status';
import { spaced } from '../badges';
import { resultTone } from '../tones';

/** What the last sync did to each object and hook, as it happens. */
export function ResultsTab({ operation }: { operation: Operation | null | undefined }) {
  const results = operation?.results ?? [];
  if (results.length === 0) {
    return (
      <Empty title="No results" icon={<Ship />}>
        {operation
          ? 'The last sync has not touched an object, or its controller did not say.'
          : 'What a sync does to each object is shown here, as it happens.'}
      </Empty>
    );
  }
  return (
    <>
      <DataTable label="Results of the last sync" heads={['Phase', 'Object', 'Outcome', 'Message']}>
        {results.map((result) => (
          <tr key={keyOf(result)}>
            <td>
              {result.phase || '–'}
              {result.hook && <span className="muted"> hook</span>}
            </td>
            <td>
              {result.kind} {result.name}
              {result.namespace && <div className="muted">{result.namespace}</div>}
            </td>
            <td className="nowrap">
              <Status plain tone={resultTone(result.status ?? '')}>
                {spaced(result.status || 'Unknown')}
              </Status>
            </td>
            <td style={{ overflowWrap: 'anywhere' }}>
              <Prose>{result.message ? sentence(result.message) : '–'}</Prose>
            </td>
          </tr>
        ))}
      </DataTable>
      {Boolean(operation?.moreResults) && (
        <p className="muted" style={{ padding: '8px 14px' }}>
          {operation?.moreResults?.toLocaleString('en')} more are not listed.
        </p>
      )}
    </>
  );
}

const keyOf = ({ phase, hook, group, kind, namespace, name }: ResultOfSync) =>
  [phase, hook, group, kind, namespace, name].join('/');
