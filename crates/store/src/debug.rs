//! Orders of people who debug a build, kept until its end: its runner may not be there when one is given.

use slipway_model::{BuildId, ChangeKind};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugOrder {
    pub id: String,
    pub build: BuildId,
    /// `shell`, `continue` or `breakpoints`.
    pub action: String,
    pub step: String,
    pub phase: String,
    pub by_id: String,
    pub by_name: String,
    /// What else the runner is told, as JSON.
    pub body: String,
    pub at_ms: i64,
}

fn order(row: &Row) -> Result<DebugOrder, StoreError> {
    Ok(DebugOrder {
        id: row.text(0)?,
        build: row.id(1)?,
        action: row.text(2)?,
        step: row.text(3)?,
        phase: row.text(4)?,
        by_id: row.text(5)?,
        by_name: row.text(6)?,
        body: row.text(7)?,
        at_ms: row.int(8)?,
    })
}

const ORDER: &str = "SELECT id, build, action, step, phase, by_id, by_name, body, at_ms FROM debug_orders";

pub fn give(tx: &mut Tx<'_>, scope: Scope, new: &DebugOrder) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO debug_orders (id, build, action, step, phase, by_id, by_name, body, at_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            new.id.as_str().into(),
            new.build.into(),
            new.action.as_str().into(),
            new.step.as_str().into(),
            new.phase.as_str().into(),
            new.by_id.as_str().into(),
            new.by_name.as_str().into(),
            new.body.as_str().into(),
            new.at_ms.into(),
        ],
    )?;
    tx.changed(scope.account(), ChangeKind::Build, new.build);
    Ok(())
}

/// Oldest first.
pub fn of_build(tx: &mut Tx<'_>, build: BuildId) -> Result<Vec<DebugOrder>, StoreError> {
    tx.all(&format!("{ORDER} WHERE build = $1 ORDER BY at_ms, id"), &[build.into()])?
        .iter()
        .map(order)
        .collect()
}

pub fn by_id(tx: &mut Tx<'_>, build: BuildId, id: &str) -> Result<Option<DebugOrder>, StoreError> {
    tx.one(&format!("{ORDER} WHERE build = $1 AND id = $2"), &[build.into(), id.into()])?
        .as_ref()
        .map(order)
        .transpose()
}
