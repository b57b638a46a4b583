//! Work that one process at a time does: whoever holds the lease, for as long as it renews it.
//!
//! Time is the database's, so clocks of processes do not matter. Taking a lease raises its epoch, and a holder
//! asks for its epoch in every transaction that does the work ([`still_held`]): one that was paused and
//! overtaken changes nothing when it wakes.

use crate::{Ask, Database, StoreError, Tx};

/// Takes the lease when nobody holds it, or keeps it. `None`: somebody else holds it.
pub fn take(tx: &mut Tx<'_>, name: &str, holder: &str, for_ms: i64) -> Result<Option<i64>, StoreError> {
    let now_ms = tx.database_now_ms()?;
    let row = tx.one(
        "INSERT INTO leases (name, holder, epoch, until_ms) VALUES ($1, $2, 1, $3) \
         ON CONFLICT (name) DO UPDATE SET \
         epoch = CASE WHEN leases.holder = excluded.holder AND leases.until_ms > $4 THEN leases.epoch ELSE leases.epoch + 1 END, \
         holder = excluded.holder, until_ms = excluded.until_ms \
         WHERE leases.holder = excluded.holder OR leases.until_ms <= $4 RETURNING epoch",
        &[name.into(), holder.into(), (now_ms + for_ms).into(), now_ms.into()],
    )?;
    row.map(|row| row.int(0)).transpose()
}

/// Asked inside the transaction that does the work. An error means: leave it to the one who leads now.
pub fn still_held(tx: &mut Tx<'_>, name: &str, holder: &str, epoch: i64) -> Result<(), StoreError> {
    let lease = asks_held(name, holder, epoch);
    tx.fetch([tx.asks_clock(), lease.clone()])?;
    let now_ms = tx.database_now_ms()?;
    match tx.ask(&lease)?.first() {
        Some(row) if row.int(0)? > now_ms => Ok(()),
        _ => Err(StoreError::Conflict { what: format!("the lease `{name}`") }),
    }
}

/// What [`still_held`] asks.
pub fn asks_still_held(database: Database, name: &str, holder: &str, epoch: i64) -> [Ask; 2] {
    [crate::sql::asks_clock(database), asks_held(name, holder, epoch)]
}

fn asks_held(name: &str, holder: &str, epoch: i64) -> Ask {
    Ask::new(
        "SELECT until_ms FROM leases WHERE name = $1 AND holder = $2 AND epoch = $3",
        [name.into(), holder.into(), epoch.into()],
    )
}

/// Lets another take over at once.
pub fn give_back(tx: &mut Tx<'_>, name: &str, holder: &str, epoch: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE leases SET until_ms = 0 WHERE name = $1 AND holder = $2 AND epoch = $3",
        &[name.into(), holder.into(), epoch.into()],
    )?;
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    pub holder: String,
    pub epoch: i64,
    /// How long it still runs; not above zero when it has run out.
    pub left_ms: i64,
}

pub fn list(tx: &mut Tx<'_>) -> Result<Vec<Lease>, StoreError> {
    let now_ms = tx.database_now_ms()?;
    tx.all("SELECT name, holder, epoch, until_ms FROM leases ORDER BY name", &[])?
        .iter()
        .map(|row| {
            Ok(Lease {
                name: row.text(0)?,
                holder: row.text(1)?,
                epoch: row.int(2)?,
                left_ms: row.int(3)? - now_ms,
            })
        })
        .collect()
}
