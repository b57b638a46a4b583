import { SegmentedControl, UnstyledButton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useState } from 'react';
import type { ApplicationRef } from '../../api/appProxy';
import { diffQuery } from '../../api/queries';
import type { ResourceDiff } from '../../api/types';
import { Check } from '../../ui/icons';
import { Empty, Loading, QueryView } from '../../ui/States';
import { Status } from '../../ui/Status';
import { UnifiedDiff } from '../../ui/UnifiedDiff';
import { changeTone } from '../tones';
import styles from './DiffTab.module.css';

// The editor is the heaviest part of the app; only this view needs it.
const SideBySide = lazy(() =>
  import('../../ui/SideBySide').then((module) => ({ default: module.SideBySide })),
);

export function DiffTab({ reference }: { reference: ApplicationRef }) {
  const diff = useQuery(diffQuery(reference));
  return (
    <QueryView
      query={diff}
      empty={({ resources }) =>
        resources.every((resource) => resource.change === 'same') && (
          <Empty title="No difference" icon={<Check />}>
            What runs is what Git says.
          </Empty>
        )
      }
    >
      {({ resources }) => <DiffView resources={resources.filter((resource) => resource.change !== 'same')} />}
    </QueryView>
  );
}

/** As in a diff: the word beside it says the same. */
const SIGNS: Record<string, string> = { add: '+', change: '~', delete: '−' };

const nameOf = (resource: ResourceDiff) =>
  [resource.group, resource.kind, resource.namespace, resource.name].filter(Boolean).join('/');

function DiffView({ resources }: { resources: ResourceDiff[] }) {
  const [chosen, setChosen] = useState('');
  const [view, setView] = useState<'unified' | 'split'>('unified');
  const shown = resources.find((resource) => nameOf(resource) === chosen) ?? resources[0];
  if (!shown) return null;
  return (
    <div className={styles.columns}>
      <ul className={styles.list} aria-label="Resources that differ">
        {resources.map((resource) => (
          <li key={nameOf(resource)}>
            <UnstyledButton
              className={styles.item}
              aria-current={resource === shown || undefined}
              onClick={() => setChosen(nameOf(resource))}
            >
              <Status plain tone={changeTone(resource.change)} sign={SIGNS[resource.change] ?? ' '}>
                {resource.change}
              </Status>
              <span className="ellipsis" title={nameOf(resource)}>
                {resource.kind} {resource.name}
              </span>
            </UnstyledButton>
          </li>
        ))}
      </ul>
      <div className={styles.diff}>
        <div className={styles.head}>
          <strong className="ellipsis">
            {shown.kind} {shown.name}
          </strong>
          <span className="muted">{shown.namespace}</span>
          <SegmentedControl
            size="xs"
            style={{ marginLeft: 'auto' }}
            aria-label="How to show the difference"
            value={view}
            onChange={(value) => setView(value === 'split' ? 'split' : 'unified')}
            data={[
              { value: 'unified', label: 'Unified' },
              { value: 'split', label: 'Side by side' },
            ]}
          />
        </div>
        {view === 'unified' ? (
          <UnifiedDiff text={shown.unified} label={`Difference of ${shown.kind} ${shown.name}`} />
        ) : (
          <Suspense fallback={<Loading />}>
            <SideBySide
              before={shown.live}
              after={shown.desired}
              beforeLabel="What runs"
              afterLabel="What Git says"
            />
          </Suspense>
        )}
      </div>
    </div>
  );
}
