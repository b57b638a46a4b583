//! Accounts: tenants. A deleted one keeps its row, so that it can be restored and its name is not taken.

use slipway_model::AccountId;

use crate::{Ask, Row, Scope, StoreError, Tx};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountStatus {
    Active,
    /// Nobody gets in and nothing runs; everything is kept.
    Suspended,
    /// As suspended, and no longer listed to its members.
    Deleted,
}

impl AccountStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Deleted => "deleted",
        }
    }

    pub fn parse(text: &str) -> Result<Self, StoreError> {
        [Self::Active, Self::Suspended, Self::Deleted]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| StoreError::corrupt(format!("unknown account status `{text}`")))
    }
}

#[derive(Debug, Clone)]
pub struct Account {
    pub id: AccountId,
    pub name: String,
    pub status: AccountStatus,
    pub status_ms: i64,
    pub created_ms: i64,
    /// JSON of the server's own types.
    pub settings: String,
    pub limits: String,
}

const ACCOUNT: &str = "SELECT id, name, status, status_ms, created_ms, settings, limits FROM accounts";

fn account(row: &Row) -> Result<Account, StoreError> {
    Ok(Account {
        id: row.id(0)?,
        name: row.text(1)?,
        status: AccountStatus::parse(&row.text(2)?)?,
        status_ms: row.int(3)?,
        created_ms: row.int(4)?,
        settings: row.text(5)?,
        limits: row.text(6)?,
    })
}

pub fn first_account(tx: &mut Tx<'_>) -> Result<Option<AccountId>, StoreError> {
    tx.one("SELECT id FROM accounts ORDER BY created_ms, id LIMIT 1", &[])?.map(|row| row.id(0)).transpose()
}

pub fn create_account(tx: &mut Tx<'_>, id: AccountId, name: &str, now_ms: i64) -> Result<(), StoreError> {
    let taken = tx.one("SELECT id FROM accounts WHERE name = $1", &[name.into()])?.is_some();
    if taken || is_quarantined(tx, "account", "", name, now_ms)? {
        return Err(StoreError::Duplicate { what: format!("account `{name}`") });
    }
    let values = [id.into(), name.into(), now_ms.into()];
    tx.execute("INSERT INTO accounts (id, name, created_ms, status_ms) VALUES ($1, $2, $3, $3)", &values)?;
    Ok(())
}

pub fn account_by_id(tx: &mut Tx<'_>, id: AccountId) -> Result<Option<Account>, StoreError> {
    tx.ask(&asks_account_by_id(id))?.first().map(account).transpose()
}

/// What [`account_by_id`] asks.
pub fn asks_account_by_id(id: AccountId) -> Ask {
    Ask::new(format!("{ACCOUNT} WHERE id = $1"), [id.into()])
}

pub fn account_by_name(tx: &mut Tx<'_>, name: &str) -> Result<Option<Account>, StoreError> {
    tx.one(&format!("{ACCOUNT} WHERE name = $1"), &[name.into()])?.as_ref().map(account).transpose()
}

/// Every account of the platform, deleted ones too.
pub fn accounts(tx: &mut Tx<'_>) -> Result<Vec<Account>, StoreError> {
    tx.all(&format!("{ACCOUNT} ORDER BY name"), &[])?.iter().map(account).collect()
}

pub fn account_name(tx: &mut Tx<'_>, scope: Scope) -> Result<String, StoreError> {
    tx.one("SELECT name FROM accounts WHERE id = $1", &[scope.account().into()])?
        .ok_or_else(|| StoreError::NotFound { what: "the account".into() })?
        .text(0)
}

pub fn rename_account(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<(), StoreError> {
    let holder = tx.one("SELECT id FROM accounts WHERE name = $1", &[name.into()])?;
    if holder.map(|row| row.id::<_>(0)).transpose()?.is_some_and(|id: AccountId| id != scope.account()) {
        return Err(StoreError::Duplicate { what: format!("account `{name}`") });
    }
    tx.execute("UPDATE accounts SET name = $2 WHERE id = $1", &[scope.account().into(), name.into()])?;
    Ok(())
}

pub fn set_account_status(
    tx: &mut Tx<'_>,
    id: AccountId,
    status: AccountStatus,
    now_ms: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE accounts SET status = $2, status_ms = $3 WHERE id = $1",
        &[id.into(), status.as_str().into(), now_ms.into()],
    )?;
    tx.rights_changed(id);
    Ok(())
}

pub fn set_account_settings(tx: &mut Tx<'_>, scope: Scope, settings: &str) -> Result<(), StoreError> {
    let values = [scope.account().into(), settings.into()];
    tx.execute("UPDATE accounts SET settings = $2 WHERE id = $1", &values)?;
    // Whether a password opens the account is one of them.
    tx.rights_changed(scope.account());
    // So is whether builds wait.
    tx.queue_moved(scope.account());
    Ok(())
}

pub fn set_account_limits(tx: &mut Tx<'_>, id: AccountId, limits: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE accounts SET limits = $2 WHERE id = $1", &[id.into(), limits.into()])?;
    // Builds that waited for a higher limit may start now.
    tx.queue_moved(id);
    Ok(())
}

/// Keeps a name that was given up from being taken by somebody else until then.
pub fn quarantine(
    tx: &mut Tx<'_>,
    kind: &str,
    scope: &str,
    name: &str,
    until_ms: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO quarantined_names (kind, scope, name, until_ms) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (kind, scope, name) DO UPDATE SET until_ms = excluded.until_ms",
        &[kind.into(), scope.into(), name.into(), until_ms.into()],
    )?;
    Ok(())
}

pub fn is_quarantined(
    tx: &mut Tx<'_>,
    kind: &str,
    scope: &str,
    name: &str,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let found = tx.one(
        "SELECT until_ms FROM quarantined_names WHERE kind = $1 AND scope = $2 AND name = $3 AND until_ms > $4",
        &[kind.into(), scope.into(), name.into(), now_ms.into()],
    )?;
    Ok(found.is_some())
}
