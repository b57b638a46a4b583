//! How an engine fares, for operators: an error stays shown until the object was reconciled without one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::reconciler::Reconciler;
use crate::{Key, Kind, Queue, Wake};

/// Failing objects that a status names; the others are counted.
const NAMED_MAX: usize = 20;

/// The queue of one engine and what is known of its work. Whoever has news for the engine holds one of these.
pub struct Task {
    pub name: &'static str,
    pub kind: Kind,
    fenced: bool,
    queue: Queue,
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    runs: u64,
    failures: u64,
    panics: u64,
    last_run: Option<Timestamp>,
    last_took: Duration,
    failing: BTreeMap<Key, Failing>,
}

/// An object whose last reconcile failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    pub object: String,
    pub error: String,
    /// In a row.
    pub failures: u32,
    pub since: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    pub engine: &'static str,
    /// What it reconciles.
    pub kind: String,
    /// Objects that wait.
    pub depth: usize,
    /// Objects that are being reconciled.
    pub running: usize,
    /// Objects that are due at a time.
    pub timers: usize,
    pub runs: u64,
    pub failures: u64,
    pub panics: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<Timestamp>,
    pub last_took_ms: u64,
    /// How many objects failed when they were last reconciled.
    pub failing: usize,
    /// The first of them.
    pub errors: Vec<Failing>,
}

impl Task {
    fn of<R: Reconciler>() -> Self {
        let (queue, work) = Default::default();
        Self { name: R::NAME, kind: R::KIND, fenced: R::FENCED, queue, work }
    }

    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    pub fn wake(&self, key: Key, wake: Wake) {
        self.queue.add(key, wake);
    }

    /// True when no fenced work is under way on one of these.
    pub(crate) fn is_idle(&self, of: &dyn Fn(&Key) -> bool) -> bool {
        !self.fenced || self.queue.is_idle(of)
    }

    /// Records how a reconcile ended; gives how often the key failed in a row.
    pub(crate) fn record(&self, key: &Key, took: Duration, error: Option<&str>) -> u32 {
        let now = Timestamp::now();
        let mut work = self.work.lock().expect("no panic while locked");
        work.runs += 1;
        work.last_run = Some(now);
        work.last_took = took;
        let Some(error) = error else {
            work.failing.remove(key);
            return 0;
        };
        work.failures += 1;
        let fresh = || Failing { object: key.to_string(), error: String::new(), failures: 0, since: now };
        let failing = work.failing.entry(key.clone()).or_insert_with(fresh);
        failing.failures = failing.failures.saturating_add(1);
        error.clone_into(&mut failing.error);
        failing.failures
    }

    pub(crate) fn record_panic(&self) {
        self.work.lock().expect("no panic while locked").panics += 1;
    }

    pub fn status(&self) -> TaskStatus {
        let (depth, running, timers) = self.queue.counts();
        let work = self.work.lock().expect("no panic while locked");
        TaskStatus {
            engine: self.name,
            kind: self.kind.to_string(),
            depth,
            running,
            timers,
            runs: work.runs,
            failures: work.failures,
            panics: work.panics,
            last_run: work.last_run,
            last_took_ms: u64::try_from(work.last_took.as_millis()).unwrap_or(u64::MAX),
            failing: work.failing.len(),
            errors: work.failing.values().take(NAMED_MAX).cloned().collect(),
        }
    }
}

/// The tasks of a process by the names of their engines. Asking for one makes it, so that an engine can be woken by
/// somebody who was there before it.
#[derive(Default)]
pub struct Tasks(RwLock<BTreeMap<&'static str, Arc<Task>>>);

impl Tasks {
    pub fn of<R: Reconciler>(&self) -> Arc<Task> {
        let mut tasks = self.0.write().expect("no panic while locked");
        tasks.entry(R::NAME).or_insert_with(|| Arc::new(Task::of::<R>())).clone()
    }

    pub fn status(&self) -> Vec<TaskStatus> {
        self.0.read().expect("no panic while locked").values().map(|task| task.status()).collect()
    }
}
