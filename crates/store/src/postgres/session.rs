//! One connection that comes back by itself, with its prepared statements.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use postgres::fallible_iterator::FallibleIterator;
use postgres::types::{ToSql, Type};
use postgres::{Client, Statement};

use super::{Address, LOCKS, WRITER_LOCK, failure, listen, values};
use crate::engine::Committed;
use crate::services::Service;
use crate::session::{Access, EachRow, Session};
use crate::sql::Value;
use crate::{Database, StoreError};

/// A server that restarts is back within this time, and callers wait that long.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// Of this process.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn connections() -> u64 {
    CONNECTIONS.load(Ordering::Relaxed)
}

pub(super) struct Postgres {
    address: Address,
    client: Option<Client>,
    statements: HashMap<(String, Vec<Type>), Statement>,
    writing: Option<Writing>,
    access: Access,
    acting: bool,
    job: Job,
}

/// Where the savepoint of jobs stands. What can wait goes with the next thing that is said: every word is a round trip while
/// all other writers of the platform wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    /// There is none.
    None,
    /// It is there, and nothing was done since.
    Fresh,
    /// It is there, and what was done since is to stay.
    Kept,
}

/// What the connection that writes shares with the rest of the process.
pub(super) struct Writing {
    /// Which server process writes for us, so that the listener knows our own commits.
    pub(super) pid: Arc<AtomicI32>,
    /// Growth of logs is told to others by another way.
    pub(super) quiet_logs: Arc<AtomicBool>,
}

impl Postgres {
    pub(super) fn new(address: Address, writing: Option<Writing>) -> Self {
        let (client, statements) = (None, HashMap::new());
        Self { address, client, statements, writing, access: Access::Read, acting: false, job: Job::None }
    }

    fn connected(&mut self) -> Result<&mut Client, StoreError> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.disconnect();
            let mut client = self.address.connect()?;
            if let Some(Writing { pid, .. }) = &self.writing {
                let row =
                    client.query_one("SELECT pg_backend_pid()", &[]).map_err(|error| failure(&error))?;
                pid.store(row.get(0), Ordering::Relaxed);
            }
            self.client = Some(client);
            CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.client.as_mut().expect("just connected"))
    }

    fn disconnect(&mut self) {
        if self.client.take().is_some() {
            CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
        }
        self.statements.clear();
    }

    fn open(&self) -> Result<(), StoreError> {
        match &self.client {
            Some(client) if !client.is_closed() => Ok(()),
            _ => Err(StoreError::Unavailable { why: "the connection was lost".into() }),
        }
    }

    fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.open()?;
        let client = self.client.as_mut().expect("open");
        client.batch_execute(sql).map_err(|error| failure(&error))
    }

    fn try_begin(&mut self, access: Access) -> Result<(), StoreError> {
        self.connected()?;
        match access {
            Access::Read => self.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            Access::Write => self.batch(&format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({LOCKS}, {WRITER_LOCK}); SAVEPOINT job"
            )),
        }
    }

    fn prepared(&mut self, sql: &str, values: &[Value]) -> Result<Statement, StoreError> {
        self.open()?;
        let sql = values::nulls_written_out(sql, values).into_owned();
        let key = (sql, values.iter().map(values::declared).collect::<Vec<_>>());
        if let Some(statement) = self.statements.get(&key) {
            return Ok(statement.clone());
        }
        let client = self.client.as_mut().expect("open");
        let statement = client.prepare_typed(&key.0, &key.1).map_err(|error| failure(&error))?;
        self.statements.insert(key, statement.clone());
        Ok(statement)
    }

    /// A plan may have become stale under us; the next use prepares it again.
    fn failed(&mut self, error: &postgres::Error) -> StoreError {
        self.statements.clear();
        failure(error)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.disconnect();
    }
}

impl Session for Postgres {
    fn database(&self) -> Database {
        Database::Postgres
    }

    fn begin(&mut self, access: Access) -> Result<(), StoreError> {
        self.access = access;
        self.acting = false;
        let (until, mut pause) = (Instant::now() + PATIENCE, PAUSE);
        loop {
            match self.try_begin(access) {
                Err(StoreError::Unavailable { .. }) if Instant::now() + pause < until => {
                    self.rollback();
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => {
                    self.rollback();
                    return Err(error);
                }
                Ok(()) => {
                    self.job = if access == Access::Write { Job::Fresh } else { Job::None };
                    return Ok(());
                }
            }
        }
    }

    fn start_job(&mut self, service: Option<Service>) -> Result<(), StoreError> {
        let role = match service {
            Some(service) => format!("SET LOCAL ROLE {}", service.role()),
            None if self.acting => "SET LOCAL ROLE NONE".into(),
            None => String::new(),
        };
        self.acting = service.is_some();
        match self.access {
            Access::Read if role.is_empty() => Ok(()),
            Access::Read => self.batch(&role),
            Access::Write => {
                let savepoint = match std::mem::replace(&mut self.job, Job::Kept) {
                    Job::Fresh if role.is_empty() => return Ok(()),
                    Job::Fresh => "",
                    Job::None => "SAVEPOINT job;",
                    Job::Kept => "RELEASE SAVEPOINT job; SAVEPOINT job;",
                };
                self.batch(&format!("{savepoint} {role}"))
            }
        }
    }

    /// The savepoint goes with the next job, or with the commit.
    fn keep_job(&mut self) -> Result<(), StoreError> {
        self.open()
    }

    fn undo_job(&mut self) -> Result<(), StoreError> {
        // The role goes back too, to what it was before the savepoint: set it anew for the next job.
        self.acting = true;
        self.job = Job::Fresh;
        self.batch("ROLLBACK TO SAVEPOINT job")
    }

    fn commit(&mut self, committed: &Committed) -> Result<(), StoreError> {
        // A COMMIT of a failed transaction rolls back without an error; a statement before it does not.
        let quiet = self.writing.as_ref().is_some_and(|writing| writing.quiet_logs.load(Ordering::Relaxed));
        let first = match listen::announcement(committed, quiet) {
            Some(text) => format!("SELECT pg_notify('{}', '{}')", listen::CHANNEL, text.replace('\'', "''")),
            None => "SELECT 1".into(),
        };
        self.batch(&format!("{first}; COMMIT"))
    }

    fn rollback(&mut self) {
        let over = match &mut self.client {
            Some(client) => client.batch_execute("ROLLBACK").is_ok(),
            None => true,
        };
        if !over {
            self.disconnect();
        }
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<usize, StoreError> {
        let statement = self.prepared(sql, values)?;
        let parameters: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let done = self.client.as_mut().expect("open").execute(&statement, &parameters);
        let count = done.map_err(|error| self.failed(&error))?;
        usize::try_from(count).map_err(StoreError::corrupt)
    }

    fn each(&mut self, sql: &str, values: &[Value], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let statement = self.prepared(sql, values)?;
        let parameters = values.iter().map(|value| value as &(dyn ToSql + Sync));
        let outcome = (|| {
            let mut rows = self
                .client
                .as_mut()
                .expect("open")
                .query_raw(&statement, parameters)
                .map_err(Failed::Server)?;
            while let Some(row) = rows.next().map_err(Failed::Server)? {
                values::row(&row).and_then(&mut *each).map_err(Failed::Caller)?;
            }
            Ok(())
        })();
        outcome.map_err(|error| match error {
            Failed::Server(error) => self.failed(&error),
            Failed::Caller(error) => error,
        })
    }

    fn now_ms(&mut self) -> Result<i64, StoreError> {
        let mut now_ms = 0;
        self.each("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", &[], &mut |row| {
            now_ms = row.int(0)?;
            Ok(())
        })?;
        Ok(now_ms)
    }

    fn follow_numbers(&mut self, tables: &[&str]) -> Result<(), StoreError> {
        for table in tables {
            let numbered = "SELECT attname::text, attrelid::regclass::text FROM pg_attribute \
                 WHERE attrelid = to_regclass($1) AND attidentity <> ''";
            let mut found = Vec::new();
            self.each(numbered, &[(*table).into()], &mut |row| {
                found.push((row.text(0)?, row.text(1)?));
                Ok(())
            })?;
            for (column, name) in found {
                self.batch(&format!(
                    "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), \
                     greatest((SELECT coalesce(max({column}), 0) FROM {name}), 1))"
                ))?;
            }
        }
        Ok(())
    }
}

enum Failed {
    Server(postgres::Error),
    Caller(StoreError),
}
