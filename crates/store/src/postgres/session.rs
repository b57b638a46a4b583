//! Transactions over one connection that comes back by itself.
//!
//! Every round trip of a writer is one during which all other writers of the platform wait, so what needs no answer of its
//! own travels with the next thing that does: the beginning with the first statement, savepoints and roles with the job's
//! first, changes that nobody asks about ([`Session::send`]) with whatever is asked next. A job that asked ahead and only sends
//! says nothing to the server by itself: its changes go with the commit of its group. When one of those fails, they are said
//! again one job after the other, without the one that failed and those that build on it.

mod jobs;

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use slipway_model::Backoff;

use super::together::Change;
use super::wire::{Asked, Wire};
use super::{Address, LOCKS, WRITER_LOCK, listen};
use crate::engine::Committed;
use crate::services::Service;
use crate::session::{About, Access, Ahead, Ask, EachRow, Session};
use crate::sql::{Row, Value};
use crate::{Database, StoreError};
use jobs::Kept;

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
    /// The transaction has begun for the caller but not for the server: its beginning goes with the first statement.
    unsaid: bool,
    /// Whose rights the job that runs has, and whose the server thinks we have.
    role: Option<Service>,
    acting: Option<Service>,
    /// The job that runs, by its place in the transaction.
    job: usize,
    savepoint: Savepoint,
    /// What the job that runs changed and the server has not heard of.
    unheard: Vec<Change>,
    /// The same of jobs before it, which are to stay.
    kept: Vec<Kept>,
    /// A savepoint `kept` was set, and nothing but what is kept came after it.
    before_kept: bool,
    /// Jobs that the server was asked something for while they ran.
    spoke: HashSet<usize>,
    /// Jobs that are not to stay after all, and the rows that others build on which they would have left.
    failed: Vec<(usize, StoreError)>,
    lost: HashSet<String>,
    culprit: Option<(usize, StoreError)>,
    begun_after: Duration,
}

/// Where the savepoint of jobs stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Savepoint {
    None,
    /// Of a job before; what was done since is to stay.
    Old,
    /// Of the job that runs, with the role that it began with.
    Mine(Option<Service>),
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
            unsaid: true,
            role: None,
            acting: None,
            job: 0,
            savepoint: Savepoint::None,
            unheard: Vec::new(),
            kept: Vec::new(),
            before_kept: false,
            spoke: HashSet::new(),
            failed: Vec::new(),
            lost: HashSet::new(),
            culprit: None,
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
            // Its statements look for single rows. One that is planned while its table is nearly empty would read all of it for
            // as long as the plan is kept, however many there are then.
            // For the same reason they are planned once, whatever their values: what is looked for by a value is found by an index.
            // Reports, announcements and logs are compressed as they are written: where the server knows LZ4, for a fraction of what
            // its own method takes.
            wire.send_batch(
                "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SELECT set_config(name, 'lz4', false) FROM pg_settings \
                 WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)"
                    .into(),
            );
            let statement = wire.prepared::<Value>("SELECT pg_backend_pid()", &[])?;
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

    fn say_beginning(&mut self) -> Result<(), StoreError> {
        if !self.unsaid {
            return Ok(());
        }
        let beginning = match self.access {
            Access::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".to_owned(),
            Access::Write => format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({LOCKS}, {WRITER_LOCK}); SAVEPOINT kept"
            ),
        };
        self.before_kept = self.access == Access::Write;
        let role = self.role.filter(|_| self.access == Access::Read);
        let acting = role.map(|service| format!("; {}", set_role(Some(service)))).unwrap_or_default();
        self.wire()?.send_batch(beginning + &acting);
        self.acting = role;
        self.unsaid = false;
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
        let (until, mut backoff) = (began + PATIENCE, Backoff::new(PAUSE, PAUSE_MAX));
        let buffered = (self.unheard.clone(), self.kept.clone());
        loop {
            match self.connect().and_then(|()| work(self)) {
                Err(StoreError::Unavailable { .. })
                    if !given.get() && self.culprit.is_none() && Instant::now() + backoff.peek() < until =>
                {
                    self.rollback();
                    self.unsaid = true;
                    (self.unheard, self.kept) = buffered.clone();
                    (self.savepoint, self.acting) = (Savepoint::None, None);
                    std::thread::sleep(backoff.failed());
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
        wire.sending_for = usize::MAX;
        wire.send_batch(sql);
        wire.flush().map(drop)
    }
}

fn set_role(role: Option<Service>) -> String {
    role.map_or_else(|| "SET LOCAL ROLE NONE".into(), |service| format!("SET LOCAL ROLE {}", service.role()))
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
        (self.role, self.acting) = (None, None);
        self.job = 0;
        self.savepoint = Savepoint::None;
        self.unheard.clear();
        self.kept.clear();
        self.before_kept = false;
        self.spoke.clear();
        self.failed.clear();
        self.lost.clear();
        self.culprit = None;
        self.begun_after = Duration::ZERO;
        Ok(())
    }

    fn begun_after(&mut self) -> Duration {
        std::mem::take(&mut self.begun_after)
    }

    fn start_job(&mut self, service: Option<Service>) -> Result<(), StoreError> {
        self.role = service;
        Ok(())
    }

    /// Its changes go with the next thing that the server is asked, at the latest with the commit.
    fn keep_job(&mut self) -> Result<(), StoreError> {
        let (job, role) = (self.job, self.role);
        self.kept.extend(self.unheard.drain(..).map(|change| Kept { job, role, change }));
        if matches!(self.savepoint, Savepoint::Mine(_)) {
            self.savepoint = Savepoint::Old;
        }
        self.job += 1;
        if self.unsaid { Ok(()) } else { self.wire().map(drop) }
    }

    fn undo_job(&mut self) -> Result<(), StoreError> {
        self.unheard.clear();
        self.job += 1;
        let Savepoint::Mine(role) = self.savepoint else { return Ok(()) };
        let wire = self.wire()?;
        wire.forget();
        wire.failed_for = None;
        // The role goes back too, to what it was before the savepoint.
        wire.send_batch("ROLLBACK TO SAVEPOINT job".into());
        (self.savepoint, self.acting) = (Savepoint::Old, role);
        Ok(())
    }

    fn culprit(&mut self) -> Option<(usize, StoreError)> {
        self.culprit.take()
    }

    fn ahead(&mut self, asked: &[Ahead]) -> Result<Option<Vec<Vec<Vec<Row>>>>, StoreError> {
        // Jobs of a group often ask the same.
        let mut distinct: Vec<(Option<Service>, &Ask)> = Vec::new();
        let mut places = Vec::with_capacity(asked.len());
        for (service, asks) in asked {
            let place = |ask| match distinct.iter().position(|known| *known == (*service, ask)) {
                Some(place) => place,
                None => {
                    distinct.push((*service, ask));
                    distinct.len() - 1
                }
            };
            places.push(asks.iter().map(place).collect::<Vec<_>>());
        }
        let (found, order) = self.run(&Cell::new(false), |session| {
            let (mut items, mut order) = (Vec::new(), Vec::new());
            let mut acting = None;
            for some in distinct.chunk_by(|(one, _), (other, _)| one == other) {
                let service = some[0].0;
                if service != acting {
                    items.push(Asked::Batch(set_role(service)));
                    acting = service;
                }
                let asks: Vec<_> = some.iter().map(|(_, ask)| *ask).collect();
                let (questions, places) = session.wire()?.questions(&asks)?;
                items.extend(questions.into_iter().map(Asked::Question));
                let before = order.len();
                order.extend(places.into_iter().map(|place| before + place));
            }
            session.say_beginning()?;
            session.acting = acting;
            Ok((session.wire()?.all(&items)?, order))
        })?;
        let of_job =
            |places: Vec<usize>| places.into_iter().map(|place| found[order[place]].clone()).collect();
        Ok(Some(places.into_iter().map(of_job).collect()))
    }

    fn commit(&mut self, committed: &Committed) -> Result<Vec<(usize, StoreError)>, StoreError> {
        // A COMMIT of a failed transaction rolls back without an error; a statement before it does not.
        let quiet = self.writing.as_ref().is_some_and(|writing| writing.quiet_logs.load(Ordering::Relaxed));
        let first = match listen::announcement(committed, quiet) {
            Some(text) => format!("SELECT pg_notify('{}', '{}')", listen::CHANNEL, text.replace('\'', "''")),
            None if self.unsaid && self.kept.is_empty() => return Ok(Vec::new()),
            None => "SELECT 1".into(),
        };
        if self.unsaid {
            // By itself, because this may be tried again and what follows may not.
            self.run(&Cell::new(false), |session| {
                session.say_beginning()?;
                session.wire()?.flush().map(drop)
            })?;
        }
        let commit = format!("{first}; COMMIT");
        let kept = self.say_kept()?;
        if let Err(error) = self.batch(commit.clone()) {
            // It was not committed if something before it failed.
            self.settled(kept, Err(error))?;
            self.batch(commit)?;
        }
        Ok(std::mem::take(&mut self.failed))
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
            session.catch_up()?;
            let wire = session.wire()?;
            wire.send(statement, values.to_vec());
            wire.flush()
        })?;
        usize::try_from(count).map_err(StoreError::corrupt)
    }

    fn send(&mut self, sql: &str, values: &[Value], about: About<'_>) -> Result<(), StoreError> {
        if self.access == Access::Read {
            return self.execute(sql, values).map(drop);
        }
        let (row, over) = (about.row.map(str::to_owned), about.over.map(str::to_owned));
        self.unheard.push(Change { sql: sql.to_owned(), values: values.to_vec(), row, over });
        Ok(())
    }

    fn each(&mut self, sql: &str, values: &[Value], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let given = Cell::new(false);
        self.run(&given, |session| {
            let statement = session.wire()?.prepared(sql, values)?;
            session.catch_up()?;
            session.wire()?.each(&statement, values, &mut |row| {
                given.set(true);
                each(row)
            })
        })
    }

    fn all(&mut self, asked: &[Ask], last: bool) -> Result<Vec<Vec<Row>>, StoreError> {
        let (mut found, order) = self.run(&Cell::new(false), |session| {
            let (questions, order) = session.wire()?.questions(asked)?;
            let mut items: Vec<_> = questions.into_iter().map(Asked::Question).collect();
            let ends = last && session.access == Access::Read;
            // One statement is a snapshot by itself.
            if ends && session.unsaid && session.role.is_none() && items.len() == 1 {
                return Ok((session.wire()?.all(&items)?, order));
            }
            session.catch_up()?;
            if ends {
                items.push(Asked::Batch("COMMIT".into()));
            }
            let found = session.wire()?.all(&items)?;
            session.unsaid = ends;
            Ok((found, order))
        })?;
        Ok(order.into_iter().map(|place| std::mem::take(&mut found[place])).collect())
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
