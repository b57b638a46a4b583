//! What others are told, until they have it: commit statuses, messages. Written with what it tells of, sent after.

use slipway_model::{AccountId, DeliveryId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Outgoing {
    pub id: DeliveryId,
    pub account: AccountId,
    /// `commit-status`, `slack`, `webhook`, `email`.
    pub kind: String,
    /// Name of the context it goes by; for a commit status also the repository.
    pub target: String,
    pub build: String,
    /// JSON of the server's own type.
    pub body: String,
    pub attempts: i64,
    pub problem: Option<String>,
    pub created_ms: i64,
    pub done_ms: Option<i64>,
}

const OUTGOING: &str =
    "SELECT id, account, kind, target, build, body, attempts, problem, created_ms, done_ms FROM outgoing";

fn outgoing(row: &Row) -> Result<Outgoing, StoreError> {
    Ok(Outgoing {
        id: row.id(0)?,
        account: row.id(1)?,
        kind: row.text(2)?,
        target: row.text(3)?,
        build: row.text(4)?,
        body: row.text(5)?,
        attempts: row.int(6)?,
        problem: row.maybe_text(7)?,
        created_ms: row.int(8)?,
        done_ms: row.maybe_int(9)?,
    })
}

/// The same thing to the same place is told once.
pub fn add(tx: &mut Tx<'_>, new: &Outgoing) -> Result<(), StoreError> {
    tx.send(
        "INSERT INTO outgoing (id, account, kind, target, build, body, attempts, next_ms, created_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $7) ON CONFLICT (account, kind, target, build, body) DO NOTHING",
        &[
            new.id.into(),
            new.account.into(),
            new.kind.as_str().into(),
            new.target.as_str().into(),
            new.build.as_str().into(),
            new.body.as_str().into(),
            new.created_ms.into(),
        ],
    )?;
    tx.changed(new.account, slipway_model::ChangeKind::Build, &new.build);
    Ok(())
}

/// What is due. What is told of one build to one place is told in order: what came later waits for what is tried again, so that
/// nobody hears last of what was first.
pub fn due(tx: &mut Tx<'_>, now_ms: i64) -> Result<Vec<Outgoing>, StoreError> {
    tx.all(
        &format!(
            "{OUTGOING} WHERE done_ms IS NULL AND next_ms <= $1 AND NOT EXISTS (SELECT 1 FROM outgoing e \
             WHERE e.account = outgoing.account AND e.kind = outgoing.kind AND e.target = outgoing.target \
             AND e.build = outgoing.build AND e.done_ms IS NULL AND (e.created_ms < outgoing.created_ms \
             OR e.created_ms = outgoing.created_ms AND e.id < outgoing.id)) ORDER BY next_ms, created_ms, id LIMIT 50"
        ),
        &[now_ms.into()],
    )?
    .iter()
    .map(outgoing)
    .collect()
}

pub fn done(tx: &mut Tx<'_>, id: DeliveryId, problem: Option<&str>, now_ms: i64) -> Result<(), StoreError> {
    tx.send(
        "UPDATE outgoing SET done_ms = $2, problem = $3, attempts = attempts + 1 WHERE id = $1",
        &[id.into(), now_ms.into(), problem.into()],
    )
}

pub fn later(tx: &mut Tx<'_>, id: DeliveryId, problem: &str, next_ms: i64) -> Result<(), StoreError> {
    tx.send(
        "UPDATE outgoing SET next_ms = $2, problem = $3, attempts = attempts + 1 WHERE id = $1",
        &[id.into(), next_ms.into(), problem.into()],
    )
}

/// Newest first.
pub fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    build: Option<&str>,
    limit: i64,
) -> Result<Vec<Outgoing>, StoreError> {
    tx.all(
        &format!("{OUTGOING} WHERE account = $1 AND ($2 IS NULL OR build = $2) ORDER BY id DESC LIMIT $3"),
        &[scope.account().into(), build.into(), limit.into()],
    )?
    .iter()
    .map(outgoing)
    .collect()
}
