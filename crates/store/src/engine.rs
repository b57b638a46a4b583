//! SQLite, one writer thread with group commit, a few readers.
//!
//! The writer takes all jobs that wait, runs each in a savepoint inside one `BEGIN IMMEDIATE`, commits
//! once with `synchronous=FULL`, and only then answers. A job that fails is rolled back alone.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use slipway_model::Change;
use tokio::sync::{Semaphore, broadcast, oneshot};

use crate::{StoreError, Tx};

const READERS: usize = 4;
/// Bounds how long the first of a group waits for its answer.
const GROUP_MAX: usize = 256;
const SCHEMA: &[&str] =
    &[include_str!("../migrations/0001_skeleton.sql"), include_str!("../migrations/0002_control_plane.sql")];

/// Said after each commit that changed something worth waking for.
#[derive(Debug, Clone, Default)]
pub struct Committed {
    pub changes: Vec<Change>,
    pub facts: bool,
}

type Undo = Box<dyn FnOnce(StoreError) + Send>;
type Answer = Box<dyn FnOnce() + Send>;
/// Runs in the group's transaction; gives back how to answer after commit, and how if the commit fails.
type Job = Box<dyn FnOnce(&mut Tx<'_>) -> (bool, Answer, Undo) + Send>;

#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    readers: Mutex<Vec<rusqlite::Connection>>,
    permits: Semaphore,
    committed: broadcast::Sender<Committed>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens or makes `folder/slipway.db`, brings the schema up to date and takes the database for this process alone.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("slipway.db");
        let mut writer = connect(&path)?;
        migrate(&mut writer)?;
        let readers = (0..READERS).map(|_| connect(&path)).collect::<Result<_, _>>()?;
        let (jobs, queue) = mpsc::channel();
        let (committed, _) = broadcast::channel(1024);
        let announce = committed.clone();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || write_loop(&writer, &queue, &announce))
            .expect("a thread can be started");
        Ok(Self {
            inner: Arc::new(Inner {
                jobs: Mutex::new(Some(jobs)),
                readers: Mutex::new(readers),
                permits: Semaphore::new(READERS),
                committed,
                thread: Mutex::new(Some(thread)),
            }),
        })
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Committed> {
        self.inner.committed.subscribe()
    }

    /// Runs `work` in a transaction; the answer comes after the commit is on disk.
    pub async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |tx| {
            let result = work(tx);
            let keep = result.is_ok();
            // Both ways of answering share the sender; only one of them is ever called.
            let sender = Arc::new(Mutex::new(Some(sender)));
            let other = sender.clone();
            let answer: Answer = Box::new(move || {
                if let Some(sender) = sender.lock().expect("not poisoned").take() {
                    let _ = sender.send(result);
                }
            });
            let undo: Undo = Box::new(move |error| {
                if let Some(sender) = other.lock().expect("not poisoned").take() {
                    let _ = sender.send(Err(error));
                }
            });
            (keep, answer, undo)
        });
        let jobs = self.inner.jobs.lock().expect("not poisoned").clone().ok_or(StoreError::Closed)?;
        jobs.send(job).map_err(|_| StoreError::Closed)?;
        receiver.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs `work` on a snapshot, beside the writer.
    pub async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let inner = self.inner.clone();
        let permit = inner.permits.acquire().await.map_err(|_| StoreError::Closed)?;
        let connection = inner.readers.lock().expect("not poisoned").pop().ok_or(StoreError::Closed)?;
        let (result, connection) = tokio::task::spawn_blocking(move || {
            let result = read_snapshot(&connection, work);
            (result, connection)
        })
        .await
        .map_err(|_| StoreError::Closed)?;
        inner.readers.lock().expect("not poisoned").push(connection);
        drop(permit);
        result
    }

    /// Answers what is queued, then closes. Later calls get [`StoreError::Closed`].
    pub fn close(&self) {
        drop(self.inner.jobs.lock().expect("not poisoned").take());
        if let Some(thread) = self.inner.thread.lock().expect("not poisoned").take() {
            let _ = thread.join();
        }
    }
}

fn read_snapshot<T>(
    connection: &rusqlite::Connection,
    work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.execute_batch("BEGIN")?;
    let result = work(&mut Tx::new(connection));
    connection.execute_batch("COMMIT")?;
    result
}

fn connect(path: &PathBuf) -> Result<rusqlite::Connection, StoreError> {
    let connection = rusqlite::Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.set_prepared_statement_cache_capacity(256);
    connection.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cache_size=-4096;",
    )?;
    Ok(connection)
}

fn migrate(connection: &mut rusqlite::Connection) -> Result<(), StoreError> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let known = i64::try_from(SCHEMA.len()).expect("few migrations");
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for (index, sql) in SCHEMA.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        let tx = connection.transaction()?;
        tx.execute_batch(sql)?;
        tx.execute_batch(&format!("PRAGMA user_version = {}", index + 1))?;
        tx.commit()?;
    }
    Ok(())
}

fn write_loop(
    connection: &rusqlite::Connection,
    queue: &mpsc::Receiver<Job>,
    announce: &broadcast::Sender<Committed>,
) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        while group.len() < GROUP_MAX
            && let Ok(job) = queue.try_recv()
        {
            group.push(job);
        }
        run_group(connection, group, announce);
    }
}

fn run_group(connection: &rusqlite::Connection, group: Vec<Job>, announce: &broadcast::Sender<Committed>) {
    let begun = connection.execute_batch("BEGIN IMMEDIATE");
    let mut committed = Committed::default();
    let mut answers = Vec::with_capacity(group.len());
    for job in group {
        let _ = connection.execute_batch("SAVEPOINT job");
        let mut tx = Tx::new(connection);
        let (keep, answer, undo) = job(&mut tx);
        let (changes, facts) = (tx.changes, tx.facts);
        let released = if keep { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
        let _ = connection.execute_batch(released);
        if keep {
            committed.facts |= facts;
            for change in changes {
                if !committed.changes.contains(&change) {
                    committed.changes.push(change);
                }
            }
        }
        answers.push((answer, undo));
    }
    match begun.and_then(|()| connection.execute_batch("COMMIT")) {
        Ok(()) => {
            answers.into_iter().for_each(|(answer, _)| answer());
            if committed.facts || !committed.changes.is_empty() {
                // Nobody listening is fine.
                let _ = announce.send(committed);
            }
        }
        Err(error) => {
            let _ = connection.execute_batch("ROLLBACK");
            tracing::error!(%error, "A commit failed; every write in it is refused.");
            for (_, undo) in answers {
                undo(StoreError::Disk(rusqlite::Error::ToSqlConversionFailure(error.to_string().into())));
            }
        }
    }
}
