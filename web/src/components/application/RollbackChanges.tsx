import { useQuery } from '@tanstack/react-query';
import type { ApplicationRef } from '../../api/appProxy';
import { rollbackDiffQuery } from '../../api/queries';
import type { ResourceDiff } from '../../api/types';
import { counted } from '../../ui/counted';
import { QueryView } from '../../ui/States';
import { Status } from '../../ui/Status';
import { UnifiedDiff } from '../../ui/UnifiedDiff';
import { changeTone } from '../tones';

interface RollbackChangesProps {
  reference: ApplicationRef;
  deployment: number;
}

/** What would change in the cluster, before somebody says yes to it. */
export function RollbackChanges({ reference, deployment }: RollbackChangesProps) {
  const diff = useQuery(rollbackDiffQuery(reference, deployment));
  return (
    <section aria-label="Changes of the rollback" style={{ marginTop: 12 }}>
      <QueryView query={diff}>{({ resources }) => <Changes resources={changed(resources)} />}</QueryView>
    </section>
  );
}

/** A rollback prunes nothing. */
const changed = (resources: ResourceDiff[]) =>
  resources.filter(({ change }) => change === 'add' || change === 'change');

function Changes({ resources }: { resources: ResourceDiff[] }) {
  if (resources.length === 0) return <p className="muted">Nothing in the cluster would change.</p>;
  return (
    <div className="stack" style={{ gap: 8 }}>
      <p>{counted(resources.length, 'resource')} would change:</p>
      {resources.map(({ kind, namespace, name, change, unified }) => (
        <details key={`${kind}/${namespace}/${name}`} open={resources.length === 1}>
          <summary>
            <Status plain tone={changeTone(change)}>
              {change}
            </Status>{' '}
            {kind} {name}
          </summary>
          <UnifiedDiff text={unified} label={`Change of ${kind} ${name}`} />
        </details>
      ))}
    </div>
  );
}
