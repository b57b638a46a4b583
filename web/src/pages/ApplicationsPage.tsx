import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { applicationsQuery, type ApplicationFilter } from '../api/queries';
import type { ApplicationList as Answer } from '../api/types';
import { ApplicationList, LIST_ID } from '../components/ApplicationList';
import { StateFilter } from '../components/StateFilter';
import { spaced } from '../components/badges';
import { healthTone, syncTone } from '../components/tones';
import { Layers, Search } from '../ui/icons';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { counted } from '../ui/counted';

const route = getRouteApi('/signed-in/applications');

const SORTS = [
  { value: 'problems', label: 'Problems first' },
  { value: '', label: 'Name' },
  { value: 'changed', label: 'Last change' },
];

export function ApplicationsPage() {
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const list = useQuery({ ...applicationsQuery(filter), placeholderData: keepPreviousData });
  const { sort, ...narrowing } = filter;
  const filtered = Object.keys(narrowing).length > 0;
  const change = (next: ApplicationFilter) =>
    void navigate({
      search: (before) =>
        Object.fromEntries(Object.entries({ ...before, ...next }).filter(([, value]) => value)),
      replace: true,
    }).then(toTop);
  const clear = () => void navigate({ search: sort ? { sort } : {}, replace: true }).then(toTop);
  return (
    <Page
      title="Applications"
      documentTitle="Applications"
      subtitle="The desired state in Git, and what is running."
    >
      <div className="row" style={{ flexWrap: 'wrap', alignItems: 'flex-end' }}>
        <SearchField value={filter.search ?? ''} onChange={(search) => change({ search })} />
        <Choice
          label="Runtime"
          any="All runtimes"
          value={filter.runtime}
          counts={list.data?.facets.runtime}
          onChange={(runtime) => change({ runtime })}
        />
        <Choice
          label="Namespace"
          any="All namespaces"
          value={filter.namespace}
          counts={list.data?.facets.namespace}
          onChange={(namespace) => change({ namespace })}
        />
        <Choice
          label="Project"
          any="All projects"
          value={filter.project}
          counts={list.data?.facets.project}
          onChange={(project) => change({ project })}
        />
        <NativeSelect
          size="xs"
          label="Sort by"
          value={sort ?? ''}
          data={SORTS}
          onChange={(event) => change({ sort: event.currentTarget.value })}
        />
        {filtered && (
          <Button variant="subtle" onClick={clear}>
            Clear filters
          </Button>
        )}
      </div>
      {list.data && (list.data.total > 0 || filtered) && (
        <div className="row" style={{ flexWrap: 'wrap', gap: 16 }}>
          <StateFilter
            label="Health"
            counts={list.data.facets.health}
            chosen={filter.health}
            tone={healthTone}
            text={spaced}
            onChange={(health) => change({ health })}
          />
          <StateFilter
            label="Sync"
            counts={list.data.facets.sync}
            chosen={filter.sync}
            tone={syncTone}
            text={spaced}
            onChange={(sync) => change({ sync })}
          />
          <span className="muted" role="status">
            {counted(list.data.total, 'application')}
          </span>
        </div>
      )}
      <div className="panel" style={{ opacity: list.isPlaceholderData ? 0.6 : 1 }}>
        <QueryView query={list} rows={6} empty={(data) => nothing(data, filtered)}>
          {(data) => <ApplicationList filter={filter} total={data.total} />}
        </QueryView>
      </div>
    </Page>
  );
}

/** Another filter is another list; the router would keep the old one's place. */
const toTop = () => document.getElementById(LIST_ID)?.scrollTo(0, 0);

function nothing({ total }: Answer, filtered: boolean) {
  if (total > 0) return false;
  if (filtered) return <Empty title="No application matches">Try other filters, or clear them.</Empty>;
  return (
    <Empty title="No applications yet" icon={<Layers />}>
      Commit an Argo CD <code>Application</code> to a repository that a runtime watches, or apply one with{' '}
      <code>kubectl</code>.
    </Empty>
  );
}

/** What is typed shows at once; the address and the server hear of it when the typing rests. */
function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [typed, setTyped] = useState<string>();
  const settle = useDebouncedCallback((text: string) => {
    onChange(text);
    setTyped(undefined);
  }, 200);
  return (
    <TextInput
      size="xs"
      type="search"
      label="Search"
      placeholder="Name, project, repository…"
      leftSection={<Search />}
      style={{ width: 240 }}
      value={typed ?? value}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        settle(event.currentTarget.value);
      }}
    />
  );
}

interface ChoiceProps {
  label: string;
  any: string;
  value: string | undefined;
  counts: Record<string, number> | undefined;
  onChange: (value: string) => void;
}

function Choice({ label, any, value, counts = {}, onChange }: ChoiceProps) {
  // A choice from an address stays visible, also when nothing has it now.
  const all = value && !(value in counts) ? { ...counts, [value]: 0 } : counts;
  const data = Object.entries(all).map(([name, count]) => ({ value: name, label: `${name} (${count})` }));
  return (
    <NativeSelect
      size="xs"
      label={label}
      value={value ?? ''}
      data={[{ value: '', label: any }, ...data]}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
