//! PostgreSQL: any number of processes, one writer at a time among them, readers on snapshots.
//!
//! In: an [`Address`]. Out: sessions that reconnect by themselves, and a [`Listener`] that says what other
//! processes committed. A write transaction holds one advisory lock from its start to its commit (decision
//! 0005); a process that stops in the middle loses it after a few seconds, because the server ends its session.

mod address;
mod columns;
mod listen;
mod migrate;
mod questions;
mod session;
mod tls;
mod together;
mod values;
mod wire;

pub use address::Address;
pub(crate) use listen::Listener;
pub(crate) use session::connections;
pub(crate) use wire::Traffic;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32};

use tokio::sync::broadcast;

use crate::engine::Committed;
use crate::session::Session;
use crate::{StoreError, Tx, services};
use session::{Postgres, Writing};

const READERS: usize = 8;
/// "slipway" in the keys of advisory locks, which belong to one database.
const LOCKS: i32 = 0x0051_1b44;
const WRITER_LOCK: i32 = 1;
const MIGRATION_LOCK: i32 = 2;

type Opened = (Box<dyn Session>, Vec<Box<dyn Session>>, Listener);

/// Brings the schema up to date, refuses unsafe settings, and connects.
pub(crate) fn open(
    address: &Address,
    heard: broadcast::Sender<Committed>,
    quiet_logs: Arc<AtomicBool>,
) -> Result<Opened, StoreError> {
    let mut client = address.connect()?;
    migrate::check_settings(&mut client)?;
    migrate::migrate(&mut client)?;
    drop(client);
    let writer_pid = Arc::new(AtomicI32::new(0));
    let writer = Postgres::new(address.clone(), Some(Writing { pid: writer_pid.clone(), quiet_logs }));
    let listener = Listener::start(address.clone(), writer_pid, heard)?;
    Ok((Box::new(writer), readers(address), listener))
}

pub(crate) fn open_to_read(address: &Address) -> Result<Vec<Box<dyn Session>>, StoreError> {
    let address = address.beside(true);
    address.connect()?;
    Ok(readers(&address))
}

/// For an administrator's command beside the platform: the same rights, another name.
pub(crate) fn beside(address: &Address) -> Address {
    address.beside(false)
}

/// How many connections of processes that serve there are to this database.
pub(crate) fn serving(tx: &mut Tx<'_>) -> Result<i64, StoreError> {
    let sql =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1";
    tx.one(sql, &[address::SERVING.into()])?.map_or(Ok(0), |row| row.int(0))
}

fn readers(address: &Address) -> Vec<Box<dyn Session>> {
    // Each connects when it is first used.
    (0..READERS).map(|_| Box::new(Postgres::new(address.clone(), None)) as Box<dyn Session>).collect()
}

/// Every schema that holds tables, in the order in which names are looked up.
fn schemas() -> Vec<String> {
    let own = services::Service::ALL.iter().map(|service| service.schema());
    ["slipway".to_owned(), services::OUTBOX.to_owned()].into_iter().chain(own).collect()
}

/// What the server said, as the rest of the room sorts failures.
fn failure(error: &postgres::Error) -> StoreError {
    use postgres::error::SqlState;
    let Some(refusal) = error.as_db_error() else {
        let why = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        let broken = error.is_closed()
            || std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>());
        return if broken || why.contains("connect") {
            StoreError::Unavailable { why }
        } else {
            StoreError::Database { why }
        };
    };
    let (code, message) = (refusal.code(), refusal.message().to_owned());
    let class = code.code().get(..2).unwrap_or_default();
    match class {
        "23" => StoreError::Duplicate { what: refusal.detail().map_or(message, str::to_owned) },
        // Going down, coming up, too many connections, out of the way of somebody else's lock.
        "57" | "08" | "53" | "55" | "40" => StoreError::Unavailable { why: message },
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Refused { why: message },
        "28" => StoreError::Refused { why: message },
        // The server ends a session that sits in a transaction, see `session`.
        "25" => StoreError::Unavailable { why: message },
        _ => StoreError::Database { why: format!("{message} ({})", code.code()) },
    }
}
