import { Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { lazy, Suspense, useMemo } from 'react';
import { applicationQuery, runtimesQuery } from '../api/queries';
import type { Application } from '../api/types';
import { ApplicationActions } from '../components/application/ApplicationActions';
import { ApplicationFacts, Conditions } from '../components/application/ApplicationFacts';
import { DiffTab } from '../components/application/DiffTab';
import { HistoryTab } from '../components/application/HistoryTab';
import { offlineReason } from '../components/application/offline';
import { LogsTab } from '../components/application/LogsTab';
import { PlanTab } from '../components/application/PlanTab';
import { ResourceDetails } from '../components/application/ResourceDetails';
import { ResultsTab } from '../components/application/ResultsTab';
import { ResourceTable } from '../components/application/ResourceTable';
import { TreeFilterBar } from '../components/application/TreeFilterBar';
import { SyncPolicy } from '../components/application/SyncPolicy';
import {
  buildTree,
  filterTree,
  flatten,
  idOf,
  type TreeFilter,
} from '../components/application/resourceTree';
import { StateBadges } from '../components/ApplicationTable';
import type { ApplicationTab } from '../routes';
import { Layers } from '../ui/icons';
import { Page } from '../ui/Page';
import { Prose } from '../ui/Prose';
import { Empty, ErrorNotice, isGone, Loading, QueryView } from '../ui/States';
import styles from './ApplicationPage.module.css';

const route = getRouteApi('/signed-in/applications/$runtime/$namespace/$name');

const ResourceGraph = lazy(() =>
  import('../components/application/ResourceGraph').then((module) => ({ default: module.ResourceGraph })),
);

const TABS: { value: ApplicationTab; label: string }[] = [
  { value: 'tree', label: 'Tree' },
  { value: 'table', label: 'Table' },
  { value: 'diff', label: 'Diff' },
  { value: 'plan', label: 'Plan' },
  { value: 'sync', label: 'Last sync' },
  { value: 'logs', label: 'Logs' },
  { value: 'history', label: 'History' },
];

export function ApplicationPage() {
  const reference = route.useParams();
  const application = useQuery(applicationQuery(reference));
  const runtimes = useQuery(runtimesQuery);
  const runtime = runtimes.data?.find((each) => each.name === reference.runtime);
  const gone = isGone(application);
  const disabledReason = gone
    ? 'It is not there any more.'
    : offlineReason(reference.runtime, runtimes.data, runtime);
  return (
    <Page
      title={
        <span className="row" style={{ flexWrap: 'wrap' }}>
          {reference.name}
          {application.data && !gone && <StateBadges application={application.data} />}
        </span>
      }
      documentTitle={`${reference.name} · Applications`}
      subtitle={
        // A condition below says it in full.
        application.data && !gone && (application.data.conditions ?? []).length === 0 ? (
          <Prose>{application.data.summary}</Prose>
        ) : (
          <>
            <Link to="/applications">Applications</Link> in {reference.namespace}
          </>
        )
      }
      actions={
        application.data && (
          <ApplicationActions {...{ reference, disabledReason }} application={application.data} />
        )
      }
    >
      {gone ? (
        <ErrorNotice error={application.error} />
      ) : (
        <QueryView query={application} rows={8}>
          {(data) => (
            <>
              <Conditions conditions={data.conditions ?? []} />
              <ApplicationFacts
                application={data}
                policy={<SyncPolicy application={data} {...{ reference, disabledReason }} />}
              />
              <ApplicationTabs application={data} disabledReason={disabledReason} />
            </>
          )}
        </QueryView>
      )}
    </Page>
  );
}

interface ApplicationTabsProps {
  application: Application;
  disabledReason: string | undefined;
}

function ApplicationTabs({ application, disabledReason }: ApplicationTabsProps) {
  const reference = route.useParams();
  const { tab = 'tree', resource, find, health, sync } = route.useSearch();
  const navigate = route.useNavigate();
  const resources = useMemo(() => application.resources ?? [], [application.resources]);
  const tree = useMemo(
    () => filterTree(buildTree(resources), { find, health, sync }),
    [resources, find, health, sync],
  );
  const narrow = (filter: TreeFilter) =>
    void navigate({
      search: (before) => ({
        ...(before.tab ? { tab: before.tab } : {}),
        ...(before.resource ? { resource: before.resource } : {}),
        ...filterOf(filter),
      }),
      replace: true,
      resetScroll: false,
    });
  const selected = resources.find((each) => idOf(each) === resource);
  const select = (id: string | undefined) =>
    void navigate({
      search: (before) => ({ ...without(before), ...(id ? { resource: id } : {}) }),
      replace: true,
      resetScroll: false,
    });
  const show = (next: string | null) =>
    void navigate({
      search: (before) => ({
        ...(next && next !== 'tree' ? { tab: next as ApplicationTab } : {}),
        ...filterOf(before),
      }),
      replace: true,
      resetScroll: false,
    });
  const nothing = resources.length === 0 && (
    <Empty title="No resources yet" icon={<Layers />}>
      {(application.conditions ?? []).length > 0
        ? 'Resources are shown once the manifests can be read.'
        : 'Resources are shown after the first sync.'}
    </Empty>
  );
  const bar = resources.length > 0 && (
    <TreeFilterBar
      {...{ resources }}
      shown={flatten(tree).length}
      filter={{ find, health, sync }}
      onChange={narrow}
    />
  );
  const none = tree.length === 0 && <Empty title="No resource fits">Find others, or show all.</Empty>;
  return (
    <div className={styles.columns} data-details={selected !== undefined || undefined}>
      <div className="panel">
        <Tabs value={tab} onChange={show} keepMounted={false}>
          <Tabs.List>
            {TABS.map(({ value, label }) => (
              <Tabs.Tab key={value} value={value}>
                {label}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          <Tabs.Panel value="tree">
            {bar}
            {nothing || none || (
              <Suspense fallback={<Loading rows={8} />}>
                <ResourceGraph {...{ application, tree }} selected={resource} onSelect={select} />
              </Suspense>
            )}
          </Tabs.Panel>
          <Tabs.Panel value="table">
            {bar}
            {nothing || none || <ResourceTable tree={tree} selected={resource} onSelect={select} />}
          </Tabs.Panel>
          <Tabs.Panel value="diff">
            <DiffTab reference={reference} />
          </Tabs.Panel>
          <Tabs.Panel value="plan">
            <PlanTab reference={reference} />
          </Tabs.Panel>
          <Tabs.Panel value="sync">
            <ResultsTab operation={application.operation} />
          </Tabs.Panel>
          <Tabs.Panel value="logs">
            <LogsTab key={resource} resource={selected} {...{ reference, disabledReason }} />
          </Tabs.Panel>
          <Tabs.Panel value="history">
            <HistoryTab {...{ application, reference, disabledReason }} />
          </Tabs.Panel>
        </Tabs>
      </div>
      {selected && (
        <ResourceDetails
          key={idOf(selected)}
          resource={selected}
          onClose={() => select(undefined)}
          onLogs={() =>
            void navigate({
              search: { tab: 'logs', resource: idOf(selected) },
              replace: true,
              resetScroll: false,
            })
          }
          rollout={(application.rollouts ?? []).find(
            ({ namespace, name }) =>
              selected.kind === 'Rollout' && namespace === selected.namespace && name === selected.name,
          )}
          {...{ reference, disabledReason }}
        />
      )}
    </div>
  );
}

const filterOf = ({ find, health, sync }: TreeFilter) =>
  Object.fromEntries(Object.entries({ find, health, sync }).filter(([, value]) => value));

function without<T extends { resource?: string }>(search: T): Omit<T, 'resource'> {
  const { resource: _, ...rest } = search;
  return rest;
}
