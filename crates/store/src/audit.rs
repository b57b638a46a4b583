//! What was done and what was refused, in one chain for each account.
//!
//! Rows are appended in the transaction of what they tell of. Each carries a hash over its content and the hash
//! before it; who computes it and with which key, this room does not know.

use crate::{Ask, Database, Row, StoreError, Tx, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub seq: i64,
    pub at_ms: i64,
    pub actor_kind: String,
    pub actor: String,
    pub actor_name: String,
    pub address: String,
    pub action: String,
    pub entity: String,
    pub entity_id: String,
    pub entity_name: String,
    /// `allowed`, `denied` or `failed`.
    pub outcome: String,
    pub status: i64,
    pub method: String,
    pub path: String,
    pub request_id: String,
    /// JSON: before, after, reason; redacted.
    pub detail: String,
    pub hash: String,
}

const RECORD: &str = "SELECT seq, at_ms, actor_kind, actor, actor_name, address, action, entity, entity_id, entity_name, \
     outcome, status, method, path, request_id, detail, hash FROM audit";

fn read(row: &Row) -> Result<Record, StoreError> {
    Ok(Record {
        seq: row.int(0)?,
        at_ms: row.int(1)?,
        actor_kind: row.text(2)?,
        actor: row.text(3)?,
        actor_name: row.text(4)?,
        address: row.text(5)?,
        action: row.text(6)?,
        entity: row.text(7)?,
        entity_id: row.text(8)?,
        entity_name: row.text(9)?,
        outcome: row.text(10)?,
        status: row.int(11)?,
        method: row.text(12)?,
        path: row.text(13)?,
        request_id: row.text(14)?,
        detail: row.text(15)?,
        hash: row.text(16)?,
    })
}

/// Where a chain ends: the last sequence number and its hash; 0 and nothing for a new one.
pub fn head(tx: &mut Tx<'_>, chain: &str) -> Result<(i64, String), StoreError> {
    let found = tx.ask(&asks_head(chain))?.pop();
    found.map_or(Ok((0, String::new())), |row| Ok((row.int(0)?, row.text(1)?)))
}

/// What [`head`] asks.
pub fn asks_head(chain: &str) -> Ask {
    Ask::new("SELECT seq, hash FROM audit_heads WHERE chain = $1", [chain.into()])
}

/// Asks for the end of the chain together with what else a change begins with: [`append`] need not ask any more.
pub fn fetch_with(tx: &mut Tx<'_>, chain: &str, mut asked: Vec<Ask>) -> Result<(), StoreError> {
    if tx.heads.contains_key(chain) {
        return tx.fetch(asked);
    }
    asked.push(asks_head(chain));
    tx.fetch(asked)?;
    let found = head(tx, chain)?;
    tx.heads.insert(chain.to_owned(), found);
    Ok(())
}

pub fn heads(tx: &mut Tx<'_>) -> Result<Vec<(String, i64, String)>, StoreError> {
    tx.all("SELECT chain, seq, hash FROM audit_heads ORDER BY chain", &[])?
        .iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?, row.text(2)?)))
        .collect()
}

/// Appends; `hash` is given the hash before and the record with its number.
pub fn append(
    tx: &mut Tx<'_>,
    chain: &str,
    mut record: Record,
    hash: impl FnOnce(&str, &Record) -> String,
) -> Result<i64, StoreError> {
    // There is one writer at a time, so the end of a chain is where this transaction left it, or found it.
    let (last, before) = match tx.heads.remove(chain) {
        Some(known) => known,
        None => head(tx, chain)?,
    };
    record.seq = last + 1;
    record.hash = hash(&before, &record);
    tx.heads.insert(chain.to_owned(), (record.seq, record.hash.clone()));
    tx.send(
        "INSERT INTO audit (chain, seq, at_ms, actor_kind, actor, actor_name, address, action, entity, entity_id, \
         entity_name, outcome, status, method, path, request_id, detail, hash) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
        &[
            chain.into(),
            record.seq.into(),
            record.at_ms.into(),
            record.actor_kind.into(),
            record.actor.into(),
            record.actor_name.into(),
            record.address.into(),
            record.action.into(),
            record.entity.into(),
            record.entity_id.into(),
            record.entity_name.into(),
            record.outcome.into(),
            record.status.into(),
            record.method.into(),
            record.path.into(),
            record.request_id.into(),
            record.detail.into(),
            record.hash.as_str().into(),
        ],
    )?;
    // Whoever comes next in the chain builds on this.
    tx.send_row_over(
        &format!("audit_heads/{chain}"),
        "INSERT INTO audit_heads (chain, seq, hash) VALUES ($1, $2, $3) \
         ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
        &[chain.into(), record.seq.into(), record.hash.into()],
    )?;
    Ok(record.seq)
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub actor_name: Option<String>,
    pub actor: Option<String>,
    pub entity: Option<String>,
    pub entity_id: Option<String>,
    pub action: Option<String>,
    pub outcome: Option<String>,
    pub status: Option<i64>,
    pub from_ms: Option<i64>,
    pub to_ms: Option<i64>,
    /// Part of the path or of the detail.
    pub search: Option<String>,
    pub oldest_first: bool,
    pub limit: i64,
    pub offset: i64,
}

/// Nobody goes through more by pages, and counting them all takes longer each day.
const COUNTED_MAX: i64 = 10_000;

/// The records that fit, a page of them, and how many there are: up to [`COUNTED_MAX`], or one more than a page beyond that needs.
pub fn list(tx: &mut Tx<'_>, chain: &str, filter: &Filter) -> Result<(Vec<Record>, i64), StoreError> {
    let mut condition = String::from("chain = $1");
    let mut values: Vec<Value> = vec![chain.into()];
    let texts = [
        ("actor_name", &filter.actor_name),
        ("actor", &filter.actor),
        ("entity", &filter.entity),
        ("entity_id", &filter.entity_id),
        ("action", &filter.action),
        ("outcome", &filter.outcome),
    ];
    for (column, value) in texts {
        if let Some(value) = value {
            values.push(value.as_str().into());
            condition += &format!(" AND {column} = ${}", values.len());
        }
    }
    for (comparison, value) in
        [("status =", filter.status), ("at_ms >=", filter.from_ms), ("at_ms <=", filter.to_ms)]
    {
        if let Some(value) = value {
            values.push(value.into());
            condition += &format!(" AND {comparison} ${}", values.len());
        }
    }
    if let Some(search) = &filter.search {
        // The wildcards of LIKE are letters here.
        let escaped = search.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        values.push(format!("%{escaped}%").into());
        let place = values.len();
        // SQLite's LIKE takes big letters for small ones, PostgreSQL's does not.
        let like = match tx.database() {
            Database::Sqlite => "LIKE",
            Database::Postgres => "ILIKE",
        };
        condition +=
            &format!(" AND (path {like} ${place} ESCAPE '\\' OR detail {like} ${place} ESCAPE '\\')");
    }
    let most = COUNTED_MAX.max(filter.offset.saturating_add(filter.limit).saturating_add(1));
    let counted =
        format!("SELECT count(*) FROM (SELECT 1 FROM audit WHERE {condition} LIMIT {most}) AS counted");
    let total = tx.one(&counted, &values)?.map_or(Ok(0), |row| row.int(0))?;
    let order = if filter.oldest_first { "ASC" } else { "DESC" };
    let page = crate::sql::page(&mut values, filter.limit, filter.offset);
    let sql = format!("{RECORD} WHERE {condition} ORDER BY seq {order} {page}");
    let rows = tx.all(&sql, &values)?.iter().map(read).collect::<Result<_, _>>()?;
    Ok((rows, total))
}

/// In order, for a check of the whole chain.
pub fn after(tx: &mut Tx<'_>, chain: &str, seq: i64, limit: i64) -> Result<Vec<Record>, StoreError> {
    tx.all(
        &format!("{RECORD} WHERE chain = $1 AND seq > $2 ORDER BY seq LIMIT $3"),
        &[chain.into(), seq.into(), limit.into()],
    )?
    .iter()
    .map(read)
    .collect()
}

/// Entities and their actions that there are records of, in order.
pub fn entities(tx: &mut Tx<'_>, chain: &str) -> Result<Vec<(String, String)>, StoreError> {
    tx.all(
        "SELECT DISTINCT entity, action FROM audit WHERE chain = $1 ORDER BY entity, action",
        &[chain.into()],
    )?
    .iter()
    .map(|row| Ok((row.text(0)?, row.text(1)?)))
    .collect()
}
