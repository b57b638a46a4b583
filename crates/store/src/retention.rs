//! Forgetting what is old, a little at a time: each call is a part of a transaction that holds up the other writers, so it
//! deletes no more rows than it is told to and says whether it is done. Whether there is anything to forget is read first
//! ([`anything`], [`anything_of`]), beside the writers: most of the time there is not.

use slipway_model::{BuildId, ChangeKind};

use crate::{Row, Scope, StoreError, Tx, builds, facts};

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

/// Before which moment each of the platform's own books is forgotten.
#[derive(Debug, Clone, Copy)]
pub struct Books {
    pub facts_ms: i64,
    pub inbox_ms: i64,
    pub outgoing_ms: i64,
}

/// Which of the books hold something to forget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Due {
    pub facts: bool,
    pub inbox: bool,
    pub outgoing: bool,
}

/// Looks whether there is anything for [`facts`], [`inbox`] and [`outgoing`].
pub fn anything(tx: &mut Tx<'_>, consumer: &str, before: Books) -> Result<Due, StoreError> {
    Ok(Due {
        facts: last_old_fact(tx, consumer, before.facts_ms, 1)?.is_some(),
        inbox: tx.one(&format!("{OLD_INBOX} LIMIT 1"), &[before.inbox_ms.into()])?.is_some(),
        outgoing: tx.one(&format!("{OLD_OUTGOING} LIMIT 1"), &[before.outgoing_ms.into()])?.is_some(),
    })
}

/// The same for [`builds()`] and [`logs`] of an account; a moment that is not given asks for nothing.
pub fn anything_of(
    tx: &mut Tx<'_>,
    scope: Scope,
    builds_ms: Option<i64>,
    logs_ms: Option<i64>,
) -> Result<(bool, bool), StoreError> {
    let builds = builds_ms.map(|before_ms| old_builds(tx, scope, before_ms, 1)).transpose()?;
    let logs = logs_ms.map(|before_ms| old_logs(tx, scope, before_ms, 1)).transpose()?;
    Ok((builds.is_some_and(|rows| !rows.is_empty()), logs.is_some_and(|rows| !rows.is_empty())))
}

/// Facts that are older and that `consumer` has passed. The newest always stays: it says how far facts have come.
pub fn facts(
    tx: &mut Tx<'_>,
    consumer: &str,
    before_ms: i64,
    rows_max: i64,
) -> Result<Forgotten, StoreError> {
    let Some(last) = last_old_fact(tx, consumer, before_ms, rows_max)? else {
        return Ok(Forgotten::default());
    };
    let count = tx.execute("DELETE FROM facts WHERE seq <= $1", &[last.into()])?;
    Ok(Forgotten { count, more: count >= usize::try_from(rows_max).unwrap_or(usize::MAX) })
}

fn last_old_fact(
    tx: &mut Tx<'_>,
    consumer: &str,
    before_ms: i64,
    rows_max: i64,
) -> Result<Option<i64>, StoreError> {
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
    Ok(last)
}

const OLD_INBOX: &str = "SELECT consumer, message FROM inbox WHERE at_ms < $1";
const OLD_OUTGOING: &str =
    "SELECT id FROM outgoing WHERE done_ms IS NOT NULL AND done_ms < $1 ORDER BY done_ms";

/// Notes of messages that are older than any redelivery can be.
pub fn inbox(tx: &mut Tx<'_>, before_ms: i64, rows_max: i64) -> Result<Forgotten, StoreError> {
    let sql = format!("DELETE FROM inbox WHERE (consumer, message) IN ({OLD_INBOX} LIMIT $2)");
    rows(tx, &sql, before_ms, rows_max)
}

/// What others were told before a moment, or were given up to be told.
pub fn outgoing(tx: &mut Tx<'_>, before_ms: i64, rows_max: i64) -> Result<Forgotten, StoreError> {
    let sql = format!("DELETE FROM outgoing WHERE id IN ({OLD_OUTGOING} LIMIT $2)");
    rows(tx, &sql, before_ms, rows_max)
}

fn rows(tx: &mut Tx<'_>, sql: &str, before_ms: i64, rows_max: i64) -> Result<Forgotten, StoreError> {
    let count = tx.execute(sql, &[before_ms.into(), rows_max.into()])?;
    Ok(Forgotten { count, more: count >= usize::try_from(rows_max).unwrap_or(usize::MAX) })
}

fn old_builds(tx: &mut Tx<'_>, scope: Scope, before_ms: i64, rows_max: i64) -> Result<Vec<Row>, StoreError> {
    tx.all(
        &format!(
            "SELECT id, created_ms FROM builds WHERE account = $1 AND {ENDED} AND created_ms < $2 \
             AND (finished_ms IS NULL OR finished_ms < $2) AND NOT EXISTS \
             (SELECT 1 FROM agent_builds WHERE agent_builds.build = builds.id AND over_ms IS NULL) ORDER BY created_ms LIMIT $3"
        ),
        &[scope.account().into(), before_ms.into(), rows_max.into()],
    )
}

fn old_logs(tx: &mut Tx<'_>, scope: Scope, before_ms: i64, rows_max: i64) -> Result<Vec<Row>, StoreError> {
    tx.all(
        &format!(
            "SELECT id FROM builds WHERE account = $1 AND {ENDED} AND logs_forgotten_ms IS NULL AND created_ms < $2 \
             AND (finished_ms IS NULL OR finished_ms < $2) ORDER BY created_ms LIMIT $3"
        ),
        &[scope.account().into(), before_ms.into(), rows_max.into()],
    )
}

/// Builds of the account that were made and have ended before a moment, with their logs, answers and annotations. Never one
/// that has not ended, or that an agent still has to clear away.
pub fn builds(tx: &mut Tx<'_>, scope: Scope, before_ms: i64, rows_max: i64) -> Result<Forgotten, StoreError> {
    let (mut left, mut count) = (rows_max, 0);
    let old = old_builds(tx, scope, before_ms, rows_max)?;
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
    let old = old_logs(tx, scope, before_ms, rows_max)?;
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
