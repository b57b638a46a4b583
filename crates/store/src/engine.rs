//! The store as its users hold it: writes that share commits ([`crate::group`]), a few readers, and who hears of a commit.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use slipway_model::{AccountId, Change, PipelineId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot};

use crate::group::{Answer, Job, Undo, Work, write_loop};
use crate::postgres::Listener;
use crate::services::Service;
use crate::session::{Access, Ask, Session};
use crate::{Database, DatabaseUrl, StoreError, Tx, postgres, sqlite};

/// Beyond this a slow listener is told that it missed something.
const ANNOUNCEMENTS: usize = 1024;

/// Said after each commit that changed something worth waking for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Committed {
    pub changes: Vec<Change>,
    pub facts: bool,
    /// Commits of other processes may have gone unheard: whoever waits looks again.
    #[serde(default)]
    pub missed: bool,
    /// Absent when it is not known: a process of an older version said it, or nobody heard it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
    /// Another process made it.
    #[serde(skip)]
    pub elsewhere: bool,
}

/// Accounts in which something happened that many wait for: with this, those of other accounts sleep on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Touched {
    /// A build may have become free to be taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<AccountId>,
    /// Those of them in which nothing else moved than that these pipelines have more builds that wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrived: Vec<(AccountId, Vec<PipelineId>)>,
    /// A repository was pushed to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pushes: Vec<AccountId>,
    /// A runner was asked for a call inside of its network, or has answered one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errands: Vec<AccountId>,
}

impl Touched {
    fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.pushes.is_empty() && self.errands.is_empty()
    }

    /// Any build of the account may have become free to be taken.
    pub(crate) fn queue_moved(&mut self, account: AccountId) {
        note(&mut self.queues, account);
        self.arrived.retain(|(of, _)| *of != account);
    }

    /// A build of this pipeline waits that was not there.
    pub(crate) fn build_arrived(&mut self, account: AccountId, pipeline: PipelineId) {
        if !self.queues.contains(&account) {
            self.queues.push(account);
            self.arrived.push((account, vec![pipeline]));
        } else if let Some((_, known)) = self.arrived.iter_mut().find(|(of, _)| *of == account)
            && !known.contains(&pipeline)
        {
            known.push(pipeline);
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        for account in other.queues {
            match other.arrived.iter().find(|(of, _)| *of == account) {
                Some((_, pipelines)) => {
                    pipelines.iter().for_each(|&pipeline| self.build_arrived(account, pipeline));
                }
                None => self.queue_moved(account),
            }
        }
        for account in other.pushes {
            note(&mut self.pushes, account);
        }
        for account in other.errands {
            note(&mut self.errands, account);
        }
    }
}

pub(crate) fn note(accounts: &mut Vec<AccountId>, account: AccountId) {
    if !accounts.contains(&account) {
        accounts.push(account);
    }
}

impl Committed {
    pub(crate) fn is_news(&self) -> bool {
        self.facts
            || self.missed
            || !self.changes.is_empty()
            || self.touched.as_ref().is_some_and(|touched| !touched.is_empty())
    }

    /// Whether a build of the account may have become free to be taken.
    pub fn moved_queue(&self, account: AccountId) -> bool {
        self.touched.as_ref().map_or(self.missed || self.facts, |touched| touched.queues.contains(&account))
    }

    /// Pipelines of the account that have more builds that wait, where nothing else has moved in its queue.
    pub fn only_arrived(&self, account: AccountId) -> Option<&[PipelineId]> {
        let arrived = &self.touched.as_ref()?.arrived;
        arrived.iter().find(|(of, _)| *of == account).map(|(_, pipelines)| pipelines.as_slice())
    }

    /// Whether a runner of the account may have been asked for a call, or may have answered one.
    pub fn moved_errands(&self, account: AccountId) -> bool {
        self.touched.as_ref().map_or(self.missed, |touched| touched.errands.contains(&account))
    }

    /// Whether somebody may have pushed to a repository of the account.
    pub fn pushed(&self, account: AccountId) -> bool {
        self.touched.as_ref().map_or(self.missed || self.facts, |touched| touched.pushes.contains(&account))
    }
}

#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    service: Option<Service>,
}

struct Inner {
    database: Database,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    readers: Mutex<Vec<Box<dyn Session>>>,
    permits: Arc<Semaphore>,
    committed: broadcast::Sender<Committed>,
    thread: Mutex<Option<JoinHandle<()>>>,
    listener: Mutex<Option<Listener>>,
    quiet_logs: Arc<AtomicBool>,
    waited: Arc<Waited>,
    traffic: Arc<postgres::Traffic>,
    _lock: Option<std::fs::File>,
}

/// How long writes waited for their turn.
#[derive(Default)]
struct Waited {
    writes: AtomicU64,
    micros: AtomicU64,
    waiting: AtomicU64,
}

/// For operators: where the time of writes goes, and how many connections are open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub writes: u64,
    /// All of them together, from being asked for to having the database to themselves.
    pub waited_micros: u64,
    /// Not yet begun.
    pub waiting: u64,
    /// To PostgreSQL, of this process.
    pub connections: u64,
    /// How often this store waited for an answer of PostgreSQL.
    pub round_trips: u64,
    /// How many statements it sent there, each a message and an answer.
    pub statements: u64,
}

impl Store {
    /// Opens or makes `folder/slipway.db`, brings the schema up to date and takes the database for this process alone.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let lock = sqlite::lock(folder)?;
        let (writer, readers) = sqlite::open(folder)?;
        let mut inner = Inner::new(Database::Sqlite, readers);
        inner._lock = Some(lock);
        Ok(inner.started(writer))
    }

    /// Opens what the address names. PostgreSQL may be used by any number of processes at once.
    pub fn connect(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let address = match url {
            DatabaseUrl::Sqlite(folder) => return Self::open(folder),
            DatabaseUrl::Postgres(address) => address,
        };
        let mut inner = Inner::new(Database::Postgres, Vec::new());
        let (address, traffic) = address.counted();
        inner.traffic = traffic;
        let address = &address;
        let (heard, quiet) = (inner.committed.clone(), inner.quiet_logs.clone());
        let (writer, readers, listener) = on_a_thread(|| postgres::open(address, heard, quiet))?;
        inner.permits.add_permits(readers.len());
        inner.readers = Mutex::new(readers);
        inner.listener = Mutex::new(Some(listener));
        Ok(inner.started(writer))
    }

    /// For an administrator's command that changes what is there, and must not be taken for a process that serves.
    pub fn connect_beside(url: &DatabaseUrl) -> Result<Self, StoreError> {
        match url {
            DatabaseUrl::Sqlite(folder) => Self::open(folder),
            DatabaseUrl::Postgres(address) => {
                Self::connect(&DatabaseUrl::Postgres(Box::new(postgres::beside(address))))
            }
        }
    }

    /// Whether processes of the platform use the database now. On SQLite the lock on its file has said so before.
    pub async fn is_served(&self) -> Result<bool, StoreError> {
        match self.database() {
            Database::Sqlite => Ok(false),
            Database::Postgres => Ok(self.read(postgres::serving).await? > 0),
        }
    }

    /// The same as [`Self::read`] where nothing is asynchronous yet: at the start of a process.
    pub fn read_at_start<T: Send>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        on_a_thread(|| {
            let session = self.inner.readers.lock().expect("not poisoned").pop();
            let mut session = session.ok_or(StoreError::Closed)?;
            let outcome = look(&mut *session, None, work);
            session.end_read();
            self.inner.readers.lock().expect("not poisoned").push(session);
            outcome
        })
    }

    /// Reads only, beside whoever uses the database now: for backups. Writes answer [`StoreError::Closed`].
    pub fn connect_to_read(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let (database, readers) = match url {
            DatabaseUrl::Sqlite(folder) => (Database::Sqlite, sqlite::open_to_read(folder)?),
            DatabaseUrl::Postgres(address) => {
                (Database::Postgres, on_a_thread(|| postgres::open_to_read(address))?)
            }
        };
        Ok(Self { inner: Arc::new(Inner::new(database, readers)), service: None })
    }

    /// The same store with one service's rights: on PostgreSQL the database refuses what is not its own.
    pub fn acting_as(&self, service: Service) -> Self {
        Self { inner: self.inner.clone(), service: Some(service) }
    }

    pub fn database(&self) -> Database {
        self.inner.database
    }

    pub fn stats(&self) -> Stats {
        let waited = &self.inner.waited;
        Stats {
            writes: waited.writes.load(Ordering::Relaxed),
            waited_micros: waited.micros.load(Ordering::Relaxed),
            waiting: waited.waiting.load(Ordering::Relaxed),
            connections: postgres::connections(),
            round_trips: self.inner.traffic.trips.load(Ordering::Relaxed),
            statements: self.inner.traffic.statements.load(Ordering::Relaxed),
        }
    }

    /// Commits of this process, and on PostgreSQL of all others.
    pub fn subscribe(&self) -> broadcast::Receiver<Committed> {
        self.inner.committed.subscribe()
    }

    /// Wakes whoever waits here for a commit that another process made and told by another way.
    pub fn announce(&self, committed: Committed) {
        if committed.is_news() {
            // Nobody listening is fine.
            let _ = self.inner.committed.send(Committed { elsewhere: true, ..committed });
        }
    }

    /// From now on other processes are not told by the database that logs grow; the caller tells them.
    pub fn tell_logs_elsewhere(&self) {
        self.inner.quiet_logs.store(true, Ordering::Relaxed);
    }

    /// Runs `work` in a transaction; the answer comes after the commit is on disk. A statement that fails
    /// ends the transaction, also when `work` goes on.
    pub async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.write_asking(Vec::new(), work).await
    }

    /// The same of work whose first questions are known before: those of all writes that wait are asked at once, on PostgreSQL
    /// in one round trip. Answers that another write made untrue are asked for again, by the work itself.
    pub async fn write_asking<T, F>(&self, asks: Vec<Ask>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        // All ways of answering share the sender; only one of them is ever called.
        let sender = Arc::new(Mutex::new(Some(sender)));
        let refused = sender.clone();
        let (waited, asked) = (self.inner.waited.clone(), Instant::now());
        waited.waiting.fetch_add(1, Ordering::Relaxed);
        let unasked = waited.clone();
        let work: Work = Box::new(move |tx| {
            waited.waiting.fetch_sub(1, Ordering::Relaxed);
            waited.writes.fetch_add(1, Ordering::Relaxed);
            let before = asked.elapsed();
            let result = work(tx).and_then(|value| tx.whole().map(|()| value));
            let micros = u64::try_from((before + tx.begun_after()).as_micros()).unwrap_or(u64::MAX);
            waited.micros.fetch_add(micros, Ordering::Relaxed);
            let keep = result.is_ok();
            let other = sender.clone();
            let answer: Answer = Box::new(move || reply(&sender, result));
            let undo: Undo = Box::new(move |error| reply(&other, Err(error)));
            (keep, answer, undo)
        });
        let not_begun = unasked.clone();
        let refuse: Undo = Box::new(move |error| {
            not_begun.waiting.fetch_sub(1, Ordering::Relaxed);
            reply(&refused, Err(error));
        });
        let jobs = self.inner.jobs.lock().expect("not poisoned").clone();
        let sent = jobs.and_then(|jobs| jobs.send(Job { service: self.service, asks, work, refuse }).ok());
        if sent.is_none() {
            unasked.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(StoreError::Closed);
        }
        receiver.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs `work` on a snapshot, beside the writer.
    pub async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let (inner, service) = (self.inner.clone(), self.service);
        let permit = inner.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let session = inner.readers.lock().expect("not poisoned").pop().ok_or(StoreError::Closed)?;
        // Gives the session back also when `work` panics, or when nobody waits for the answer any more.
        let mut held = Held { inner, session: Some(session), _permit: permit };
        let (sender, receiver) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let session = held.session.as_mut().expect("held until dropped");
            let result = look(&mut **session, service, work);
            // Nobody waits for the end of a snapshot, which on PostgreSQL is a round trip.
            let _ = sender.send(result);
            session.end_read();
        });
        receiver.await.map_err(|_| StoreError::Closed)?
    }

    /// Answers what is queued, then closes. Later calls get [`StoreError::Closed`].
    pub fn close(&self) {
        drop(self.inner.jobs.lock().expect("not poisoned").take());
        if let Some(thread) = self.inner.thread.lock().expect("not poisoned").take() {
            let _ = thread.join();
        }
        drop(self.inner.listener.lock().expect("not poisoned").take());
    }
}

/// The synchronous driver refuses to run where tasks run.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join()).expect("opening a database does not panic")
}

impl Inner {
    fn new(database: Database, readers: Vec<Box<dyn Session>>) -> Self {
        Self {
            database,
            jobs: Mutex::new(None),
            permits: Arc::new(Semaphore::new(readers.len())),
            readers: Mutex::new(readers),
            committed: broadcast::channel(ANNOUNCEMENTS).0,
            thread: Mutex::new(None),
            listener: Mutex::new(None),
            quiet_logs: Arc::default(),
            waited: Arc::default(),
            traffic: Arc::default(),
            _lock: None,
        }
    }

    fn started(mut self, mut writer: Box<dyn Session>) -> Store {
        let (jobs, queue) = mpsc::channel();
        let announce = self.committed.clone();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || write_loop(&mut *writer, &queue, &announce))
            .expect("a thread can be started");
        self.jobs = Mutex::new(Some(jobs));
        self.thread = Mutex::new(Some(thread));
        Store { inner: Arc::new(self), service: None }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let readers = std::mem::take(self.readers.get_mut().expect("not poisoned"));
        let listener = self.listener.get_mut().expect("not poisoned").take();
        // Closing a connection waits for a moment, and the last user may be a task.
        std::thread::spawn(move || drop((readers, listener)));
    }
}

fn reply<T>(sender: &Mutex<Option<oneshot::Sender<T>>>, value: T) {
    if let Some(sender) = sender.lock().expect("not poisoned").take() {
        let _ = sender.send(value);
    }
}

struct Held {
    inner: Arc<Inner>,
    session: Option<Box<dyn Session>>,
    /// Let go after the session is back.
    _permit: OwnedSemaphorePermit,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mut session) = self.session.take() {
            if std::thread::panicking() {
                session.rollback();
            }
            self.inner.readers.lock().expect("not poisoned").push(session);
        }
    }
}

/// Leaves the snapshot open, for the caller to end.
fn look<T>(
    session: &mut dyn Session,
    service: Option<Service>,
    work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    session.begin(Access::Read)?;
    session.start_job(service)?;
    work(&mut Tx::new(session))
}
