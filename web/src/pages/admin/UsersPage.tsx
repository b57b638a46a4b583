import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import {
  changeRole,
  invite,
  removeMember,
  resendInvitation,
  revokeInvitation,
  setSuspended,
} from '../../api/adminMutations';
import { invitationsQuery, membersQuery, teamsQuery } from '../../api/adminQueries';
import { userQuery } from '../../api/queries';
import type { CreatedInvitation, Invitation, Member } from '../../api/types';
import { InviteDialog } from '../../components/admin/InviteDialog';
import { roleText } from '../../components/admin/words';
import { useChange } from '../../hooks/useChange';
import { DataTable, RowAction, RowActions } from '../../ui/DataTable';
import { Confirm } from '../../ui/Confirm';
import { Plus } from '../../ui/icons';
import { Page } from '../../ui/Page';
import { ShownOnce } from '../../ui/ShownOnce';
import { Empty, QueryView } from '../../ui/States';
import { Status } from '../../ui/Status';
import { Ago } from '../../ui/Time';

/** Who is in the account, and who is invited. */
export function UsersPage() {
  const [inviting, setInviting] = useState(false);
  const [made, setMade] = useState<CreatedInvitation>();
  const change = useChange(['invitations'], ['usage']);
  return (
    <Page
      title="Users"
      documentTitle="Users"
      subtitle="Members of the account, and pending invitations."
      actions={
        <Button leftSection={<Plus />} onClick={() => setInviting(true)}>
          Invite user
        </Button>
      }
    >
      <Members />
      <Invitations onRenewed={setMade} />
      {inviting && (
        <InviteDialog
          onClose={() => setInviting(false)}
          invite={async (request) => {
            const answer = await change(invite(request));
            setInviting(false);
            setMade(answer);
          }}
        />
      )}
      {made && (
        <ShownOnce
          title={`Invitation for ${made.invitation.email}`}
          text={made.url}
          what="link"
          onClose={() => setMade(undefined)}
        >
          Send this link to <strong>{made.invitation.email}</strong>. It is not shown again, and it is good{' '}
          <Until at={made.invitation.expires} />.
        </ShownOnce>
      )}
    </Page>
  );
}

function Until({ at }: { at: string }) {
  return <>until {new Date(at).toLocaleDateString(undefined, { dateStyle: 'long' })}</>;
}

type MemberAsk = { member: Member; what: 'role' | 'suspend' | 'remove' };

function Members() {
  const members = useQuery(membersQuery);
  const { data: user } = useQuery(userQuery);
  const [asking, setAsking] = useState<MemberAsk>();
  const change = useChange(['members'], ['teams'], ['usage']);
  const name = asking?.member.userName ?? '';
  const other = asking?.member.role === 'Admin' ? 'User' : 'Admin';
  const close = () => setAsking(undefined);
  return (
    <section className="panel" aria-labelledby="members">
      <header>
        <h2 id="members">Members</h2>
      </header>
      <QueryView query={members}>
        {(all) => <MemberTable members={all} self={user?._id} onAsk={setAsking} />}
      </QueryView>
      <Confirm
        opened={asking?.what === 'role'}
        onClose={close}
        title={`Make ${name} ${article(roleText(other))}?`}
        verb={`Make ${article(roleText(other))}`}
        action={() => change(changeRole(asking?.member._id ?? '', other))}
      >
        {other === 'Admin'
          ? 'Administrators may do everything in the account, regardless of rules.'
          : 'They may do what the access rules of their teams allow.'}{' '}
        Their sessions end, so that the new role applies everywhere.
      </Confirm>
      <Confirm
        opened={asking?.what === 'suspend'}
        onClose={close}
        title={asking?.member.suspended ? `Restore ${name}?` : `Suspend ${name} in this account?`}
        verb={asking?.member.suspended ? 'Restore' : 'Suspend'}
        danger={!asking?.member.suspended}
        action={() => change(setSuspended(asking?.member._id ?? '', !asking?.member.suspended))}
      >
        {asking?.member.suspended
          ? 'Their API keys work again, and they are in their teams as before.'
          : 'Their sessions end and their API keys are refused in this account until somebody restores them. Their other accounts are not affected.'}
      </Confirm>
      <Confirm
        opened={asking?.what === 'remove'}
        onClose={close}
        title={`Remove ${name} from the account?`}
        verb="Remove"
        danger
        action={() => change(removeMember(asking?.member._id ?? ''))}
      >
        Their sessions and API keys in this account stop working immediately. What they created stays.
      </Confirm>
    </section>
  );
}

const article = (noun: string) => `${/^[aeio]/i.test(noun) ? 'an' : 'a'} ${noun}`;

interface MemberTableProps {
  members: Member[];
  self: string | undefined;
  onAsk: (ask: MemberAsk) => void;
}

function MemberTable({ members, self, onAsk }: MemberTableProps) {
  return (
    <DataTable labelledBy="members" heads={['Name', 'E-mail', 'Role', 'Teams', 'Last sign-in', 'Actions']}>
      {members.map((member) => (
        <tr key={member._id}>
          <td>
            <span className="row">
              {member.userName}
              {member._id === self && <span className="muted">you</span>}
              {!member.enabled && <Status tone="off">{member.suspended ? 'Suspended' : 'Disabled'}</Status>}
            </span>
          </td>
          <td>{member.email}</td>
          <td>{roleText(member.role)}</td>
          <td className="muted">{member.teams.join(', ')}</td>
          <td>{member.lastLogin ? <Ago at={member.lastLogin} /> : <span className="muted">never</span>}</td>
          <RowActions>
            <RowAction
              label={`Change role of ${member.userName}`}
              onClick={() => onAsk({ member, what: 'role' })}
            >
              Change role
            </RowAction>
            <RowAction
              label={`${member.suspended ? 'Restore' : 'Suspend'} ${member.userName}`}
              onClick={() => onAsk({ member, what: 'suspend' })}
            >
              {member.suspended ? 'Restore' : 'Suspend'}
            </RowAction>
            <RowAction label={`Remove ${member.userName}`} onClick={() => onAsk({ member, what: 'remove' })}>
              Remove
            </RowAction>
          </RowActions>
        </tr>
      ))}
    </DataTable>
  );
}

type InvitationAsk = { invitation: Invitation; what: 'resend' | 'revoke' };

function Invitations({ onRenewed }: { onRenewed: (made: CreatedInvitation) => void }) {
  const invitations = useQuery(invitationsQuery);
  const [asking, setAsking] = useState<InvitationAsk>();
  const change = useChange(['invitations'], ['usage']);
  const id = asking?.invitation._id ?? '';
  const close = () => setAsking(undefined);
  return (
    <section className="panel" aria-labelledby="invitations">
      <header>
        <h2 id="invitations">Invitations</h2>
      </header>
      <QueryView
        query={invitations}
        rows={2}
        empty={(all) =>
          all.length === 0 && (
            <Empty title="No pending invitations">Invitations are listed here until they are accepted.</Empty>
          )
        }
      >
        {(all) => <InvitationTable invitations={all} onAsk={setAsking} />}
      </QueryView>
      <Confirm
        opened={asking?.what === 'resend'}
        onClose={close}
        title={`Create a new link for ${asking?.invitation.email ?? ''}?`}
        verb="Create link"
        action={async () => onRenewed(await change(resendInvitation(id)))}
      >
        The previous link stops working.
      </Confirm>
      <Confirm
        opened={asking?.what === 'revoke'}
        onClose={close}
        title={`Revoke the invitation for ${asking?.invitation.email ?? ''}?`}
        verb="Revoke"
        danger
        action={() => change(revokeInvitation(id))}
      >
        Its link stops working.
      </Confirm>
    </section>
  );
}

interface InvitationTableProps {
  invitations: Invitation[];
  onAsk: (ask: InvitationAsk) => void;
}

function InvitationTable({ invitations, onAsk }: InvitationTableProps) {
  const { data: teams } = useQuery(teamsQuery);
  const nameOf = (id: string) => teams?.find((team) => team._id === id)?.name ?? id;
  return (
    <DataTable
      labelledBy="invitations"
      heads={['E-mail', 'Role', 'Teams', 'Invited by', 'Expires', 'Actions']}
    >
      {invitations.map((invitation) => (
        <tr key={invitation._id}>
          <td>{invitation.email}</td>
          <td>{roleText(invitation.role)}</td>
          <td className="muted">{invitation.teams.map(nameOf).join(', ')}</td>
          <td>
            {invitation.invitedBy}, <Ago at={invitation.created} />
          </td>
          <td>
            {invitation.expired ? <Status tone="warn">Expired</Status> : <Ago at={invitation.expires} />}
          </td>
          <RowActions>
            <Button
              size="compact-xs"
              variant="default"
              aria-label={`New link for ${invitation.email}`}
              onClick={() => onAsk({ invitation, what: 'resend' })}
            >
              New link
            </Button>
            <RowAction
              label={`Revoke the invitation for ${invitation.email}`}
              onClick={() => onAsk({ invitation, what: 'revoke' })}
            >
              Revoke
            </RowAction>
          </RowActions>
        </tr>
      ))}
    </DataTable>
  );
}
