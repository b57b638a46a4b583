//! Names with values on builds, pipelines, projects and images.

use slipway_model::ChangeKind;

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    pub name: String,
    /// JSON: a text, a number, yes or no.
    pub value: String,
    pub at_ms: i64,
}

fn annotation(row: &Row) -> Result<Annotation, StoreError> {
    Ok(Annotation { name: row.text(0)?, value: row.text(1)?, at_ms: row.int(2)? })
}

pub fn set(
    tx: &mut Tx<'_>,
    scope: Scope,
    kind: &str,
    entity: &str,
    annotation: &Annotation,
) -> Result<(), StoreError> {
    tx.send(
        "INSERT INTO annotations (account, entity_kind, entity, name, value, at_ms) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (account, entity_kind, entity, name) DO UPDATE SET value = excluded.value, at_ms = excluded.at_ms",
        &[
            scope.account().into(),
            kind.into(),
            entity.into(),
            annotation.name.as_str().into(),
            annotation.value.as_str().into(),
            annotation.at_ms.into(),
        ],
    )?;
    tx.changed(scope.account(), ChangeKind::Build, entity);
    Ok(())
}

/// As [`set`], unless the same name was set or kept at the same time or later.
pub fn set_if_older(
    tx: &mut Tx<'_>,
    scope: Scope,
    kind: &str,
    entity: &str,
    annotation: &Annotation,
) -> Result<(), StoreError> {
    let known = moment(tx, scope, kind, entity, &annotation.name)?;
    if known.is_some_and(|at_ms| at_ms >= annotation.at_ms) {
        return Ok(());
    }
    set(tx, scope, kind, entity, annotation)
}

/// As [`delete`], unless it was set after that moment.
pub fn delete_if_older(
    tx: &mut Tx<'_>,
    scope: Scope,
    kind: &str,
    entity: &str,
    name: &str,
    at_ms: i64,
) -> Result<(), StoreError> {
    match moment(tx, scope, kind, entity, name)? {
        Some(known) if known <= at_ms => delete(tx, scope, kind, entity, Some(name)),
        _ => Ok(()),
    }
}

/// When it was set.
fn moment(
    tx: &mut Tx<'_>,
    scope: Scope,
    kind: &str,
    entity: &str,
    name: &str,
) -> Result<Option<i64>, StoreError> {
    let sql =
        "SELECT at_ms FROM annotations WHERE account = $1 AND entity_kind = $2 AND entity = $3 AND name = $4";
    let row = tx.one(sql, &[scope.account().into(), kind.into(), entity.into(), name.into()])?;
    row.map(|row| row.int(0)).transpose()
}

pub fn of(tx: &mut Tx<'_>, scope: Scope, kind: &str, entity: &str) -> Result<Vec<Annotation>, StoreError> {
    tx.all(
        "SELECT name, value, at_ms FROM annotations WHERE account = $1 AND entity_kind = $2 AND entity = $3 ORDER BY name",
        &[scope.account().into(), kind.into(), entity.into()],
    )?
    .iter()
    .map(annotation)
    .collect()
}

/// All of them when no name is given.
pub fn delete(
    tx: &mut Tx<'_>,
    scope: Scope,
    kind: &str,
    entity: &str,
    name: Option<&str>,
) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM annotations WHERE account = $1 AND entity_kind = $2 AND entity = $3 AND ($4 IS NULL OR name = $4)",
        &[scope.account().into(), kind.into(), entity.into(), name.into()],
    )?;
    tx.changed(scope.account(), ChangeKind::Build, entity);
    Ok(())
}

/// What carries this name with this value.
pub fn with(
    tx: &mut Tx<'_>,
    scope: Scope,
    kind: &str,
    name: &str,
    value: &str,
) -> Result<Vec<String>, StoreError> {
    tx.all(
        "SELECT entity FROM annotations WHERE account = $1 AND entity_kind = $2 AND name = $3 AND value = $4 ORDER BY entity",
        &[scope.account().into(), kind.into(), name.into(), value.into()],
    )?
    .iter()
    .map(|row| row.text(0))
    .collect()
}
