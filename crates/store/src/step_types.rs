//! Definitions of steps that an account has of its own, by name and version.

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepType {
    pub name: String,
    pub version: String,
    /// The whole manifest, as JSON.
    pub body: String,
    /// Of the body: a version whose text changed is seen to have changed.
    pub digest: String,
    pub created_ms: i64,
    pub updated_ms: i64,
}

fn step_type(row: &Row) -> Result<StepType, StoreError> {
    Ok(StepType {
        name: row.text(0)?,
        version: row.text(1)?,
        body: row.text(2)?,
        digest: row.text(3)?,
        created_ms: row.int(4)?,
        updated_ms: row.int(5)?,
    })
}

/// Makes a version, or puts another text in its place.
pub fn put(tx: &mut Tx<'_>, scope: Scope, new: &StepType) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO step_types (account, name, version, body, digest, created_ms, updated_ms) VALUES ($1, $2, $3, $4, $5, $6, $7) \
         ON CONFLICT (account, name, version) DO UPDATE SET body = excluded.body, digest = excluded.digest, updated_ms = excluded.updated_ms",
        &[
            scope.account().into(),
            new.name.as_str().into(),
            new.version.as_str().into(),
            new.body.as_str().into(),
            new.digest.as_str().into(),
            new.created_ms.into(),
            new.updated_ms.into(),
        ],
    )?;
    Ok(())
}

/// All versions of all names.
pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<StepType>, StoreError> {
    tx.all(
        "SELECT name, version, body, digest, created_ms, updated_ms FROM step_types WHERE account = $1 ORDER BY name, version",
        &[scope.account().into()],
    )?
    .iter()
    .map(step_type)
    .collect()
}

/// One version, or all of the name.
pub fn delete(tx: &mut Tx<'_>, scope: Scope, name: &str, version: Option<&str>) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM step_types WHERE account = $1 AND name = $2 AND ($3 IS NULL OR version = $3)",
        &[scope.account().into(), name.into(), version.into()],
    )?;
    Ok(())
}
