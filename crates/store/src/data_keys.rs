//! Data keys, wrapped. The master key that opens them is never here.

use crate::{StoreError, Tx};

#[derive(Debug, Clone)]
pub struct DataKey {
    /// An account's id, or the name of a key that is no account's.
    pub id: String,
    /// Which master key wraps it.
    pub master: String,
    pub wrapped: String,
}

pub fn list(tx: &mut Tx<'_>) -> Result<Vec<DataKey>, StoreError> {
    tx.all("SELECT id, master, wrapped FROM data_keys ORDER BY id", &[])?
        .iter()
        .map(|row| Ok(DataKey { id: row.text(0)?, master: row.text(1)?, wrapped: row.text(2)? }))
        .collect()
}

pub fn one(tx: &mut Tx<'_>, id: &str) -> Result<Option<DataKey>, StoreError> {
    tx.one("SELECT id, master, wrapped FROM data_keys WHERE id = $1", &[id.into()])?
        .map(|row| Ok(DataKey { id: row.text(0)?, master: row.text(1)?, wrapped: row.text(2)? }))
        .transpose()
}

/// Keeps the first one: whoever comes second uses what is there.
pub fn create(tx: &mut Tx<'_>, key: &DataKey, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO data_keys (id, master, wrapped, created_ms) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING",
        &[key.id.as_str().into(), key.master.as_str().into(), key.wrapped.as_str().into(), now_ms.into()],
    )?;
    Ok(())
}

/// Changes what it is wrapped by, if it is still wrapped by what the caller saw.
pub fn rewrap(tx: &mut Tx<'_>, key: &DataKey, seen_master: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE data_keys SET master = $2, wrapped = $3 WHERE id = $1 AND master = $4",
        &[
            key.id.as_str().into(),
            key.master.as_str().into(),
            key.wrapped.as_str().into(),
            seen_master.into(),
        ],
    )?;
    Ok(())
}
