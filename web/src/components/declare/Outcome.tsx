import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ApplicationRef } from '../../api/appProxy';
import { fetchApplicationRow } from '../../api/queries';
import type { Declared } from '../../api/types';
import { Prose } from '../../ui/Prose';
import { sentence } from '../../ui/States';

/** What is worth knowing though nothing is wrong. */
export function Warnings({ of }: { of: Declared }) {
  const warnings = of.warnings ?? [];
  if (warnings.length === 0) return null;
  return (
    <ul aria-label="Worth knowing">
      {warnings.map((warning) => (
        <li key={warning}>
          <Prose>{sentence(warning)}</Prose>
        </li>
      ))}
    </ul>
  );
}

/** After the commit: whose it is, who syncs it, and the Application as soon as the runtime has it. */
export function Committed({ declared, reference }: { declared: Declared; reference: ApplicationRef }) {
  // Old when the change stream tells of it, so that it turns up here without anybody asking again.
  const there = useQuery({
    queryKey: ['applications', 'one', reference.runtime, reference.namespace, reference.name, 'row'],
    queryFn: async () => (await fetchApplicationRow(reference)) ?? null,
  });
  const { runtime, namespace, name } = reference;
  const syncedBy = declared.syncedBy ?? [];
  return (
    <section className="panel" aria-labelledby="committed">
      <header>
        <h2 id="committed">Committed</h2>
      </header>
      <div className="body stack">
        <p>
          {declared.outcome === 'no-change'
            ? 'The file says this already; there was nothing to commit.'
            : null}
          {declared.commit && (
            <>
              <code>{declared.commit.slice(0, 7)}</code> on {declared.branch || 'the default branch'}
              {declared.author && `, by ${declared.author}`}.
            </>
          )}
        </p>
        {syncedBy.length > 0 && <p>{syncedBy.join(', ')} was asked to look at it at once.</p>}
        <Warnings of={declared} />
        <p role="status">
          {there.data ? (
            <>
              The runtime has it:{' '}
              <Link to="/applications/$runtime/$namespace/$name" params={{ runtime, namespace, name }}>
                {name}
              </Link>
              .
            </>
          ) : (
            <>Waiting for the runtime to make {name}…</>
          )}
        </p>
      </div>
    </section>
  );
}
