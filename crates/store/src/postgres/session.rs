//! Transactions over one connection that comes back by itself.
//!
//! Every round trip of a writer is one during which all other writers of the platform wait, so what needs no answer of its
//! own travels with the next thing that does: the beginning with the first statement, savepoints and roles with the job's
//! first, changes that nobody asks about ([`Session::send`]) with whatever is asked next.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::wire::Wire;
use super::{Address, LOCKS, WRITER_LOCK, listen};
use crate::engine::Committed;
use crate::services::Service;
use crate::session::{Access, Ask, EachRow, Session};
use crate::sql::{Row, Value};
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
    wire: Option<Wire>,
    writing: Option<Writing>,
    access: Access,
    role: Option<Service>,
    /// The transaction has begun for the caller but not for the server: its beginning goes with the first statement.
    unsaid: bool,
    /// A role may be set in the transaction.
    acting: bool,
    job: Job,
    begun_after: Duration,
}

/// Where the savepoint of jobs stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    /// Nothing was done since it was set.
    Fresh,
    /// What was done since is to stay.
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
        Self {
            address,
            wire: None,
            writing,
            access: Access::Read,
            role: None,
            unsaid: true,
            acting: false,
            job: Job::Fresh,
            begun_after: Duration::ZERO,
        }
    }

    fn connect(&mut self) -> Result<(), StoreError> {
        if self.wire.as_ref().is_some_and(|wire| !wire.is_closed()) {
            return Ok(());
        }
        self.disconnect();
        let mut wire = self.address.wire()?;
        if let Some(Writing { pid, .. }) = &self.writing {
            let statement = wire.prepared("SELECT pg_backend_pid()", &[])?;
            wire.each(&statement, &[], &mut |row| {
                pid.store(i32::try_from(row.int(0)?).map_err(StoreError::corrupt)?, Ordering::Relaxed);
                Ok(())
            })?;
        }
        self.wire = Some(wire);
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn disconnect(&mut self) {
        if self.wire.take().is_some() {
            CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn wire(&mut self) -> Result<&mut Wire, StoreError> {
        match &mut self.wire {
            Some(wire) if !wire.is_closed() => Ok(wire),
            _ => Err(StoreError::Unavailable { why: "the connection was lost".into() }),
        }
    }

    fn beginning(&self) -> String {
        let role =
            self.role.map(|service| format!("; SET LOCAL ROLE {}", service.role())).unwrap_or_default();
        match self.access {
            Access::Read => format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{role}"),
            Access::Write => format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({LOCKS}, {WRITER_LOCK}); SAVEPOINT job{role}"
            ),
        }
    }

    fn say_beginning(&mut self) -> Result<(), StoreError> {
        if self.unsaid {
            let beginning = self.beginning();
            self.wire()?.send_batch(beginning);
            self.unsaid = false;
        }
        Ok(())
    }

    /// Runs a statement. The first one of a transaction is tried again while the server cannot be reached: nothing of the
    /// transaction has happened then. `given`: the caller has seen something of the answer.
    fn run<T>(
        &mut self,
        given: &Cell<bool>,
        mut work: impl FnMut(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if !self.unsaid {
            return work(self);
        }
        let began = Instant::now();
        let (until, mut pause) = (began + PATIENCE, PAUSE);
        loop {
            match self.connect().and_then(|()| work(self)) {
                Err(StoreError::Unavailable { .. }) if !given.get() && Instant::now() + pause < until => {
                    self.rollback();
                    self.unsaid = true;
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                other => {
                    if matches!(&other, Err(StoreError::Unavailable { .. })) {
                        // Nothing of this transaction is, and nothing more of it will be.
                        self.unsaid = false;
                        self.disconnect();
                    }
                    self.begun_after = began.elapsed();
                    return other;
                }
            }
        }
    }

    fn batch(&mut self, sql: String) -> Result<(), StoreError> {
        let wire = self.wire()?;
        wire.send_batch(sql);
        wire.flush().map(drop)
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
        self.unsaid = true;
        self.acting = false;
        self.role = None;
        self.job = Job::Kept;
        self.begun_after = Duration::ZERO;
        Ok(())
    }

    fn begun_after(&mut self) -> Duration {
        std::mem::take(&mut self.begun_after)
    }

    fn start_job(&mut self, service: Option<Service>) -> Result<(), StoreError> {
        self.role = service;
        if self.unsaid {
            self.acting = service.is_some();
            return Ok(());
        }
        let role = match service {
            Some(service) => format!("SET LOCAL ROLE {}", service.role()),
            None if self.acting => "SET LOCAL ROLE NONE".into(),
            None => String::new(),
        };
        self.acting = service.is_some();
        let savepoint = match std::mem::replace(&mut self.job, Job::Kept) {
            Job::Fresh if role.is_empty() => return Ok(()),
            Job::Fresh => "",
            Job::Kept => "RELEASE SAVEPOINT job; SAVEPOINT job;",
        };
        self.wire()?.send_batch(format!("{savepoint} {role}"));
        Ok(())
    }

    /// The savepoint goes with the next job, or with the commit.
    fn keep_job(&mut self) -> Result<(), StoreError> {
        if self.unsaid { Ok(()) } else { self.wire().map(drop) }
    }

    fn undo_job(&mut self) -> Result<(), StoreError> {
        if self.unsaid {
            return Ok(());
        }
        // The role goes back too, to what it was before the savepoint: set it anew for the next job.
        self.acting = true;
        self.job = Job::Fresh;
        let wire = self.wire()?;
        wire.forget();
        wire.send_batch("ROLLBACK TO SAVEPOINT job".into());
        Ok(())
    }

    fn commit(&mut self, committed: &Committed) -> Result<(), StoreError> {
        // A COMMIT of a failed transaction rolls back without an error; a statement before it does not.
        let quiet = self.writing.as_ref().is_some_and(|writing| writing.quiet_logs.load(Ordering::Relaxed));
        let first = match listen::announcement(committed, quiet) {
            Some(text) => format!("SELECT pg_notify('{}', '{}')", listen::CHANNEL, text.replace('\'', "''")),
            None if self.unsaid => return Ok(()),
            None => "SELECT 1".into(),
        };
        if self.unsaid {
            self.connect()?;
            self.say_beginning()?;
        }
        self.batch(format!("{first}; COMMIT"))
    }

    fn rollback(&mut self) {
        let over = match &mut self.wire {
            Some(wire) => {
                wire.forget();
                wire.send_batch("ROLLBACK".into());
                wire.flush().is_ok()
            }
            None => true,
        };
        if !over {
            self.disconnect();
        }
    }

    fn end_read(&mut self) {
        if std::mem::replace(&mut self.unsaid, true) {
            return;
        }
        let Some(wire) = &mut self.wire else { return };
        wire.forget();
        wire.send_batch("ROLLBACK".into());
        wire.push();
        // Whoever reads next looks at no answer of ours.
        wire.forget();
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<usize, StoreError> {
        let count = self.run(&Cell::new(false), |session| {
            let statement = session.wire()?.prepared(sql, values)?;
            session.say_beginning()?;
            let wire = session.wire()?;
            wire.send(statement, values.to_vec());
            wire.flush()
        })?;
        usize::try_from(count).map_err(StoreError::corrupt)
    }

    fn send(&mut self, sql: &str, values: &[Value]) -> Result<(), StoreError> {
        if self.unsaid {
            return self.execute(sql, values).map(drop);
        }
        let wire = self.wire()?;
        let statement = wire.prepared(sql, values)?;
        wire.send(statement, values.to_vec());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        match &mut self.wire {
            Some(wire) if !self.unsaid => wire.flush().map(drop),
            _ => Ok(()),
        }
    }

    fn each(&mut self, sql: &str, values: &[Value], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let given = Cell::new(false);
        self.run(&given, |session| {
            let statement = session.wire()?.prepared(sql, values)?;
            session.say_beginning()?;
            session.wire()?.each(&statement, values, &mut |row| {
                given.set(true);
                each(row)
            })
        })
    }

    fn all(&mut self, asked: &[Ask], last: bool) -> Result<Vec<Vec<Row>>, StoreError> {
        self.run(&Cell::new(false), |session| {
            let wire = session.wire()?;
            let prepared = asked
                .iter()
                .map(|ask| Ok((wire.prepared(&ask.sql, &ask.values)?, ask)))
                .collect::<Result<Vec<_>, StoreError>>()?;
            session.say_beginning()?;
            let ends = last && session.access == Access::Read;
            let found = session.wire()?.all(&prepared, ends.then_some("COMMIT"))?;
            session.unsaid = ends;
            Ok(found)
        })
    }

    fn clock(&self) -> &'static str {
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
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
                self.batch(format!(
                    "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), \
                     greatest((SELECT coalesce(max({column}), 0) FROM {name}), 1))"
                ))?;
            }
        }
        Ok(())
    }
}
