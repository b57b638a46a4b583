import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { createContext, deleteContext, replaceContext } from '../../api/adminMutations';
import { contextsQuery } from '../../api/adminQueries';
import type { Context } from '../../api/types';
import { ContextDialog } from '../../components/admin/ContextDialog';
import { isConfiguration, namesOf, typeOf } from '../../components/admin/contextData';
import { useChange } from '../../hooks/useChange';
import { DataTable, RowAction, RowActions } from '../../ui/DataTable';
import { Confirm } from '../../ui/Confirm';
import { Plug, Plus, Sliders } from '../../ui/icons';
import { Page } from '../../ui/Page';
import { Empty, QueryView, sentence } from '../../ui/States';
import { Status } from '../../ui/Status';
import { Ago } from '../../ui/Time';

/** Values that pipelines share. */
export function ConfigurationPage() {
  return (
    <ContextsPage
      side="configuration"
      title="Shared configuration"
      subtitle="Variables and YAML that pipelines share. Secrets are stored encrypted and shown masked."
      verb="New configuration"
      empty={
        <Empty title="No shared configuration yet" icon={<Sliders />}>
          Values that several pipelines need. Name it under <code>contexts</code> in a pipeline’s spec, and
          its builds get the variables.
        </Empty>
      }
    />
  );
}

/** Other systems that Slipway works with, and how it signs in there. */
export function IntegrationsPage() {
  return (
    <ContextsPage
      side="integrations"
      title="Integrations"
      subtitle="Connections to other systems. Secrets are stored encrypted and shown masked."
      verb="New integration"
      empty={
        <Empty title="No integrations yet" icon={<Plug />}>
          The built-in Git host needs none. Add one for another Git provider, an image registry or
          notifications.
        </Empty>
      }
    />
  );
}

interface ContextsPageProps {
  side: 'configuration' | 'integrations';
  title: string;
  subtitle: string;
  verb: string;
  empty: React.ReactNode;
}

function ContextsPage({ side, title, subtitle, verb, empty }: ContextsPageProps) {
  const contexts = useQuery({
    ...contextsQuery,
    select: (all) => all.filter((context) => isConfiguration(context) === (side === 'configuration')),
  });
  const [making, setMaking] = useState(false);
  const [changing, setChanging] = useState<Context>();
  const [deleting, setDeleting] = useState<Context>();
  const change = useChange(['contexts']);
  return (
    <Page
      title={title}
      documentTitle={title}
      subtitle={subtitle}
      actions={
        <Button leftSection={<Plus />} onClick={() => setMaking(true)}>
          {verb}
        </Button>
      }
    >
      <div className="panel">
        <QueryView query={contexts} empty={(all) => all.length === 0 && empty}>
          {(all) => (
            <ContextTable label={title} contexts={all} onChange={setChanging} onDelete={setDeleting} />
          )}
        </QueryView>
      </div>
      {making && (
        <ContextDialog
          side={side}
          onClose={() => setMaking(false)}
          save={(context) => change(createContext(context))}
        />
      )}
      {changing && (
        <ContextDialog
          side={side}
          context={changing}
          onClose={() => setChanging(undefined)}
          save={(context) => change(replaceContext(changing.metadata.name, context))}
        />
      )}
      <Confirm
        opened={Boolean(deleting)}
        onClose={() => setDeleting(undefined)}
        title={`Delete ${deleting?.metadata.name ?? ''}?`}
        verb="Delete"
        danger
        action={() => change(deleteContext(deleting?.metadata.name ?? ''))}
      >
        Its values are deleted. A pipeline that still uses it prevents this.
      </Confirm>
    </Page>
  );
}

interface ContextTableProps {
  label: string;
  contexts: Context[];
  onChange: (context: Context) => void;
  onDelete: (context: Context) => void;
}

function ContextTable({ label, contexts, onChange, onDelete }: ContextTableProps) {
  return (
    <DataTable label={label} heads={['Name', 'Type', 'Keys', 'Tags', 'Last change', 'Actions']}>
      {contexts.map((context) => {
        const { metadata, spec } = context;
        return (
          <tr key={metadata.name}>
            <td>
              <span className="row">
                {metadata.name}
                {metadata.forbidDecrypt && (
                  <Status tone="off" title="Write-only secrets">
                    sealed
                  </Status>
                )}
              </span>
              {context.note && (
                <Status plain tone="warn">
                  {sentence(context.note)}
                </Status>
              )}
            </td>
            <td className="nowrap">{typeOf(spec.type).label}</td>
            <td style={{ maxWidth: 320 }}>
              <div className="ellipsis muted" title={namesOf(context).join(', ')}>
                {namesOf(context).join(', ')}
              </div>
            </td>
            <td className="muted">{metadata.labels?.tags?.join(', ')}</td>
            <td>
              <Ago at={metadata.updated_at} />
            </td>
            <RowActions>
              <RowAction label={`Edit ${metadata.name}`} onClick={() => onChange(context)}>
                Edit
              </RowAction>
              <RowAction label={`Delete ${metadata.name}`} onClick={() => onDelete(context)}>
                Delete
              </RowAction>
            </RowActions>
          </tr>
        );
      })}
    </DataTable>
  );
}
