//! Runtime environments as the published installer describes them: every version that was, and which one is the default.

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct RuntimeEnvironment {
    pub name: String,
    /// From 1, one more with every change.
    pub version: i64,
    /// JSON as its user wrote it.
    pub body: String,
    pub description: String,
    pub changed_by: String,
    pub at_ms: i64,
}

const ROW: &str = "SELECT name, version, body, description, changed_by, at_ms FROM runtime_environments";
const VERSIONS_KEPT: i64 = 50;

fn read(row: &Row) -> Result<RuntimeEnvironment, StoreError> {
    Ok(RuntimeEnvironment {
        name: row.text(0)?,
        version: row.int(1)?,
        body: row.text(2)?,
        description: row.text(3)?,
        changed_by: row.text(4)?,
        at_ms: row.int(5)?,
    })
}

/// Keeps what is given as the next version, whose number it gives back; versions that are long gone by are forgotten.
pub fn put(tx: &mut Tx<'_>, scope: Scope, new: &RuntimeEnvironment) -> Result<i64, StoreError> {
    let version = find(tx, scope, &new.name)?.map_or(1, |known| known.version + 1);
    tx.execute(
        "INSERT INTO runtime_environments (account, name, version, body, description, changed_by, at_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[
            scope.account().into(),
            new.name.as_str().into(),
            version.into(),
            new.body.as_str().into(),
            new.description.as_str().into(),
            new.changed_by.as_str().into(),
            new.at_ms.into(),
        ],
    )?;
    tx.execute(
        "DELETE FROM runtime_environments WHERE account = $1 AND name = $2 AND version <= $3",
        &[scope.account().into(), new.name.as_str().into(), (version - VERSIONS_KEPT).into()],
    )?;
    Ok(version)
}

/// The newest version.
pub fn find(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<RuntimeEnvironment>, StoreError> {
    tx.one(
        &format!("{ROW} WHERE account = $1 AND name = $2 ORDER BY version DESC LIMIT 1"),
        &[scope.account().into(), name.into()],
    )?
    .as_ref()
    .map(read)
    .transpose()
}

/// Every version that is kept, newest first.
pub fn versions(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Vec<RuntimeEnvironment>, StoreError> {
    tx.all(
        &format!("{ROW} WHERE account = $1 AND name = $2 ORDER BY version DESC"),
        &[scope.account().into(), name.into()],
    )?
    .iter()
    .map(read)
    .collect()
}

/// The newest version of each, by name.
pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<RuntimeEnvironment>, StoreError> {
    let newest = "version = (SELECT max(version) FROM runtime_environments newest WHERE newest.account = \
                  runtime_environments.account AND newest.name = runtime_environments.name)";
    tx.all(&format!("{ROW} WHERE account = $1 AND {newest} ORDER BY name"), &[scope.account().into()])?
        .iter()
        .map(read)
        .collect()
}

pub fn delete(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<bool, StoreError> {
    let values = [scope.account().into(), name.into()];
    tx.execute("DELETE FROM default_runtimes WHERE account = $1 AND name = $2", &values)?;
    tx.queue_moved(scope.account());
    Ok(tx.execute("DELETE FROM runtime_environments WHERE account = $1 AND name = $2", &values)? > 0)
}

/// Which one pipelines mean that name none.
pub fn default_name(tx: &mut Tx<'_>, scope: Scope) -> Result<Option<String>, StoreError> {
    tx.one("SELECT name FROM default_runtimes WHERE account = $1", &[scope.account().into()])?
        .map(|row| row.text(0))
        .transpose()
}

pub fn make_default(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO default_runtimes (account, name) VALUES ($1, $2) ON CONFLICT (account) DO UPDATE SET name = excluded.name",
        &[scope.account().into(), name.into()],
    )?;
    tx.queue_moved(scope.account());
    Ok(())
}
