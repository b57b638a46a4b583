//! Everything that a call with an API key is decided by, asked for at once: it happens at every call.

use slipway_model::ApiKeyId;

use super::AccountStatus;
use super::keys::{self, ApiKey};
use super::teams::{self, Team};
use super::users::{self, Member};
use crate::{Ask, StoreError, Tx};

/// A key, and the person it speaks for.
#[derive(Debug, Clone)]
pub struct Bearer {
    pub key: ApiKey,
    pub account_status: AccountStatus,
    /// Present for a key of a person who is a member of the account.
    pub member: Option<Member>,
    /// With whether the key's owner was put in; the others go by role.
    teams: Vec<(Team, bool)>,
}

impl Bearer {
    /// As [`super::teams_of`] gives them.
    pub fn teams(&self, administrator: bool) -> Vec<Team> {
        let fits = |(team, put_in): &&(Team, bool)| *put_in || team.kind != "admin" || administrator;
        self.teams.iter().filter(fits).map(|(team, _)| team.clone()).collect()
    }
}

const OWNER: &str = "SELECT k.id, k.account, k.name, k.prefix, k.secret_hash, k.subject_kind, k.subject, k.scopes, \
     k.created_ms, k.last_used_ms, k.platform, a.status, \
     u.id, u.email, u.name, u.password_hash, u.platform_admin, u.status, u.active_account, u.created_ms, \
     u.last_login_ms, m.role, m.status \
     FROM api_keys k JOIN accounts a ON a.id = k.account \
     LEFT JOIN memberships m ON m.account = k.account AND m.user_id = k.subject AND k.subject_kind = 'user' \
     LEFT JOIN users u ON u.id = m.user_id WHERE k.id = $1";

const TEAMS: &str = "SELECT t.id, t.name, t.kind, t.source, t.tags, t.created_ms, t.sso_client, t.sso_group, \
     CASE WHEN tm.member IS NULL THEN 0 ELSE 1 END \
     FROM api_keys k JOIN teams t ON t.account = k.account \
     LEFT JOIN team_members tm ON tm.team = t.id AND tm.member = k.subject \
     WHERE k.id = $1 AND (t.kind IN ('default', 'admin') OR tm.member IS NOT NULL) ORDER BY t.name";

pub fn bearer(tx: &mut Tx<'_>, id: ApiKeyId) -> Result<Option<Bearer>, StoreError> {
    let (owner, of_teams) = (Ask::new(OWNER, [id.into()]), Ask::new(TEAMS, [id.into()]));
    tx.fetch_last([owner.clone(), of_teams.clone()])?;
    let Some(row) = tx.ask(&owner)?.pop() else { return Ok(None) };
    let member = match row.maybe_text(12)? {
        Some(_) => Some(users::read_member(&row.from(12))?),
        None => None,
    };
    let teams = tx.ask(&of_teams)?;
    let teams = teams.iter().map(|row| Ok((teams::read(row)?, row.bool(8)?)));
    Ok(Some(Bearer {
        key: keys::key(&row)?,
        account_status: AccountStatus::parse(&row.text(11)?)?,
        member,
        teams: teams.collect::<Result<_, StoreError>>()?,
    }))
}
