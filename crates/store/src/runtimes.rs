//! Runtimes as administrators registered them, with what is known of each. What they report is in [`crate::applications`].

use slipway_model::ChangeKind;

use crate::identity::{self, Subject};
use crate::{Scope, StoreError, Tx, entities};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    pub name: String,
    pub version: String,
    pub cluster: String,
    /// Where an administrator says that it is reached; empty: through its tunnel.
    pub address: String,
    /// Networks from which callers may use its tunnel; empty: all.
    pub allowed: Vec<String>,
    pub created_ms: i64,
    /// 0: it was never heard of.
    pub last_seen_ms: i64,
    pub applications: i64,
    /// False after its token was revoked.
    pub has_token: bool,
    /// What its processes said of themselves, as whoever keeps it wrote it.
    pub health: String,
}

const ROW: &str = "SELECT r.name, r.version, r.cluster, r.address, r.allowed, r.created_ms, r.last_seen_ms, \
    (SELECT count(*) FROM entities e WHERE e.account = r.account AND e.runtime = r.name \
    AND e.kind = 'argoproj.io/Application' AND e.gone_ms IS NULL), \
    (SELECT count(*) FROM api_keys k WHERE k.account = r.account AND k.subject_kind = 'runtime' AND k.subject = r.name), \
    r.health FROM runtimes r WHERE r.account = $1";

fn row(row: &crate::sql::Row) -> Result<Registered, StoreError> {
    Ok(Registered {
        name: row.text(0)?,
        version: row.text(1)?,
        cluster: row.text(2)?,
        address: row.text(3)?,
        allowed: row.json(4)?,
        created_ms: row.int(5)?,
        last_seen_ms: row.int(6)?,
        applications: row.int(7)?,
        has_token: row.int(8)? > 0,
        health: row.text(9)?,
    })
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Registered>, StoreError> {
    tx.all(&format!("{ROW} ORDER BY r.name"), &[scope.account().into()])?.iter().map(row).collect()
}

pub fn one(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<Registered>, StoreError> {
    let values = [scope.account().into(), name.into()];
    tx.one(&format!("{ROW} AND r.name = $2"), &values)?.as_ref().map(row).transpose()
}

/// Whether the name belongs to one: also of one that has a key and was never heard of.
pub fn is_taken(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<bool, StoreError> {
    let values = [scope.account().into(), name.into()];
    let known = tx.one("SELECT 1 FROM runtimes WHERE account = $1 AND name = $2", &values)?.is_some();
    Ok(known || !identity::keys_of(tx, scope, Subject::Runtime, name)?.is_empty())
}

/// Whoever calls has seen that the name is free.
pub fn register(
    tx: &mut Tx<'_>,
    scope: Scope,
    name: &str,
    address: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO runtimes (account, name, version, cluster, ingress_url, last_seen_ms, created_ms, address) \
         VALUES ($1, $2, '', '', '', 0, $3, $4)",
        &[scope.account().into(), name.into(), now_ms.into(), address.into()],
    )?;
    tx.changed(scope.account(), ChangeKind::Runtime, name);
    Ok(())
}

pub fn set_access(
    tx: &mut Tx<'_>,
    scope: Scope,
    name: &str,
    address: &str,
    allowed: &[String],
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE runtimes SET address = $3, allowed = $4 WHERE account = $1 AND name = $2",
        &[scope.account().into(), name.into(), address.into(), crate::sql::json(allowed)?],
    )?;
    tx.changed(scope.account(), ChangeKind::Runtime, name);
    Ok(())
}

/// Networks from which callers may use its tunnel, empty for all; none where there is no such runtime.
pub fn allowed(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<Vec<String>>, StoreError> {
    let values = [scope.account().into(), name.into()];
    let row = tx.one("SELECT allowed FROM runtimes WHERE account = $1 AND name = $2", &values)?;
    row.map(|row| row.json(0)).transpose()
}

/// The name of each, and where an administrator says that it is reached.
pub fn addresses(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<(String, String)>, StoreError> {
    let rows = tx.all("SELECT name, address FROM runtimes WHERE account = $1", &[scope.account().into()])?;
    rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect()
}

/// What its processes said of themselves; empty where there is no such runtime.
pub fn health(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<String, StoreError> {
    let values = [scope.account().into(), name.into()];
    let row = tx.one("SELECT health FROM runtimes WHERE account = $1 AND name = $2", &values)?;
    row.map(|row| row.text(0)).transpose().map(Option::unwrap_or_default)
}

pub fn set_health(tx: &mut Tx<'_>, scope: Scope, name: &str, health: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE runtimes SET health = $3 WHERE account = $1 AND name = $2",
        &[scope.account().into(), name.into(), health.into()],
    )?;
    Ok(())
}

/// With its key and everything that it reported. Whoever calls has seen that the new name is free.
pub fn rename(tx: &mut Tx<'_>, scope: Scope, from: &str, to: &str) -> Result<(), StoreError> {
    let values = [scope.account().into(), from.into(), to.into()];
    tx.execute("UPDATE runtimes SET name = $3 WHERE account = $1 AND name = $2", &values)?;
    entities::rename_runtime(tx, scope, from, to)?;
    identity::rename_subject(tx, scope, Subject::Runtime, from, to)?;
    for name in [from, to] {
        tx.changed(scope.account(), ChangeKind::Runtime, name);
    }
    Ok(())
}
