import { Button } from '@mantine/core';
import { useMemo } from 'react';
import type { ResourceNode } from '../../api/types';
import { SearchField } from '../../ui/SearchField';
import { spaced } from '../badges';
import { StateFilter } from '../StateFilter';
import { healthTone, syncTone } from '../tones';
import { countsOf, type TreeFilter } from './resourceTree';

interface TreeFilterBarProps {
  /** All that there are. */
  resources: ResourceNode[];
  /** How many are shown, owners of what fits among them. */
  shown: number;
  filter: TreeFilter;
  onChange: (filter: TreeFilter) => void;
}

/** Finds resources by kind or name and by state; the address knows of it. */
export function TreeFilterBar({ resources, shown, filter, onChange }: TreeFilterBarProps) {
  const health = useMemo(() => countsOf(resources, (resource) => resource.health), [resources]);
  const sync = useMemo(() => countsOf(resources, (resource) => resource.status), [resources]);
  const narrowed = Boolean(filter.find || filter.health || filter.sync);
  return (
    <div className="row" style={{ flexWrap: 'wrap', alignItems: 'flex-end', gap: 12, padding: '10px 14px' }}>
      <SearchField
        label="Find"
        placeholder="Kind or name…"
        value={filter.find ?? ''}
        onChange={(find) => onChange({ ...filter, find })}
      />
      <StateFilter
        label="Health"
        counts={health}
        chosen={filter.health}
        tone={healthTone}
        text={spaced}
        onChange={(chosen) => onChange({ ...filter, health: chosen })}
      />
      <StateFilter
        label="Sync"
        counts={sync}
        chosen={filter.sync}
        tone={syncTone}
        text={spaced}
        onChange={(chosen) => onChange({ ...filter, sync: chosen })}
      />
      {narrowed && (
        <>
          <span className="muted" role="status">
            {shown.toLocaleString('en')} of {resources.length.toLocaleString('en')} shown
          </span>
          <Button size="xs" variant="subtle" onClick={() => onChange({})}>
            Show all
          </Button>
        </>
      )}
    </div>
  );
}
