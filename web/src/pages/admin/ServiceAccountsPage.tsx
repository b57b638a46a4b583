import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { changeServiceAccount, createServiceAccount, deleteServiceAccount } from '../../api/adminMutations';
import { serviceAccountsQuery } from '../../api/adminQueries';
import type { ServiceAccount } from '../../api/types';
import { Keys } from '../../components/admin/Keys';
import { ServiceAccountDialog } from '../../components/admin/ServiceAccountDialog';
import { roleText } from '../../components/admin/words';
import { useChange } from '../../hooks/useChange';
import { DataTable, RowAction, RowActions } from '../../ui/DataTable';
import { Confirm } from '../../ui/Confirm';
import { Plus, Robot } from '../../ui/icons';
import { Page } from '../../ui/Page';
import { Empty, QueryView } from '../../ui/States';
import { Status } from '../../ui/Status';
import { Ago } from '../../ui/Time';
import { counted } from '../../ui/counted';

const route = getRouteApi('/signed-in/admin/service-accounts');

/** Who acts here without being a person, and with which keys. */
export function ServiceAccountsPage() {
  const robots = useQuery(serviceAccountsQuery);
  const { keys } = route.useSearch();
  const [making, setMaking] = useState(false);
  const [changing, setChanging] = useState<ServiceAccount>();
  const [deleting, setDeleting] = useState<ServiceAccount>();
  const change = useChange(['service-accounts'], ['teams'], ['usage']);
  return (
    <Page
      title="Service accounts"
      documentTitle="Service accounts"
      subtitle="For programs: with a role, teams and API keys, and without a password."
      actions={
        <Button leftSection={<Plus />} onClick={() => setMaking(true)}>
          New service account
        </Button>
      }
    >
      <div className="panel">
        <QueryView
          query={robots}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No service accounts yet" icon={<Robot />}>
                Create one for each program that calls Slipway, so that its keys do not depend on a person.
              </Empty>
            )
          }
        >
          {(all) => <RobotTable robots={all} shown={keys} onChange={setChanging} onDelete={setDeleting} />}
        </QueryView>
      </div>
      {keys && <Keys key={keys} title={`Keys of ${keys}`} serviceAccount={keys} />}
      {making && (
        <ServiceAccountDialog
          onClose={() => setMaking(false)}
          save={({ name, role, teams }) => change(createServiceAccount({ name, role, teams }))}
        />
      )}
      {changing && (
        <ServiceAccountDialog
          robot={changing}
          onClose={() => setChanging(undefined)}
          save={({ role, teams, enabled }) =>
            change(changeServiceAccount(changing.name, { role, teams, enabled }))
          }
        />
      )}
      <Confirm
        opened={Boolean(deleting)}
        onClose={() => setDeleting(undefined)}
        title={`Delete ${deleting?.name ?? ''}?`}
        verb="Delete"
        danger
        action={() => change(deleteServiceAccount(deleting?.name ?? ''))}
      >
        Its keys stop working immediately.
      </Confirm>
    </Page>
  );
}

const keyCount = ({ keys }: ServiceAccount): string => counted(keys ?? 0, 'key');

interface RobotTableProps {
  robots: ServiceAccount[];
  shown: string | undefined;
  onChange: (robot: ServiceAccount) => void;
  onDelete: (robot: ServiceAccount) => void;
}

function RobotTable({ robots, shown, onChange, onDelete }: RobotTableProps) {
  const navigate = route.useNavigate();
  return (
    <DataTable
      label="Service accounts"
      heads={['Name', 'State', 'Role', 'Teams', 'Created', 'Keys', 'Actions']}
    >
      {robots.map((robot) => (
        <tr key={robot._id}>
          <td>{robot.name}</td>
          <td>
            <Status tone={robot.enabled ? 'ok' : 'off'}>{robot.enabled ? 'Enabled' : 'Disabled'}</Status>
          </td>
          <td>{roleText(robot.role)}</td>
          <td className="muted">{robot.teams.map((team) => team.name).join(', ')}</td>
          <td>
            <Ago at={robot.created} />
          </td>
          <td>
            <Button
              size="compact-xs"
              variant="subtle"
              aria-expanded={shown === robot.name}
              aria-label={`${keyCount(robot)} of ${robot.name}`}
              onClick={() =>
                void navigate({ search: shown === robot.name ? {} : { keys: robot.name }, replace: true })
              }
            >
              {keyCount(robot)}
            </Button>
          </td>
          <RowActions>
            <RowAction label={`Edit ${robot.name}`} onClick={() => onChange(robot)}>
              Edit
            </RowAction>
            <RowAction label={`Delete ${robot.name}`} onClick={() => onDelete(robot)}>
              Delete
            </RowAction>
          </RowActions>
        </tr>
      ))}
    </DataTable>
  );
}
