//! API keys of people, service accounts, agents and builds.

use slipway_model::{AccountId, ApiKeyId};

use crate::{Row, Scope, StoreError, Tx};

/// Who a key speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    User,
    ServiceAccount,
    Runner,
    Runtime,
    Build,
}

impl Subject {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ServiceAccount => "service-account",
            Self::Runner => "runner",
            Self::Runtime => "runtime",
            Self::Build => "build",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        [Self::User, Self::ServiceAccount, Self::Runner, Self::Runtime, Self::Build]
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
    pub last_used_ms: Option<i64>,
    /// Whether it has its owner's rights over the platform: the session that made it had them.
    pub platform: bool,
}

const KEY: &str = "SELECT id, account, name, prefix, secret_hash, subject_kind, subject, scopes, created_ms, last_used_ms, \
     platform FROM api_keys";

pub(super) fn key(row: &Row) -> Result<ApiKey, StoreError> {
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
        last_used_ms: row.maybe_int(9)?,
        platform: row.bool(10)?,
    })
}

pub fn create_key(tx: &mut Tx<'_>, key: &ApiKey) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO api_keys (id, account, name, prefix, secret_hash, subject_kind, subject, scopes, created_ms, \
         platform) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
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
            key.platform.into(),
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

/// Every key of people and service accounts of the account.
pub fn keys_of_account(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<ApiKey>, StoreError> {
    tx.all(
        &format!(
            "{KEY} WHERE account = $1 AND subject_kind IN ('user', 'service-account') ORDER BY created_ms"
        ),
        &[scope.account().into()],
    )?
    .iter()
    .map(key)
    .collect()
}

pub fn change_key(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ApiKeyId,
    name: &str,
    scopes: &[String],
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE api_keys SET name = $3, scopes = $4 WHERE account = $1 AND id = $2",
        &[scope.account().into(), id.into(), name.into(), crate::sql::json(scopes)?],
    )?;
    tx.rights_changed(id);
    Ok(())
}

/// When keys were last used, noted now and then for all of them together.
pub fn keys_used(tx: &mut Tx<'_>, used: &[(ApiKeyId, i64)]) -> Result<(), StoreError> {
    for (id, at_ms) in used {
        tx.send(
            "UPDATE api_keys SET last_used_ms = $2 WHERE id = $1 AND (last_used_ms IS NULL OR last_used_ms < $2)",
            &[(*id).into(), (*at_ms).into()],
        )?;
    }
    Ok(())
}

pub fn delete_key(tx: &mut Tx<'_>, scope: Scope, id: ApiKeyId) -> Result<bool, StoreError> {
    tx.rights_changed(id);
    let values = [scope.account().into(), id.into()];
    Ok(tx.execute("DELETE FROM api_keys WHERE account = $1 AND id = $2", &values)? > 0)
}

pub fn delete_keys_of(tx: &mut Tx<'_>, scope: Scope, kind: Subject, subject: &str) -> Result<(), StoreError> {
    let values = [scope.account().into(), kind.as_str().into(), subject.into()];
    tx.execute("DELETE FROM api_keys WHERE account = $1 AND subject_kind = $2 AND subject = $3", &values)?;
    tx.rights_changed(subject);
    Ok(())
}

/// The keys of an agent that is called otherwise from now on: they stay what they are.
pub fn rename_subject(
    tx: &mut Tx<'_>,
    scope: Scope,
    kind: Subject,
    from: &str,
    to: &str,
) -> Result<(), StoreError> {
    let values = [scope.account().into(), kind.as_str().into(), from.into(), to.into()];
    tx.execute(
        "UPDATE api_keys SET subject = $4 WHERE account = $1 AND subject_kind = $2 AND subject = $3",
        &values,
    )?;
    tx.rights_changed(from);
    Ok(())
}
