import { Button, NativeSelect, Pagination } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { buildsQuery, pipelinesQuery } from '../api/queries';
import { BuildTable } from '../components/BuildTable';
import { Hammer } from '../ui/icons';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { counted } from '../ui/counted';

const route = getRouteApi('/signed-in/builds');
const PAGE_SIZE = 25;
/** The words that the API filters by. */
const STATUSES = [
  'pending',
  'running',
  'pending-approval',
  'success',
  'error',
  'terminating',
  'terminated',
  'delayed',
];

export function BuildsPage() {
  const search = route.useSearch();
  const { pipeline, status, page = 1 } = search;
  const navigate = route.useNavigate();
  const builds = useQuery({
    ...buildsQuery({ limit: PAGE_SIZE, page, pipeline, status }),
    placeholderData: keepPreviousData,
  });
  const filtered = Boolean(pipeline || status);
  const filter = (change: { pipeline?: string; status?: string }) => {
    const { page: _, ...rest } = { ...search, ...change };
    const next = Object.fromEntries(Object.entries(rest).filter(([, value]) => value));
    void navigate({ search: next });
  };
  return (
    <Page title="Builds" documentTitle="Builds">
      <div className="row" style={{ flexWrap: 'wrap', alignItems: 'flex-end' }}>
        <PipelineFilter value={pipeline ?? ''} onChange={(value) => filter({ pipeline: value })} />
        <NativeSelect
          size="xs"
          label="Status"
          value={status ?? ''}
          data={[{ value: '', label: 'Any status' }, ...STATUSES]}
          onChange={(event) => filter({ status: event.currentTarget.value })}
        />
        {filtered && (
          <Button variant="subtle" onClick={() => void navigate({ search: {} })}>
            Clear filters
          </Button>
        )}
      </div>
      <div className="panel" style={{ opacity: builds.isPlaceholderData ? 0.6 : 1 }}>
        <QueryView
          query={builds}
          rows={10}
          empty={(list) =>
            list.docs.length === 0 && (
              <Empty title={filtered ? 'No build matches' : 'No build yet'} icon={<Hammer />}>
                {filtered
                  ? 'Try without the filters.'
                  : 'Push a commit, or run a pipeline from the Pipelines page.'}
              </Empty>
            )
          }
        >
          {(list) => (
            <>
              <BuildTable builds={list.docs} caption="Builds" />
              {list.total > PAGE_SIZE && (
                <div className="body row" style={{ justifyContent: 'space-between' }}>
                  <span className="muted">{counted(list.total, 'build')}</span>
                  <Pagination
                    size="sm"
                    total={Math.ceil(list.total / PAGE_SIZE)}
                    value={page}
                    onChange={(next) =>
                      void navigate({
                        search: { ...search, ...(next > 1 ? { page: next } : { page: undefined }) },
                      })
                    }
                    getControlProps={(control) => ({ 'aria-label': `${control} page` })}
                  />
                </div>
              )}
            </>
          )}
        </QueryView>
      </div>
    </Page>
  );
}

function PipelineFilter({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const pipelines = useQuery(pipelinesQuery({ limit: 200, offset: 0 }));
  const known = (pipelines.data?.docs ?? []).flatMap(({ metadata }) =>
    metadata.id ? [{ value: metadata.id, label: metadata.name }] : [],
  );
  // A filter from an address stays visible, also when its pipeline is not among the first ones or is gone.
  const options =
    value && !known.some((each) => each.value === value) ? [{ value, label: value }, ...known] : known;
  return (
    <NativeSelect
      size="xs"
      label="Pipeline"
      value={value}
      data={[{ value: '', label: 'Any pipeline' }, ...options]}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
