//! Service accounts: robots of an account. They have keys, no password and no session.

use slipway_model::ServiceAccountId;

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct ServiceAccount {
    pub id: ServiceAccountId,
    pub name: String,
    pub role: String,
    pub enabled: bool,
    pub created_ms: i64,
}

const SERVICE_ACCOUNT: &str = "SELECT id, name, role, enabled, created_ms FROM service_accounts";

fn read(row: &Row) -> Result<ServiceAccount, StoreError> {
    Ok(ServiceAccount {
        id: row.id(0)?,
        name: row.text(1)?,
        role: row.text(2)?,
        enabled: row.bool(3)?,
        created_ms: row.int(4)?,
    })
}

pub fn create_service_account(tx: &mut Tx<'_>, scope: Scope, new: &ServiceAccount) -> Result<(), StoreError> {
    name_is_free(tx, scope, &new.name, new.created_ms)?;
    tx.execute(
        "INSERT INTO service_accounts (id, account, name, role, enabled, created_ms) VALUES ($1, $2, $3, $4, $5, $6)",
        &[
            new.id.into(),
            scope.account().into(),
            new.name.as_str().into(),
            new.role.as_str().into(),
            new.enabled.into(),
            new.created_ms.into(),
        ],
    )?;
    Ok(())
}

fn name_is_free(tx: &mut Tx<'_>, scope: Scope, name: &str, now_ms: i64) -> Result<(), StoreError> {
    let account = scope.account().to_string();
    if service_account(tx, scope, name)?.is_some()
        || super::is_quarantined(tx, "service-account", &account, name, now_ms)?
    {
        return Err(StoreError::Duplicate { what: format!("service account `{name}`") });
    }
    Ok(())
}

pub fn rename_service_account(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ServiceAccountId,
    name: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    name_is_free(tx, scope, name, now_ms)?;
    tx.execute(
        "UPDATE service_accounts SET name = $3 WHERE account = $1 AND id = $2",
        &[scope.account().into(), id.into(), name.into()],
    )?;
    tx.rights_changed(id);
    Ok(())
}

pub fn service_accounts(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<ServiceAccount>, StoreError> {
    tx.all(&format!("{SERVICE_ACCOUNT} WHERE account = $1 ORDER BY name"), &[scope.account().into()])?
        .iter()
        .map(read)
        .collect()
}

/// By name or id.
pub fn service_account(
    tx: &mut Tx<'_>,
    scope: Scope,
    name: &str,
) -> Result<Option<ServiceAccount>, StoreError> {
    tx.one(
        &format!("{SERVICE_ACCOUNT} WHERE account = $1 AND (name = $2 OR id = $2)"),
        &[scope.account().into(), name.into()],
    )?
    .as_ref()
    .map(read)
    .transpose()
}

pub fn update_service_account(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ServiceAccountId,
    role: &str,
    enabled: bool,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE service_accounts SET role = $3, enabled = $4 WHERE account = $1 AND id = $2",
        &[scope.account().into(), id.into(), role.into(), enabled.into()],
    )?;
    tx.rights_changed(id);
    Ok(())
}

/// Its keys and its places in teams go with it.
pub fn delete_service_account(tx: &mut Tx<'_>, scope: Scope, id: ServiceAccountId) -> Result<(), StoreError> {
    let values = [scope.account().into(), id.into()];
    tx.execute(
        "DELETE FROM api_keys WHERE account = $1 AND subject_kind = 'service-account' AND subject = $2",
        &values,
    )?;
    tx.execute("DELETE FROM team_members WHERE member = $1", &[id.into()])?;
    tx.execute("DELETE FROM service_accounts WHERE account = $1 AND id = $2", &values)?;
    tx.rights_changed(id);
    Ok(())
}
