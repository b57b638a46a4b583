//! What happened, in order, and how far each consumer has come.
//!
//! This table is the outbox: a fact is written in the transaction that makes it true. A consumer handles
//! facts and moves its cursor in one transaction, so each is handled once however often the process dies.

use slipway_model::{AccountId, Fact};

use crate::{Row, StoreError, Tx, Value, engine};

/// Gives back its number. [`note`] is for whoever does not need it.
pub fn append(tx: &mut Tx<'_>, account: AccountId, fact: &Fact, now_ms: i64) -> Result<i64, StoreError> {
    let values = values(tx, account, fact, now_ms)?;
    tx.one("INSERT INTO facts (at_ms, account, body) VALUES ($1, $2, $3) RETURNING seq", &values)?
        .ok_or_else(|| StoreError::corrupt("an insert gave no row"))?
        .int(0)
}

/// Appends without waiting for the number.
pub fn note(tx: &mut Tx<'_>, account: AccountId, fact: &Fact, now_ms: i64) -> Result<(), StoreError> {
    let values = values(tx, account, fact, now_ms)?;
    tx.send("INSERT INTO facts (at_ms, account, body) VALUES ($1, $2, $3)", &values)
}

fn values(tx: &mut Tx<'_>, account: AccountId, fact: &Fact, now_ms: i64) -> Result<[Value; 3], StoreError> {
    tx.facts = true;
    if matches!(fact, Fact::Pushed { .. } | Fact::Repository { .. }) {
        engine::note(&mut tx.touched.pushes, account);
    }
    Ok([now_ms.into(), account.into(), crate::sql::json(fact)?])
}

#[derive(Debug, Clone)]
pub struct Recorded {
    pub seq: i64,
    pub account: AccountId,
    pub fact: Fact,
}

pub fn after(
    tx: &mut Tx<'_>,
    seq: i64,
    account: Option<AccountId>,
    limit: i64,
) -> Result<Vec<Recorded>, StoreError> {
    let account: Value = account.into();
    tx.all(
        "SELECT seq, account, body FROM facts WHERE seq > $1 AND ($2 IS NULL OR account = $2) ORDER BY seq LIMIT $3",
        &[seq.into(), account, limit.into()],
    )?
    .iter()
    .map(recorded)
    .collect()
}

fn recorded(row: &Row) -> Result<Recorded, StoreError> {
    Ok(Recorded { seq: row.int(0)?, account: row.id(1)?, fact: row.json(2)? })
}

/// Those that a consumer has not come to.
pub fn after_cursor(tx: &mut Tx<'_>, consumer: &str, limit: i64) -> Result<Vec<Recorded>, StoreError> {
    let mut values = vec![consumer.into()];
    let page = crate::sql::page(&mut values, limit, 0);
    tx.all(
        &format!(
            "SELECT seq, account, body FROM facts WHERE seq > coalesce((SELECT seq FROM cursors WHERE consumer = $1), 0) \
             ORDER BY seq {page}"
        ),
        &values,
    )?
    .iter()
    .map(recorded)
    .collect()
}

pub fn last_seq(tx: &mut Tx<'_>) -> Result<i64, StoreError> {
    Ok(tx
        .one("SELECT max(seq) FROM facts", &[])?
        .map(|row| row.maybe_int(0))
        .transpose()?
        .flatten()
        .unwrap_or(0))
}

pub fn cursor(tx: &mut Tx<'_>, consumer: &str) -> Result<i64, StoreError> {
    tx.one("SELECT seq FROM cursors WHERE consumer = $1", &[consumer.into()])?.map_or(Ok(0), |row| row.int(0))
}

pub fn move_cursor(tx: &mut Tx<'_>, consumer: &str, seq: i64) -> Result<(), StoreError> {
    tx.send_over(
        &format!("cursors/{consumer}"),
        "INSERT INTO cursors (consumer, seq) VALUES ($1, $2) ON CONFLICT (consumer) DO UPDATE SET seq = excluded.seq",
        &[consumer.into(), seq.into()],
    )
}
