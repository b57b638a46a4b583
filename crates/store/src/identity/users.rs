//! People, which accounts they are members of, and who they are at an identity provider.

use slipway_model::{AccountId, UserId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct User {
    pub id: UserId,
    /// Lowercase.
    pub email: String,
    pub name: String,
    /// Empty for somebody who signs in elsewhere: it fits no password.
    pub password_hash: String,
    pub platform_admin: bool,
    pub enabled: bool,
    pub active_account: AccountId,
    pub created_ms: i64,
    pub last_login_ms: Option<i64>,
}

const USER: &str = "SELECT u.id, u.email, u.name, u.password_hash, u.platform_admin, u.status, u.active_account, \
     u.created_ms, u.last_login_ms FROM users u";

fn user(row: &Row) -> Result<User, StoreError> {
    Ok(User {
        id: row.id(0)?,
        email: row.text(1)?,
        name: row.text(2)?,
        password_hash: row.text(3)?,
        platform_admin: row.bool(4)?,
        enabled: row.text(5)? == "active",
        active_account: row.id(6)?,
        created_ms: row.int(7)?,
        last_login_ms: row.maybe_int(8)?,
    })
}

pub fn create_user(tx: &mut Tx<'_>, user: &User) -> Result<(), StoreError> {
    if user_by_email(tx, &user.email)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("user `{}`", user.email) });
    }
    tx.execute(
        "INSERT INTO users (id, active_account, email, name, password_hash, platform_admin, status, created_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            user.id.into(),
            user.active_account.into(),
            user.email.as_str().into(),
            user.name.as_str().into(),
            user.password_hash.as_str().into(),
            user.platform_admin.into(),
            if user.enabled { "active" } else { "disabled" }.into(),
            user.created_ms.into(),
        ],
    )?;
    Ok(())
}

pub fn user_by_email(tx: &mut Tx<'_>, email: &str) -> Result<Option<User>, StoreError> {
    tx.one(&format!("{USER} WHERE u.email = $1"), &[email.into()])?.as_ref().map(user).transpose()
}

pub fn user_by_id(tx: &mut Tx<'_>, id: UserId) -> Result<Option<User>, StoreError> {
    tx.one(&format!("{USER} WHERE u.id = $1"), &[id.into()])?.as_ref().map(user).transpose()
}

/// Everybody on the platform, whatever their account.
pub fn users_everywhere(tx: &mut Tx<'_>, limit: i64, offset: i64) -> Result<Vec<User>, StoreError> {
    tx.all(&format!("{USER} ORDER BY u.email LIMIT $1 OFFSET $2"), &[limit.into(), offset.into()])?
        .iter()
        .map(user)
        .collect()
}

pub fn set_password(tx: &mut Tx<'_>, id: UserId, hash: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE users SET password_hash = $2 WHERE id = $1", &[id.into(), hash.into()])?;
    Ok(())
}

pub fn set_user_enabled(tx: &mut Tx<'_>, id: UserId, enabled: bool) -> Result<(), StoreError> {
    let status = if enabled { "active" } else { "disabled" };
    tx.execute("UPDATE users SET status = $2 WHERE id = $1", &[id.into(), status.into()])?;
    tx.rights_changed(id);
    Ok(())
}

pub fn set_platform_admin(tx: &mut Tx<'_>, id: UserId, platform: bool) -> Result<(), StoreError> {
    tx.execute("UPDATE users SET platform_admin = $2 WHERE id = $1", &[id.into(), platform.into()])?;
    tx.rights_changed(id);
    Ok(())
}

pub fn platform_admins(tx: &mut Tx<'_>) -> Result<i64, StoreError> {
    tx.one("SELECT count(*) FROM users WHERE platform_admin = 1 AND status = 'active'", &[])?
        .map_or(Ok(0), |row| row.int(0))
}

pub fn set_active_account(tx: &mut Tx<'_>, id: UserId, account: AccountId) -> Result<(), StoreError> {
    tx.execute("UPDATE users SET active_account = $2 WHERE id = $1", &[id.into(), account.into()])?;
    Ok(())
}

pub fn set_profile(tx: &mut Tx<'_>, id: UserId, name: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE users SET name = $2 WHERE id = $1", &[id.into(), name.into()])?;
    Ok(())
}

pub fn signed_in(tx: &mut Tx<'_>, id: UserId, now_ms: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE users SET last_login_ms = $2 WHERE id = $1", &[id.into(), now_ms.into()])?;
    Ok(())
}

#[derive(Debug, Clone)]
pub struct Membership {
    pub account: AccountId,
    pub account_name: String,
    pub account_status: super::AccountStatus,
    pub role: String,
    /// In this account alone.
    pub suspended: bool,
}

/// The accounts of a person; deleted ones are not among them.
pub fn memberships_of(tx: &mut Tx<'_>, user: UserId) -> Result<Vec<Membership>, StoreError> {
    tx.all(
        "SELECT m.account, a.name, a.status, m.role, m.status FROM memberships m JOIN accounts a ON a.id = m.account \
         WHERE m.user_id = $1 AND a.status <> 'deleted' ORDER BY a.name",
        &[user.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Membership {
            account: row.id(0)?,
            account_name: row.text(1)?,
            account_status: super::AccountStatus::parse(&row.text(2)?)?,
            role: row.text(3)?,
            suspended: row.text(4)? != "active",
        })
    })
    .collect()
}

pub fn add_member(
    tx: &mut Tx<'_>,
    scope: Scope,
    user: UserId,
    role: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO memberships (account, user_id, role, created_ms) VALUES ($1, $2, $3, $4)",
        &[scope.account().into(), user.into(), role.into(), now_ms.into()],
    )?;
    tx.rights_changed(user);
    Ok(())
}

/// A person with their role in this account.
#[derive(Debug, Clone)]
pub struct Member {
    pub user: User,
    pub role: String,
    /// In this account alone; `user.enabled` is about all of them.
    pub suspended: bool,
}

impl Member {
    /// Whether they may do anything here now.
    pub fn is_open(&self) -> bool {
        self.user.enabled && !self.suspended
    }
}

const MEMBER: &str = ", m.role, m.status FROM users u";

pub(super) fn read_member(row: &Row) -> Result<Member, StoreError> {
    Ok(Member { user: user(row)?, role: row.text(9)?, suspended: row.text(10)? != "active" })
}

pub fn members(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Member>, StoreError> {
    let sql = USER.replace(" FROM users u", MEMBER);
    tx.all(
        &format!("{sql} JOIN memberships m ON m.user_id = u.id WHERE m.account = $1 ORDER BY u.email"),
        &[scope.account().into()],
    )?
    .iter()
    .map(read_member)
    .collect()
}

pub fn member(tx: &mut Tx<'_>, scope: Scope, id: UserId) -> Result<Option<Member>, StoreError> {
    let sql = USER.replace(" FROM users u", MEMBER);
    tx.one(
        &format!("{sql} JOIN memberships m ON m.user_id = u.id WHERE m.account = $1 AND u.id = $2"),
        &[scope.account().into(), id.into()],
    )?
    .as_ref()
    .map(read_member)
    .transpose()
}

pub fn set_role(tx: &mut Tx<'_>, scope: Scope, id: UserId, role: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE memberships SET role = $3 WHERE account = $1 AND user_id = $2",
        &[scope.account().into(), id.into(), role.into()],
    )?;
    tx.rights_changed(id);
    Ok(())
}

/// In this account alone. Their sessions here end; keys and teams are kept for the day they come back.
pub fn set_suspended(tx: &mut Tx<'_>, scope: Scope, id: UserId, suspended: bool) -> Result<(), StoreError> {
    let status = if suspended { "suspended" } else { "active" };
    let (account, user) = (scope.account().into(), id.into());
    tx.execute(
        "UPDATE memberships SET status = $3 WHERE account = $1 AND user_id = $2",
        &[account, user, status.into()],
    )?;
    tx.execute(
        "DELETE FROM sessions WHERE account = $1 AND user_id = $2",
        &[scope.account().into(), id.into()],
    )?;
    tx.rights_changed(id);
    Ok(())
}

/// Takes somebody out of the account: membership, teams, sessions and keys of this account go together.
pub fn remove_member(tx: &mut Tx<'_>, scope: Scope, id: UserId) -> Result<(), StoreError> {
    let account = scope.account();
    let values = [account.into(), id.into()];
    tx.execute("DELETE FROM memberships WHERE account = $1 AND user_id = $2", &values)?;
    tx.execute(
        "DELETE FROM team_members WHERE member = $2 AND team IN (SELECT id FROM teams WHERE account = $1)",
        &values,
    )?;
    tx.execute("DELETE FROM sessions WHERE account = $1 AND user_id = $2", &values)?;
    tx.execute(
        "DELETE FROM api_keys WHERE account = $1 AND subject_kind = 'user' AND subject = $2",
        &values,
    )?;
    tx.rights_changed(id);
    Ok(())
}

/// Administrators who can still sign in.
pub fn administrators(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<UserId>, StoreError> {
    tx.all(
        "SELECT u.id FROM memberships m JOIN users u ON u.id = m.user_id \
         WHERE m.account = $1 AND m.role = 'Admin' AND m.status = 'active' AND u.status = 'active'",
        &[scope.account().into()],
    )?
    .iter()
    .map(|row| row.id(0))
    .collect()
}

pub fn seats(tx: &mut Tx<'_>, scope: Scope) -> Result<i64, StoreError> {
    tx.one("SELECT count(*) FROM memberships WHERE account = $1", &[scope.account().into()])?
        .map_or(Ok(0), |row| row.int(0))
}

/// In this account and in no other, and with no way in: no password, no identity, no rights over the platform. Nobody but
/// this account knows the person, so its provider may say who they are.
pub fn is_unclaimed(tx: &mut Tx<'_>, scope: Scope, user: &User) -> Result<bool, StoreError> {
    if !user.password_hash.is_empty() || user.platform_admin || !user.enabled {
        return Ok(false);
    }
    let known = tx.one("SELECT 1 FROM identities WHERE user_id = $1 LIMIT 1", &[user.id.into()])?;
    let accounts = memberships_of(tx, user.id)?;
    Ok(known.is_none() && accounts.len() == 1 && accounts[0].account == scope.account())
}
