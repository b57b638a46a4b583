//! Answers to steps that wait for approval. The first one counts, and who gave it and why stays.

use slipway_model::{BuildId, ChangeKind};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub step: String,
    pub approved: bool,
    pub by_kind: String,
    pub by_id: String,
    pub by_name: String,
    pub reason: Option<String>,
    pub at_ms: i64,
}

fn approval(row: &Row) -> Result<Approval, StoreError> {
    Ok(Approval {
        step: row.text(0)?,
        approved: row.bool(1)?,
        by_kind: row.text(2)?,
        by_id: row.text(3)?,
        by_name: row.text(4)?,
        reason: row.maybe_text(5)?,
        at_ms: row.int(6)?,
    })
}

const APPROVAL: &str = "SELECT step, approved, by_kind, by_id, by_name, reason, at_ms FROM approvals";

/// Gives back what counts now: this answer, or the one that came before it.
pub fn decide(tx: &mut Tx<'_>, scope: Scope, build: BuildId, new: &Approval) -> Result<Approval, StoreError> {
    tx.execute(
        "INSERT INTO approvals (build, step, approved, by_kind, by_id, by_name, reason, at_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (build, step) DO NOTHING",
        &[
            build.into(),
            new.step.as_str().into(),
            new.approved.into(),
            new.by_kind.as_str().into(),
            new.by_id.as_str().into(),
            new.by_name.as_str().into(),
            new.reason.clone().into(),
            new.at_ms.into(),
        ],
    )?;
    tx.changed(scope.account(), ChangeKind::Build, build);
    let kept = tx.one(
        &format!("{APPROVAL} WHERE build = $1 AND step = $2"),
        &[build.into(), new.step.as_str().into()],
    )?;
    kept.as_ref()
        .map(approval)
        .transpose()?
        .ok_or_else(|| StoreError::corrupt("an answer that was kept is gone"))
}

pub fn of_build(tx: &mut Tx<'_>, build: BuildId) -> Result<Vec<Approval>, StoreError> {
    tx.all(&format!("{APPROVAL} WHERE build = $1 ORDER BY at_ms, step"), &[build.into()])?
        .iter()
        .map(approval)
        .collect()
}
