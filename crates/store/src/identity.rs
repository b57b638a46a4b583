//! Accounts, users, browser sessions and API keys. Secrets arrive here already hashed.

use slipway_model::{AccountId, ApiKeyId, UserId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct User {
    pub id: UserId,
    pub account: AccountId,
    pub account_name: String,
    pub email: String,
    pub name: String,
    pub password_hash: String,
    pub role: String,
}

const USER: &str = "SELECT u.id, u.account, a.name, u.email, u.name, u.password_hash, u.role \
     FROM users u JOIN accounts a ON a.id = u.account";

fn user(row: &Row) -> Result<User, StoreError> {
    Ok(User {
        id: row.id(0)?,
        account: row.id(1)?,
        account_name: row.text(2)?,
        email: row.text(3)?,
        name: row.text(4)?,
        password_hash: row.text(5)?,
        role: row.text(6)?,
    })
}

pub fn first_account(tx: &mut Tx<'_>) -> Result<Option<AccountId>, StoreError> {
    tx.one("SELECT id FROM accounts ORDER BY created_ms LIMIT 1", &[])?.map(|row| row.id(0)).transpose()
}

pub fn create_account(tx: &mut Tx<'_>, id: AccountId, name: &str, now_ms: i64) -> Result<(), StoreError> {
    let values = [id.into(), name.into(), now_ms.into()];
    tx.execute("INSERT INTO accounts (id, name, created_ms) VALUES ($1, $2, $3)", &values)?;
    Ok(())
}

pub fn account_name(tx: &mut Tx<'_>, scope: Scope) -> Result<String, StoreError> {
    tx.one("SELECT name FROM accounts WHERE id = $1", &[scope.account().into()])?
        .ok_or_else(|| StoreError::NotFound { what: "the account".into() })?
        .text(0)
}

pub fn create_user(tx: &mut Tx<'_>, user: &User, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO users (id, account, email, name, password_hash, role, created_ms) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[
            user.id.into(),
            user.account.into(),
            user.email.as_str().into(),
            user.name.as_str().into(),
            user.password_hash.as_str().into(),
            user.role.as_str().into(),
            now_ms.into(),
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

#[derive(Debug, Clone)]
pub struct Session {
    pub user: User,
    pub csrf: String,
    pub last_seen_ms: i64,
}

pub fn create_session(
    tx: &mut Tx<'_>,
    token_hash: &str,
    user: UserId,
    csrf: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO sessions (token_hash, user_id, csrf, created_ms, last_seen_ms) VALUES ($1, $2, $3, $4, $4)",
        &[token_hash.into(), user.into(), csrf.into(), now_ms.into()],
    )?;
    Ok(())
}

pub fn session(tx: &mut Tx<'_>, token_hash: &str) -> Result<Option<Session>, StoreError> {
    let found = tx.one(
        "SELECT user_id, csrf, last_seen_ms FROM sessions WHERE token_hash = $1",
        &[token_hash.into()],
    )?;
    let Some(row) = found else { return Ok(None) };
    let Some(user) = user_by_id(tx, row.id(0)?)? else { return Ok(None) };
    Ok(Some(Session { user, csrf: row.text(1)?, last_seen_ms: row.int(2)? }))
}

pub fn touch_session(tx: &mut Tx<'_>, token_hash: &str, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE sessions SET last_seen_ms = $2 WHERE token_hash = $1",
        &[token_hash.into(), now_ms.into()],
    )?;
    Ok(())
}

pub fn end_session(tx: &mut Tx<'_>, token_hash: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM sessions WHERE token_hash = $1", &[token_hash.into()])?;
    Ok(())
}

/// Who a key speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    User,
    Runner,
    Runtime,
    Build,
}

impl Subject {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Runner => "runner",
            Self::Runtime => "runtime",
            Self::Build => "build",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        [Self::User, Self::Runner, Self::Runtime, Self::Build]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| StoreError::corrupt(format!("unknown key subject `{text}`")))
    }
}

#[derive(Debug, Clone)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub account: AccountId,
    pub name: String,
    pub prefix: String,
    pub secret_hash: String,
    pub subject_kind: Subject,
    pub subject: String,
    pub scopes: Vec<String>,
    pub created_ms: i64,
}

const KEY: &str =
    "SELECT id, account, name, prefix, secret_hash, subject_kind, subject, scopes, created_ms FROM api_keys";

fn key(row: &Row) -> Result<ApiKey, StoreError> {
    Ok(ApiKey {
        id: row.id(0)?,
        account: row.id(1)?,
        name: row.text(2)?,
        prefix: row.text(3)?,
        secret_hash: row.text(4)?,
        subject_kind: Subject::parse(&row.text(5)?)?,
        subject: row.text(6)?,
        scopes: row.json(7)?,
        created_ms: row.int(8)?,
    })
}

pub fn create_key(tx: &mut Tx<'_>, key: &ApiKey) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO api_keys (id, account, name, prefix, secret_hash, subject_kind, subject, scopes, created_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            key.id.into(),
            key.account.into(),
            key.name.as_str().into(),
            key.prefix.as_str().into(),
            key.secret_hash.as_str().into(),
            key.subject_kind.as_str().into(),
            key.subject.as_str().into(),
            crate::sql::json(&key.scopes)?,
            key.created_ms.into(),
        ],
    )?;
    Ok(())
}

pub fn key_by_id(tx: &mut Tx<'_>, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
    tx.one(&format!("{KEY} WHERE id = $1"), &[id.into()])?.as_ref().map(key).transpose()
}

pub fn keys_of(
    tx: &mut Tx<'_>,
    scope: Scope,
    kind: Subject,
    subject: &str,
) -> Result<Vec<ApiKey>, StoreError> {
    tx.all(
        &format!("{KEY} WHERE account = $1 AND subject_kind = $2 AND subject = $3 ORDER BY created_ms"),
        &[scope.account().into(), kind.as_str().into(), subject.into()],
    )?
    .iter()
    .map(key)
    .collect()
}

pub fn delete_key(tx: &mut Tx<'_>, scope: Scope, id: ApiKeyId) -> Result<bool, StoreError> {
    let values = [scope.account().into(), id.into()];
    Ok(tx.execute("DELETE FROM api_keys WHERE account = $1 AND id = $2", &values)? > 0)
}

pub fn delete_keys_of(tx: &mut Tx<'_>, kind: Subject, subject: &str) -> Result<(), StoreError> {
    let values = [kind.as_str().into(), subject.into()];
    tx.execute("DELETE FROM api_keys WHERE subject_kind = $1 AND subject = $2", &values)?;
    Ok(())
}
