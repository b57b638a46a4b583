//! Teams. Everybody of the account is in `users`, its administrators are in `admins`; these two have no rows of members.

use slipway_model::TeamId;

use crate::{Row, Scope, StoreError, Tx};

pub const EVERYBODY: &str = "users";
pub const ADMINISTRATORS: &str = "admins";

#[derive(Debug, Clone)]
pub struct Team {
    pub id: TeamId,
    pub name: String,
    /// `default` (users), `admin` (admins) or `custom`.
    pub kind: String,
    /// `manual`, or `sso` when an identity provider says who is in it.
    pub source: String,
    /// Of a team from an identity provider: which provider, and what the group is called there. Teams of before have none.
    pub group: Option<(String, String)>,
    pub tags: Vec<String>,
    pub created_ms: i64,
}

const TEAM: &str =
    "SELECT t.id, t.name, t.kind, t.source, t.tags, t.created_ms, t.sso_client, t.sso_group FROM teams t";

pub(super) fn read(row: &Row) -> Result<Team, StoreError> {
    Ok(Team {
        id: row.id(0)?,
        name: row.text(1)?,
        kind: row.text(2)?,
        source: row.text(3)?,
        tags: row.json(4)?,
        created_ms: row.int(5)?,
        group: row.maybe_text(6)?.zip(row.maybe_text(7)?),
    })
}

pub fn create_team(tx: &mut Tx<'_>, scope: Scope, team: &Team) -> Result<(), StoreError> {
    if team_by_name(tx, scope, &team.name)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("team `{}`", team.name) });
    }
    tx.execute(
        "INSERT INTO teams (id, account, name, kind, source, tags, created_ms, sso_client, sso_group) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            team.id.into(),
            scope.account().into(),
            team.name.as_str().into(),
            team.kind.as_str().into(),
            team.source.as_str().into(),
            crate::sql::json(&team.tags)?,
            team.created_ms.into(),
            team.group.as_ref().map(|(client, _)| client.clone()).into(),
            team.group.as_ref().map(|(_, group)| group.clone()).into(),
        ],
    )?;
    Ok(())
}

pub fn teams(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Team>, StoreError> {
    tx.all(&format!("{TEAM} WHERE t.account = $1 ORDER BY t.name"), &[scope.account().into()])?
        .iter()
        .map(read)
        .collect()
}

/// By name or id.
pub fn team_by_name(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<Team>, StoreError> {
    tx.one(
        &format!("{TEAM} WHERE t.account = $1 AND (t.name = $2 OR t.id = $2)"),
        &[scope.account().into(), name.into()],
    )?
    .as_ref()
    .map(read)
    .transpose()
}

pub fn update_team(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: TeamId,
    name: &str,
    tags: &[String],
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE teams SET name = $3, tags = $4 WHERE account = $1 AND id = $2",
        &[scope.account().into(), id.into(), name.into(), crate::sql::json(tags)?],
    )?;
    Ok(())
}

/// A team of before groups were kept: it belongs to this one from now on.
pub fn claim_team(tx: &mut Tx<'_>, id: TeamId, client: &str, group: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE teams SET sso_client = $2, sso_group = $3 WHERE id = $1 AND sso_client IS NULL",
        &[id.into(), client.into(), group.into()],
    )?;
    Ok(())
}

pub fn delete_team(tx: &mut Tx<'_>, scope: Scope, id: TeamId) -> Result<(), StoreError> {
    let values = [scope.account().into(), id.into()];
    tx.execute(
        "DELETE FROM team_members WHERE team IN (SELECT id FROM teams WHERE account = $1 AND id = $2)",
        &values,
    )?;
    tx.execute("DELETE FROM teams WHERE account = $1 AND id = $2", &values)?;
    tx.rights_changed(id);
    Ok(())
}

/// Ids of people and service accounts that were put in, and by whom (`manual`, `sso`).
pub fn team_members(tx: &mut Tx<'_>, id: TeamId) -> Result<Vec<(String, String)>, StoreError> {
    tx.all("SELECT member, source FROM team_members WHERE team = $1 ORDER BY member", &[id.into()])?
        .iter()
        .map(|row| Ok((row.text(0)?, row.text(1)?)))
        .collect()
}

pub fn add_to_team(tx: &mut Tx<'_>, id: TeamId, member: &str, source: &str) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO team_members (team, member, source) VALUES ($1, $2, $3) ON CONFLICT (team, member) DO NOTHING",
        &[id.into(), member.into(), source.into()],
    )?;
    tx.rights_changed(member);
    Ok(())
}

pub fn remove_from_team(tx: &mut Tx<'_>, id: TeamId, member: &str) -> Result<bool, StoreError> {
    tx.rights_changed(member);
    Ok(tx.execute("DELETE FROM team_members WHERE team = $1 AND member = $2", &[id.into(), member.into()])?
        > 0)
}

/// The teams of a person or service account: those it was put in, and those that go by role.
pub fn teams_of(
    tx: &mut Tx<'_>,
    scope: Scope,
    member: &str,
    administrator: bool,
) -> Result<Vec<Team>, StoreError> {
    let kind = if administrator { "admin" } else { "default" };
    tx.all(
        &format!(
            "{TEAM} WHERE t.account = $1 AND (t.kind = 'default' OR t.kind = $3 \
             OR t.id IN (SELECT team FROM team_members WHERE member = $2)) ORDER BY t.name"
        ),
        &[scope.account().into(), member.into(), kind.into()],
    )?
    .iter()
    .map(read)
    .collect()
}
