//! Shared configuration and integrations. What is secret in them arrives here sealed.

use slipway_model::{ContextId, HookId};

use crate::{Ask, Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Context {
    pub id: ContextId,
    pub name: String,
    pub kind: String,
    pub tags: Vec<String>,
    /// JSON, with what is secret taken out.
    pub spec: String,
    /// What was taken out, sealed; none when there is nothing secret.
    pub sealed: Option<String>,
    pub owner: String,
    pub revision: i64,
    pub created_ms: i64,
    pub updated_ms: i64,
}

const CONTEXT: &str =
    "SELECT id, name, type, tags, spec, sealed, owner, revision, created_ms, updated_ms FROM contexts";

fn read(row: &Row) -> Result<Context, StoreError> {
    Ok(Context {
        id: row.id(0)?,
        name: row.text(1)?,
        kind: row.text(2)?,
        tags: row.json(3)?,
        spec: row.text(4)?,
        sealed: row.maybe_text(5)?,
        owner: row.text(6)?,
        revision: row.int(7)?,
        created_ms: row.int(8)?,
        updated_ms: row.int(9)?,
    })
}

/// Names are unique across types.
pub fn create(tx: &mut Tx<'_>, scope: Scope, new: &Context) -> Result<(), StoreError> {
    if by_name(tx, scope, &new.name)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("context `{}`", new.name) });
    }
    tx.execute(
        "INSERT INTO contexts (id, account, name, type, tags, spec, sealed, owner, revision, created_ms, updated_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &[
            new.id.into(),
            scope.account().into(),
            new.name.as_str().into(),
            new.kind.as_str().into(),
            crate::sql::json(&new.tags)?,
            new.spec.as_str().into(),
            new.sealed.clone().into(),
            new.owner.as_str().into(),
            new.revision.into(),
            new.created_ms.into(),
            new.updated_ms.into(),
        ],
    )?;
    Ok(())
}

pub fn replace(tx: &mut Tx<'_>, scope: Scope, changed: &Context) -> Result<(), StoreError> {
    let done = tx.execute(
        "UPDATE contexts SET name = $3, type = $4, tags = $5, spec = $6, sealed = $7, revision = revision + 1, \
         updated_ms = $8 WHERE account = $1 AND id = $2 AND revision = $9",
        &[
            scope.account().into(),
            changed.id.into(),
            changed.name.as_str().into(),
            changed.kind.as_str().into(),
            crate::sql::json(&changed.tags)?,
            changed.spec.as_str().into(),
            changed.sealed.clone().into(),
            changed.updated_ms.into(),
            changed.revision.into(),
        ],
    )?;
    if done == 0 {
        return Err(StoreError::Conflict { what: format!("context `{}`", changed.name) });
    }
    Ok(())
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Context>, StoreError> {
    tx.all(&format!("{CONTEXT} WHERE account = $1 ORDER BY name"), &[scope.account().into()])?
        .iter()
        .map(read)
        .collect()
}

pub fn by_name(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<Context>, StoreError> {
    tx.one(&format!("{CONTEXT} WHERE account = $1 AND name = $2"), &[scope.account().into(), name.into()])?
        .as_ref()
        .map(read)
        .transpose()
}

/// The context that a webhook was registered with.
pub fn of_hook(tx: &mut Tx<'_>, hook: HookId) -> Result<Option<Context>, StoreError> {
    tx.ask(&asks_of_hook(hook))?.first().map(read).transpose()
}

/// What [`of_hook`] asks.
pub fn asks_of_hook(hook: HookId) -> Ask {
    Ask::new(
        format!(
            "{CONTEXT} WHERE account = (SELECT account FROM hooks WHERE id = $1) \
             AND name = (SELECT context FROM hooks WHERE id = $1)"
        ),
        [hook.into()],
    )
}

pub fn delete(tx: &mut Tx<'_>, scope: Scope, id: ContextId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM contexts WHERE account = $1 AND id = $2", &[scope.account().into(), id.into()])?;
    Ok(())
}
