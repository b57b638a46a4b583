//! Calls that runners make inside of their own networks, between being asked for and being answered.
//!
//! Nothing here outlives whoever waits: an errand that nobody took or answered in time is gone, and is asked for anew.

use crate::{Scope, StoreError, Tx};

/// Asks for one until a moment; those that nobody waits for any more go.
pub fn add(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: &str,
    request: &str,
    now_ms: i64,
    until_ms: i64,
) -> Result<(), StoreError> {
    tx.execute("DELETE FROM errands WHERE until_ms <= $1", &[now_ms.into()])?;
    tx.execute(
        "INSERT INTO errands (id, account, request, until_ms) VALUES ($1, $2, $3, $4)",
        &[id.into(), scope.account().into(), request.into(), until_ms.into()],
    )?;
    tx.errand_moved(scope.account());
    Ok(())
}

/// Whether there is one that nobody has taken.
pub fn is_waiting(tx: &mut Tx<'_>, scope: Scope, now_ms: i64) -> Result<bool, StoreError> {
    let found = tx.one(
        "SELECT 1 FROM errands WHERE account = $1 AND runner IS NULL AND until_ms > $2 LIMIT 1",
        &[scope.account().into(), now_ms.into()],
    )?;
    Ok(found.is_some())
}

/// Gives some of them to a runner: their ids, and what is asked.
pub fn take(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: &str,
    now_ms: i64,
    most: i64,
) -> Result<Vec<(String, String)>, StoreError> {
    let found = tx.all(
        "SELECT id, request FROM errands WHERE account = $1 AND runner IS NULL AND until_ms > $2 ORDER BY until_ms, id LIMIT $3",
        &[scope.account().into(), now_ms.into(), most.into()],
    )?;
    let mut taken = Vec::new();
    for row in found {
        let id = row.text(0)?;
        tx.execute("UPDATE errands SET runner = $2 WHERE id = $1", &[id.as_str().into(), runner.into()])?;
        taken.push((id, row.text(1)?));
    }
    Ok(taken)
}

/// By the runner that took it, once. `false`: it is not that runner's, or nobody waits for it.
pub fn answer(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: &str,
    runner: &str,
    answer: &str,
) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE errands SET answer = $4 WHERE id = $1 AND account = $2 AND runner = $3 AND answer IS NULL",
        &[id.into(), scope.account().into(), runner.into(), answer.into()],
    )?;
    if changed > 0 {
        tx.errand_moved(scope.account());
    }
    Ok(changed > 0)
}

/// What was answered, if anything was.
pub fn answered(tx: &mut Tx<'_>, scope: Scope, id: &str) -> Result<Option<String>, StoreError> {
    let found = tx.one(
        "SELECT answer FROM errands WHERE id = $1 AND account = $2",
        &[id.into(), scope.account().into()],
    )?;
    found.map_or(Ok(None), |row| row.maybe_text(0))
}

pub fn forget(tx: &mut Tx<'_>, scope: Scope, id: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM errands WHERE id = $1 AND account = $2", &[id.into(), scope.account().into()])?;
    Ok(())
}
