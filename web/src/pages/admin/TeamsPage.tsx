import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { changeTeam, createTeam, deleteTeam } from '../../api/adminMutations';
import { teamsQuery } from '../../api/adminQueries';
import type { Team } from '../../api/types';
import { TeamDialog } from '../../components/admin/TeamDialog';
import { isCustom, membersOf } from '../../components/admin/teams';
import { sourceText } from '../../components/admin/words';
import { useChange } from '../../hooks/useChange';
import { DataTable, RowAction, RowActions } from '../../ui/DataTable';
import { Confirm } from '../../ui/Confirm';
import { Plus } from '../../ui/icons';
import { Page } from '../../ui/Page';
import { QueryView } from '../../ui/States';

const KINDS: Record<string, string> = {
  default: 'everybody in the account',
  admin: 'its Administrators',
};

/** Access rules are about teams; who is in which is here. */
export function TeamsPage() {
  const teams = useQuery(teamsQuery);
  const [making, setMaking] = useState(false);
  const [changing, setChanging] = useState<Team>();
  const [deleting, setDeleting] = useState<Team>();
  const change = useChange(['teams'], ['members'], ['service-accounts']);
  return (
    <Page
      title="Teams"
      documentTitle="Teams"
      subtitle="Access rules grant permissions to teams and their members."
      actions={
        <Button leftSection={<Plus />} onClick={() => setMaking(true)}>
          New team
        </Button>
      }
    >
      <div className="panel">
        <QueryView query={teams}>
          {(all) => <TeamTable teams={all} onChange={setChanging} onDelete={setDeleting} />}
        </QueryView>
      </div>
      {making && (
        <TeamDialog onClose={() => setMaking(false)} save={(request) => change(createTeam(request))} />
      )}
      {changing && (
        <TeamDialog
          team={changing}
          onClose={() => setChanging(undefined)}
          save={(request) => change(changeTeam(changing._id, request))}
        />
      )}
      <Confirm
        opened={Boolean(deleting)}
        onClose={() => setDeleting(undefined)}
        title={`Delete team ${deleting?.name ?? ''}?`}
        verb="Delete"
        danger
        action={() => change(deleteTeam(deleting?._id ?? ''))}
      >
        Its members stay in the account. An access rule that still names the team prevents this.
      </Confirm>
    </Page>
  );
}

interface TeamTableProps {
  teams: Team[];
  onChange: (team: Team) => void;
  onDelete: (team: Team) => void;
}

function TeamTable({ teams, onChange, onDelete }: TeamTableProps) {
  return (
    <DataTable label="Teams" heads={['Team', 'Members', 'Tags', 'Created', 'Actions']}>
      {teams.map((team) => (
        <tr key={team._id}>
          <td className="nowrap">{team.name}</td>
          <td>
            <Members team={team} />
          </td>
          <td className="muted">{team.tags.join(', ')}</td>
          <td className="nowrap">{sourceText(team.source)}</td>
          <RowActions>
            {isCustom(team) && (
              <>
                <RowAction label={`Edit team ${team.name}`} onClick={() => onChange(team)}>
                  Edit
                </RowAction>
                <RowAction label={`Delete team ${team.name}`} onClick={() => onDelete(team)}>
                  Delete
                </RowAction>
              </>
            )}
          </RowActions>
        </tr>
      ))}
    </DataTable>
  );
}

function Members({ team }: { team: Team }) {
  const byRole = KINDS[team.type ?? ''];
  const members = membersOf(team);
  if (byRole) {
    return (
      <span className="muted">
        {byRole} ({members.length})
      </span>
    );
  }
  if (members.length === 0) return <span className="muted">nobody yet</span>;
  return (
    <>
      {members.map((member, index) => (
        <span key={member._id}>
          {index > 0 && ', '}
          {member.userName}
          {member.source === 'sso' && <span className="muted"> ({sourceText(member.source)})</span>}
        </span>
      ))}
    </>
  );
}
