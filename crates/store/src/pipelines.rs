//! Pipelines. The body is kept as the text that came in, because the order of its steps is their order.

use slipway_model::{ChangeKind, PipelineId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Pipeline {
    pub id: PipelineId,
    pub name: String,
    /// JSON of the entity, as the `api` room writes it.
    pub body: String,
    pub revision: i64,
    pub created_ms: i64,
    pub updated_ms: i64,
}

const PIPELINE: &str = "SELECT id, name, body, revision, created_ms, updated_ms FROM pipelines";

fn pipeline(row: &Row) -> Result<Pipeline, StoreError> {
    Ok(Pipeline {
        id: row.id(0)?,
        name: row.text(1)?,
        body: row.text(2)?,
        revision: row.int(3)?,
        created_ms: row.int(4)?,
        updated_ms: row.int(5)?,
    })
}

pub fn create(tx: &mut Tx<'_>, scope: Scope, pipeline: &Pipeline) -> Result<(), StoreError> {
    if by_name(tx, scope, &pipeline.name)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("pipeline `{}`", pipeline.name) });
    }
    tx.execute(
        "INSERT INTO pipelines (id, account, name, body, revision, created_ms, updated_ms) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[
            pipeline.id.into(),
            scope.account().into(),
            pipeline.name.as_str().into(),
            pipeline.body.as_str().into(),
            pipeline.revision.into(),
            pipeline.created_ms.into(),
            pipeline.updated_ms.into(),
        ],
    )?;
    tx.changed(ChangeKind::Pipeline, pipeline.id);
    Ok(())
}

/// `expect`: the revision that the change was made on, or `None` to overwrite whatever is there.
pub fn replace(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: PipelineId,
    name: &str,
    body: &str,
    expect: Option<i64>,
    now_ms: i64,
) -> Result<(), StoreError> {
    let changed = tx.execute(
        "UPDATE pipelines SET name = $3, body = $4, revision = revision + 1, updated_ms = $5 \
         WHERE account = $1 AND id = $2 AND ($6 IS NULL OR revision = $6)",
        &[scope.account().into(), id.into(), name.into(), body.into(), now_ms.into(), expect.into()],
    )?;
    if changed == 0 {
        return Err(StoreError::Conflict { what: format!("pipeline `{name}`") });
    }
    tx.changed(ChangeKind::Pipeline, id);
    Ok(())
}

pub fn by_name(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<Pipeline>, StoreError> {
    tx.one(
        &format!("{PIPELINE} WHERE account = $1 AND (name = $2 OR id = $2)"),
        &[scope.account().into(), name.into()],
    )?
    .as_ref()
    .map(pipeline)
    .transpose()
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Pipeline>, StoreError> {
    tx.all(&format!("{PIPELINE} WHERE account = $1 ORDER BY name"), &[scope.account().into()])?
        .iter()
        .map(pipeline)
        .collect()
}

pub fn delete(tx: &mut Tx<'_>, scope: Scope, id: PipelineId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM pipelines WHERE account = $1 AND id = $2", &[scope.account().into(), id.into()])?;
    tx.changed(ChangeKind::Pipeline, id);
    Ok(())
}
