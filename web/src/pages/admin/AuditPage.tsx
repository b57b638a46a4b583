import { ActionIcon, Button, NativeSelect, Pagination, TextInput } from '@mantine/core';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Fragment, useState } from 'react';
import {
  AUDIT_PAGE,
  auditCsvUrl,
  auditEntitiesQuery,
  auditQuery,
  verifyAudit,
  type AuditFilter,
} from '../../api/adminQueries';
import { userQuery } from '../../api/queries';
import type { AuditRecord, AuditVerification } from '../../api/types';
import { AuditDetails } from '../../components/admin/AuditDetails';
import { dayEnd, dayStart } from '../../components/admin/auditDays';
import { FormError } from '../../ui/FormDialog';
import { ArrowDown, ChevronDown, ChevronRight, Scroll, Shield } from '../../ui/icons';
import { Page } from '../../ui/Page';
import { Empty, QueryView, sentence } from '../../ui/States';
import { Status, type Tone } from '../../ui/Status';
import { Ago } from '../../ui/Time';
import { TableFrame } from '../../ui/TableFrame';
import { counted } from '../../ui/counted';

const route = getRouteApi('/signed-in/admin/audit');

const OUTCOMES = ['allowed', 'denied', 'failed'];
const TONES: Record<string, Tone> = { allowed: 'ok', denied: 'bad', failed: 'warn' };

/** What was done and what was refused. Filters are in the address, so that a finding can be handed on. */
export function AuditPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: user } = useQuery(userQuery);
  const { page = 1, record, platform = false } = search;
  const filter: AuditFilter = {
    userName: search.user,
    entity: search.entity,
    action: search.action,
    outcome: search.outcome,
    search: search.search,
    from: dayStart(search.from),
    to: dayEnd(search.to),
  };
  const records = useQuery({ ...auditQuery(filter, page, platform), placeholderData: keepPreviousData });
  const verify = useMutation({ mutationFn: () => verifyAudit(platform) });
  const filtered = Object.values(filter).some((value) => value !== undefined);
  const narrow = (change: Partial<typeof search>) => {
    const { page: _, record: __, ...rest } = { ...search, ...change };
    void navigate({ search: Object.fromEntries(Object.entries(rest).filter(([, value]) => value)) });
  };
  return (
    <Page
      title="Audit log"
      documentTitle="Audit log"
      subtitle={
        platform
          ? 'Changes to the platform itself: accounts, people, and attempts by unknown callers.'
          : 'Every change and every denied request in this account, newest first.'
      }
      actions={
        <>
          <Button
            variant="default"
            leftSection={<Shield />}
            loading={verify.isPending}
            onClick={() => verify.mutate()}
          >
            Verify
          </Button>
          {!platform && (
            <Button
              component="a"
              href={auditCsvUrl(filter)}
              download="audit.csv"
              variant="default"
              leftSection={<ArrowDown />}
            >
              CSV
            </Button>
          )}
        </>
      }
    >
      <Filters
        key={JSON.stringify(search)}
        search={search}
        platform={user?.platformAdmin ? platform : undefined}
        onNarrow={narrow}
        onClear={filtered ? () => void navigate({ search: platform ? { platform } : {} }) : undefined}
      />
      <FormError error={verify.error} />
      {verify.data && <Verification result={verify.data} />}
      <div className="panel" style={{ opacity: records.isPlaceholderData ? 0.6 : 1 }}>
        <QueryView
          query={records}
          rows={10}
          empty={(list) =>
            list.docs.length === 0 && (
              <Empty title={filtered ? 'No matching records' : 'No records yet'} icon={<Scroll />}>
                {filtered ? 'Try fewer filters.' : 'Changes appear here.'}
              </Empty>
            )
          }
        >
          {(list) => (
            <>
              <AuditTable
                records={list.docs}
                open={record}
                onOpen={(seq) =>
                  void navigate({
                    search: { ...search, record: seq === record ? undefined : seq },
                    replace: true,
                  })
                }
              />
              {list.total > AUDIT_PAGE && (
                <div className="body row" style={{ justifyContent: 'space-between', flexWrap: 'wrap' }}>
                  <span className="muted">{counted(list.total, 'record')}</span>
                  <Pagination
                    size="sm"
                    total={Math.ceil(list.total / AUDIT_PAGE)}
                    value={page}
                    onChange={(next) =>
                      void navigate({
                        search: { ...search, record: undefined, page: next > 1 ? next : undefined },
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

interface Search {
  user?: string;
  entity?: string;
  action?: string;
  outcome?: string;
  search?: string;
  from?: string;
  to?: string;
  platform?: boolean;
}

interface FiltersProps {
  search: Search;
  /** Undefined for those whom the platform's chain is not for. */
  platform: boolean | undefined;
  onNarrow: (change: Search) => void;
  onClear: (() => void) | undefined;
}

function Filters({ search, platform, onNarrow, onClear }: FiltersProps) {
  const entities = useQuery({ ...auditEntitiesQuery, enabled: !platform });
  const known = entities.data ?? [];
  const actions = [
    ...new Set(
      known
        .filter(({ entity }) => !search.entity || entity === search.entity)
        .flatMap((each) => each.actions),
    ),
  ].toSorted();
  return (
    <div className="row" style={{ flexWrap: 'wrap', alignItems: 'flex-end' }}>
      {platform !== undefined && (
        <NativeSelect
          size="xs"
          label="Scope"
          value={platform ? 'platform' : 'account'}
          data={[
            { value: 'account', label: 'This account' },
            { value: 'platform', label: 'Platform' },
          ]}
          onChange={(event) =>
            onNarrow({ platform: event.currentTarget.value === 'platform', entity: '', action: '' })
          }
        />
      )}
      <Typed label="Who" placeholder="name" value={search.user ?? ''} onDone={(user) => onNarrow({ user })} />
      <Chosen
        label="Entity"
        any="Any entity"
        value={search.entity ?? ''}
        data={known.map(({ entity }) => entity)}
        onChange={(entity) => onNarrow({ entity, action: '' })}
      />
      <Chosen
        label="Action"
        any="Any action"
        value={search.action ?? ''}
        data={actions}
        onChange={(action) => onNarrow({ action })}
      />
      <Chosen
        label="Outcome"
        any="Any outcome"
        value={search.outcome ?? ''}
        data={OUTCOMES}
        onChange={(outcome) => onNarrow({ outcome })}
      />
      <TextInput
        size="xs"
        type="date"
        label="From"
        value={search.from ?? ''}
        onChange={(event) => onNarrow({ from: event.currentTarget.value })}
      />
      <TextInput
        size="xs"
        type="date"
        label="To"
        value={search.to ?? ''}
        onChange={(event) => onNarrow({ to: event.currentTarget.value })}
      />
      <Typed
        label="Contains"
        placeholder="part of the path or change"
        value={search.search ?? ''}
        onDone={(text) => onNarrow({ search: text })}
      />
      {onClear && (
        <Button variant="subtle" onClick={onClear}>
          Clear filters
        </Button>
      )}
    </div>
  );
}

interface ChosenProps {
  label: string;
  any: string;
  value: string;
  data: string[];
  onChange: (value: string) => void;
}

function Chosen({ label, any, value, data, onChange }: ChosenProps) {
  // A filter from an address stays visible, also when there is no record of it.
  const options = value && !data.includes(value) ? [value, ...data] : data;
  return (
    <NativeSelect
      size="xs"
      label={label}
      value={value}
      data={[{ value: '', label: any }, ...options]}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

interface TypedProps {
  label: string;
  placeholder: string;
  value: string;
  onDone: (value: string) => void;
}

/** Taken when Enter is pressed or the field is left, not with every letter. */
function Typed({ label, placeholder, value, onDone }: TypedProps) {
  const [text, setText] = useState(value);
  const done = () => {
    if (text.trim() !== value) onDone(text.trim());
  };
  return (
    <TextInput
      size="xs"
      label={label}
      placeholder={placeholder}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
      onBlur={done}
      onKeyDown={(event) => event.key === 'Enter' && done()}
    />
  );
}

function Verification({ result }: { result: AuditVerification }) {
  return (
    <section className="panel" aria-label="Verification" aria-live="polite">
      <div className="body stack" style={{ gap: 6 }}>
        <div className="row" style={{ flexWrap: 'wrap' }}>
          <Status tone={result.ok ? 'ok' : 'bad'}>
            {result.ok ? 'Complete and unchanged' : 'Not intact'}
          </Status>
          <span>
            {result.records} records, the last hash is <code>{result.head.slice(0, 16)}…</code>
          </span>
        </div>
        {result.problems.length > 0 && (
          <ul style={{ margin: 0, paddingLeft: 18 }}>
            {result.problems.map((problem) => (
              <li key={problem}>{sentence(problem)}</li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

interface AuditTableProps {
  records: AuditRecord[];
  open: number | undefined;
  onOpen: (seq: number) => void;
}

function AuditTable({ records, open, onOpen }: AuditTableProps) {
  return (
    <TableFrame>
      <table className="data" aria-label="Audit records">
        <thead>
          <tr>
            <th>
              <span className="muted">Details</span>
            </th>
            <th>When</th>
            <th>Who</th>
            <th>Action</th>
            <th>Resource</th>
            <th>Outcome</th>
            <th>From</th>
          </tr>
        </thead>
        <tbody>
          {records.map((record) => (
            <Fragment key={record.seq}>
              <tr>
                <td>
                  <ActionIcon
                    size="sm"
                    variant="subtle"
                    color="gray"
                    aria-expanded={open === record.seq}
                    aria-label={`Details of record ${record.seq}`}
                    onClick={() => onOpen(record.seq)}
                  >
                    {open === record.seq ? <ChevronDown /> : <ChevronRight />}
                  </ActionIcon>
                </td>
                <td>
                  <Ago at={record.createdAt} />
                </td>
                <td>{record.userName || record.actorKind}</td>
                <td className="nowrap">{record.action}</td>
                <td>
                  <span className="muted">{record.entity}</span> {record.entityName || record.entityId}
                </td>
                <td>
                  <Status tone={TONES[record.outcome] ?? 'off'}>{record.outcome}</Status>
                </td>
                <td className="mono">{record.address}</td>
              </tr>
              {open === record.seq && (
                <tr>
                  <td colSpan={7}>
                    <AuditDetails record={record} />
                  </td>
                </tr>
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}
