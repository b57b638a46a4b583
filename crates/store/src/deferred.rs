//! Messages that could not be followed up yet, and those that were given up.

use slipway_model::AccountId;

use crate::{Row, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferred {
    /// Who could not handle it.
    pub consumer: String,
    /// Its id on the bus, which the consumer's inbox goes by.
    pub message: String,
    /// None when it cannot even be read.
    pub account: Option<AccountId>,
    /// Whom it waits for, as `ACCOUNT/CONTEXT`: what waits for the same one is not tried one after the other.
    pub about: String,
    pub topic: String,
    pub body: String,
    pub attempts: i64,
    pub next_ms: i64,
    pub problem: String,
    pub created_ms: i64,
    /// Since when nobody tries it any more.
    pub dead_ms: Option<i64>,
}

const DEFERRED: &str = "SELECT consumer, message, account, about, topic, body, attempts, next_ms, problem, created_ms, dead_ms FROM deferred";

fn read(row: &Row) -> Result<Deferred, StoreError> {
    Ok(Deferred {
        consumer: row.text(0)?,
        message: row.text(1)?,
        account: row.maybe_text(2)?.map(|text| text.parse().map_err(StoreError::corrupt)).transpose()?,
        about: row.text(3)?,
        topic: row.text(4)?,
        body: row.text(5)?,
        attempts: row.int(6)?,
        next_ms: row.int(7)?,
        problem: row.text(8)?,
        created_ms: row.int(9)?,
        dead_ms: row.maybe_int(10)?,
    })
}

/// A message that comes twice is kept once, as it came first.
pub fn put(tx: &mut Tx<'_>, new: &Deferred) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO deferred (consumer, message, account, about, topic, body, attempts, next_ms, problem, created_ms, dead_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (consumer, message) DO NOTHING",
        &[
            new.consumer.as_str().into(),
            new.message.as_str().into(),
            new.account.into(),
            new.about.as_str().into(),
            new.topic.as_str().into(),
            new.body.as_str().into(),
            new.attempts.into(),
            new.next_ms.into(),
            new.problem.as_str().into(),
            new.created_ms.into(),
            new.dead_ms.into(),
        ],
    )?;
    Ok(())
}

pub fn due(tx: &mut Tx<'_>, consumer: &str, now_ms: i64, limit: i64) -> Result<Vec<Deferred>, StoreError> {
    tx.all(
        &format!(
            "{DEFERRED} WHERE dead_ms IS NULL AND next_ms <= $2 AND consumer = $1 ORDER BY next_ms, created_ms LIMIT $3"
        ),
        &[consumer.into(), now_ms.into(), limit.into()],
    )?
    .iter()
    .map(read)
    .collect()
}

/// Tried in vain; `dead_ms` when it was for the last time.
pub fn failed(
    tx: &mut Tx<'_>,
    row: &Deferred,
    problem: &str,
    next_ms: i64,
    dead_ms: Option<i64>,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deferred SET attempts = attempts + 1, problem = $3, next_ms = $4, dead_ms = $5 WHERE consumer = $1 AND message = $2",
        &[
            row.consumer.as_str().into(),
            row.message.as_str().into(),
            problem.into(),
            next_ms.into(),
            dead_ms.into(),
        ],
    )?;
    Ok(())
}

/// Not tried, because somebody else has just waited for the same one in vain.
pub fn postpone(tx: &mut Tx<'_>, about: &str, now_ms: i64, next_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deferred SET next_ms = $3 WHERE about = $1 AND next_ms <= $2 AND dead_ms IS NULL",
        &[about.into(), now_ms.into(), next_ms.into()],
    )?;
    Ok(())
}

pub fn done(tx: &mut Tx<'_>, consumer: &str, message: &str) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM deferred WHERE consumer = $1 AND message = $2",
        &[consumer.into(), message.into()],
    )?;
    Ok(())
}

/// Those that were given up first, then by age.
pub fn list(tx: &mut Tx<'_>, limit: i64) -> Result<Vec<Deferred>, StoreError> {
    tx.all(
        &format!(
            "{DEFERRED} ORDER BY CASE WHEN dead_ms IS NULL THEN 1 ELSE 0 END, created_ms, message LIMIT $1"
        ),
        &[limit.into()],
    )?
    .iter()
    .map(read)
    .collect()
}

/// How many wait, and how many were given up.
pub fn counts(tx: &mut Tx<'_>) -> Result<(i64, i64), StoreError> {
    let row = tx.one("SELECT count(*), count(dead_ms) FROM deferred", &[])?;
    row.map_or(Ok((0, 0)), |row| {
        let dead = row.int(1)?;
        Ok((row.int(0)? - dead, dead))
    })
}

/// Tries it again from now on, for as long as a new one. `false`: there is none of that name.
pub fn again(tx: &mut Tx<'_>, consumer: &str, message: &str, now_ms: i64) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE deferred SET dead_ms = NULL, attempts = 0, created_ms = $3, next_ms = $3 WHERE consumer = $1 AND message = $2",
        &[consumer.into(), message.into(), now_ms.into()],
    )?;
    Ok(changed > 0)
}
