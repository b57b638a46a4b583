//! Forgetting what is old, a little at a time: each call is a part of a transaction that holds up the other writers, so it
//! deletes no more rows than it is told to and says whether it is done.

use slipway_model::{BuildId, ChangeKind};

use crate::{Scope, StoreError, Tx, builds, facts};

/// Word by word the condition of the indexes `builds_ended` and `builds_logged`.
const ENDED: &str = "status IN ('success', 'error', 'terminated')";

/// What one call did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Of what was asked for: builds, logs of builds, facts.
    pub count: usize,
    /// There is more.
    pub more: bool,
}

/// Facts that are older and that `consumer` has passed. The newest always stays: it says how far facts have come.
pub fn facts(
    tx: &mut Tx<'_>,
    consumer: &str,
    before_ms: i64,
    rows_max: i64,
) -> Result<Forgotten, StoreError> {
    let passed = facts::cursor(tx, consumer)?.min(facts::last_seq(tx)? - 1);
    // From the oldest on: a round reads no more rows than it may delete.
    let rows = tx.all("SELECT seq, at_ms FROM facts ORDER BY seq LIMIT $1", &[rows_max.into()])?;
    let mut last = None;
    for row in &rows {
        let seq = row.int(0)?;
        if seq > passed || row.int(1)? >= before_ms {
            break;
        }
        last = Some(seq);
    }
    let Some(last) = last else { return Ok(Forgotten::default()) };
    let count = tx.execute("DELETE FROM facts WHERE seq <= $1", &[last.into()])?;
    Ok(Forgotten { count, more: count >= usize::try_from(rows_max).unwrap_or(usize::MAX) })
}

/// Notes of messages that are older than any redelivery can be.
pub fn inbox(tx: &mut Tx<'_>, before_ms: i64, rows_max: i64) -> Result<Forgotten, StoreError> {
    let sql = "DELETE FROM inbox WHERE (consumer, message) IN (SELECT consumer, message FROM inbox WHERE at_ms < $1 LIMIT $2)";
    rows(tx, sql, before_ms, rows_max)
}

/// What others were told before a moment, or were given up to be told.
pub fn outgoing(tx: &mut Tx<'_>, before_ms: i64, rows_max: i64) -> Result<Forgotten, StoreError> {
    let sql = "DELETE FROM outgoing WHERE id IN (SELECT id FROM outgoing WHERE done_ms IS NOT NULL AND done_ms < $1 \
               ORDER BY done_ms LIMIT $2)";
    rows(tx, sql, before_ms, rows_max)
}

fn rows(tx: &mut Tx<'_>, sql: &str, before_ms: i64, rows_max: i64) -> Result<Forgotten, StoreError> {
    let count = tx.execute(sql, &[before_ms.into(), rows_max.into()])?;
    Ok(Forgotten { count, more: count >= usize::try_from(rows_max).unwrap_or(usize::MAX) })
}

/// Builds of the account that were made and have ended before a moment, with their logs, answers and annotations. Never one
/// that has not ended, or that an agent still has to clear away.
pub fn builds(tx: &mut Tx<'_>, scope: Scope, before_ms: i64, rows_max: i64) -> Result<Forgotten, StoreError> {
    let (mut left, mut count) = (rows_max, 0);
    let old = tx.all(
        &format!(
            "SELECT id, created_ms FROM builds WHERE account = $1 AND {ENDED} AND created_ms < $2 \
             AND (finished_ms IS NULL OR finished_ms < $2) AND NOT EXISTS \
             (SELECT 1 FROM agent_builds WHERE agent_builds.build = builds.id AND over_ms IS NULL) ORDER BY created_ms LIMIT $3"
        ),
        &[scope.account().into(), before_ms.into(), rows_max.into()],
    )?;
    for row in &old {
        let id: BuildId = row.id(0)?;
        left -= chunks(tx, id, left)?;
        if left <= 0 {
            return Ok(Forgotten { count, more: true });
        }
        tx.execute(
            "DELETE FROM annotations WHERE account = $1 AND entity_kind = 'build' AND entity = $2",
            &[scope.account().into(), id.into()],
        )?;
        tx.execute("DELETE FROM builds WHERE id = $1", &[id.into()])?;
        builds::forgotten(tx, scope, row.int(1)?)?;
        tx.changed(scope.account(), ChangeKind::Build, id);
        count += 1;
        left -= 1;
    }
    Ok(Forgotten { count, more: left <= 0 })
}

/// Logs of such builds, each replaced by a line that says so: nobody finds an empty log and wonders.
pub fn logs(
    tx: &mut Tx<'_>,
    scope: Scope,
    before_ms: i64,
    notice: &str,
    now_ms: i64,
    rows_max: i64,
) -> Result<Forgotten, StoreError> {
    let (mut left, mut count) = (rows_max, 0);
    let old = tx.all(
        &format!(
            "SELECT id FROM builds WHERE account = $1 AND {ENDED} AND logs_forgotten_ms IS NULL AND created_ms < $2 \
             AND (finished_ms IS NULL OR finished_ms < $2) ORDER BY created_ms LIMIT $3"
        ),
        &[scope.account().into(), before_ms.into(), rows_max.into()],
    )?;
    for row in &old {
        let id: BuildId = row.id(0)?;
        left -= chunks(tx, id, left)?;
        if left <= 0 {
            return Ok(Forgotten { count, more: true });
        }
        for step in tx.all("SELECT step FROM step_logs WHERE build = $1", &[id.into()])? {
            let step = step.text(0)?;
            let length = i64::try_from(notice.len()).map_err(StoreError::corrupt)?;
            tx.execute(
                "INSERT INTO log_chunks (build, step, start, text) VALUES ($1, $2, 0, $3)",
                &[id.into(), step.as_str().into(), notice.into()],
            )?;
            tx.execute(
                "UPDATE step_logs SET bytes = $3 WHERE build = $1 AND step = $2",
                &[id.into(), step.into(), length.into()],
            )?;
        }
        tx.execute("UPDATE builds SET logs_forgotten_ms = $2 WHERE id = $1", &[id.into(), now_ms.into()])?;
        tx.changed(scope.account(), ChangeKind::Build, id);
        count += 1;
        left -= 1;
    }
    Ok(Forgotten { count, more: left <= 0 })
}

/// Up to so many pieces of a build's log, the oldest; says how many.
fn chunks(tx: &mut Tx<'_>, build: BuildId, rows_max: i64) -> Result<i64, StoreError> {
    let deleted = tx.execute(
        "DELETE FROM log_chunks WHERE seq IN (SELECT seq FROM log_chunks WHERE build = $1 ORDER BY seq LIMIT $2)",
        &[build.into(), rows_max.into()],
    )?;
    i64::try_from(deleted).map_err(StoreError::corrupt)
}
