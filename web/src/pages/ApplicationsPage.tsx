import { Button, NativeSelect } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useCallback, useState } from 'react';
import { applicationsQuery, type ApplicationFilter } from '../api/queries';
import type { ApplicationList as Answer, ApplicationRow } from '../api/types';
import { ApplicationList, LIST_ID } from '../components/ApplicationList';
import { keyOf } from '../components/ApplicationTable';
import { SeveralDialog, type Order } from '../components/SeveralDialog';
import { StateFilter } from '../components/StateFilter';
import { spaced } from '../components/badges';
import { healthTone, syncTone } from '../components/tones';
import { Action } from '../ui/Action';
import { Layers } from '../ui/icons';
import { Page } from '../ui/Page';
import { SearchField } from '../ui/SearchField';
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
  const [chosen, setChosen] = useState<ReadonlyMap<string, ApplicationRow>>(new Map());
  const choose = useCallback((row: ApplicationRow, yes: boolean) => {
    setChosen((before) => {
      const after = new Map(before);
      if (yes) after.set(keyOf(row), row);
      else after.delete(keyOf(row));
      return after;
    });
  }, []);
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
      actions={
        <Button
          component={Link}
          to={`/applications/new${filter.runtime ? `?runtime=${encodeURIComponent(filter.runtime)}` : ''}`}
        >
          New application
        </Button>
      }
    >
      <div className="row" style={{ flexWrap: 'wrap', alignItems: 'flex-end' }}>
        <SearchField
          placeholder="Name, project, repository…"
          value={filter.search ?? ''}
          onChange={(search) => change({ search })}
        />
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
      {((list.data?.total ?? 0) > 0 || chosen.size > 0) && (
        <Chosen rows={chosen} list={list.data} onChange={setChosen} />
      )}
      <div className="panel" style={{ opacity: list.isPlaceholderData ? 0.6 : 1 }}>
        <QueryView query={list} rows={6} empty={(data) => nothing(data, filtered)}>
          {(data) => <ApplicationList {...{ filter, chosen }} total={data.total} onChoose={choose} />}
        </QueryView>
      </div>
    </Page>
  );
}

interface ChosenProps {
  rows: ReadonlyMap<string, ApplicationRow>;
  /** The first page of what fits the filter; not there while it cannot be read. */
  list: Answer | undefined;
  onChange: (rows: ReadonlyMap<string, ApplicationRow>) => void;
}

/**
 * What can be done to several at once. They stay chosen while filters change, so that they can be gathered; and what is under way
 * goes on when none of them fits the filter any more, as those that were OutOfSync.
 */
function Chosen({ rows, list, onChange }: ChosenProps) {
  const [order, setOrder] = useState<Order>();
  const [shown, total] = [list?.applications ?? [], list?.total ?? 0];
  const all =
    total === 0
      ? 'No application fits the filters.'
      : shown.length < total
        ? 'More fit than can be chosen at once: narrow the list with the filters.'
        : undefined;
  const none = rows.size === 0 ? 'Choose applications in the list first.' : undefined;
  const close = (left: ApplicationRow[]) => {
    setOrder(undefined);
    onChange(new Map(left.map((row) => [keyOf(row), row])));
  };
  return (
    <div className="row" role="group" aria-label="Chosen applications" style={{ flexWrap: 'wrap' }}>
      <Action
        size="xs"
        disabledReason={all}
        onClick={() => onChange(new Map([...rows, ...shown.map((row) => [keyOf(row), row] as const)]))}
      >
        Choose all {total.toLocaleString('en')}
      </Action>
      <Action size="xs" disabledReason={none} onClick={() => setOrder('sync')}>
        Sync…
      </Action>
      <Action size="xs" disabledReason={none} onClick={() => setOrder('refresh')}>
        Refresh…
      </Action>
      {rows.size > 0 && (
        <>
          <span className="muted" role="status">
            {rows.size} chosen
          </span>
          <Button size="xs" variant="subtle" onClick={() => onChange(new Map())}>
            Choose none
          </Button>
        </>
      )}
      {order && <SeveralDialog order={order} applications={[...rows.values()]} onClose={close} />}
    </div>
  );
}

/** Another filter is another list; the router would keep the old one's place. */
const toTop = () => document.getElementById(LIST_ID)?.scrollTo(0, 0);

function nothing({ total }: Answer, filtered: boolean) {
  if (total > 0) return false;
  if (filtered) return <Empty title="No application matches">Try other filters, or clear them.</Empty>;
  return (
    <Empty title="No applications yet" icon={<Layers />}>
      Make one with <Link to="/applications/new">New application</Link>, commit an Argo CD{' '}
      <code>Application</code> to a repository that a runtime watches, or apply one with <code>kubectl</code>.
    </Empty>
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
