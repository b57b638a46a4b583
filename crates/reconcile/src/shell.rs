//! The loops: changes in, reconciles out. Written once for all engines.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slipway_cluster::{Change, fenced, managed};
use slipway_model::Next;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::outcome::{Requeue, Stop};
use crate::reconciler::{Reconciler, Watch};
use crate::shards::Shards;
use crate::status::{Task, Tasks};
use crate::{Key, Wake};

/// A reconcile that panicked met a defect of ours: it is repeated, but not often.
const AFTER_PANIC: Duration = Duration::from_secs(30);

/// The engines of a process, one row each.
pub struct Shell {
    tasks: Arc<Tasks>,
    shards: Arc<Shards>,
    rows: Vec<Arc<dyn Row>>,
}

/// An engine without its type.
trait Row: Send + Sync {
    fn task(&self) -> &Task;
    fn keys(&self) -> Vec<Key>;
    fn dispatch(&self, change: &Change);
    fn workers(self: Arc<Self>) -> Vec<Pin<Box<dyn Future<Output = ()> + Send>>>;
}

impl Shell {
    pub fn new(tasks: Arc<Tasks>, shards: Arc<Shards>) -> Self {
        Self { tasks, shards, rows: Vec::new() }
    }

    /// Adds an engine; it begins with [`Self::start`].
    #[must_use]
    pub fn with<R: Reconciler>(mut self, engine: R) -> Self {
        let controller = Controller {
            watches: R::watches(),
            engine: Arc::new(engine),
            task: self.tasks.of::<R>(),
            shards: self.shards.clone(),
        };
        self.rows.push(Arc::new(controller));
        self
    }

    /// Wakes everything that is there and starts the workers.
    pub fn start(&self, tasks: &mut JoinSet<()>) {
        self.wake_all(&|_| true);
        for row in &self.rows {
            for worker in row.clone().workers() {
                tasks.spawn(worker);
            }
        }
    }

    /// Wakes whoever wants to hear of the change.
    pub fn dispatch(&self, change: &Change) {
        self.rows.iter().for_each(|row| row.dispatch(change));
    }

    /// Wakes the objects of all engines that this is true of.
    pub fn wake_all(&self, of: &dyn Fn(&Key) -> bool) {
        for row in &self.rows {
            for key in row.keys().into_iter().filter(of) {
                row.task().wake(key, Wake::STATE);
            }
        }
    }

    /// True when nobody works on one of these under a fence.
    pub fn is_idle(&self, of: &dyn Fn(&Key) -> bool) -> bool {
        self.rows.iter().all(|row| row.task().is_idle(of))
    }
}

struct Controller<R: Reconciler> {
    engine: Arc<R>,
    watches: Vec<Watch<R>>,
    task: Arc<Task>,
    shards: Arc<Shards>,
}

impl<R: Reconciler> Row for Controller<R> {
    fn task(&self) -> &Task {
        &self.task
    }

    fn keys(&self) -> Vec<Key> {
        self.engine.keys()
    }

    fn dispatch(&self, change: &Change) {
        for (key, wake) in self.watches.iter().flat_map(|watch| watch.wakes(&self.engine, change)) {
            self.task.wake(key, wake);
        }
    }

    fn workers(self: Arc<Self>) -> Vec<Pin<Box<dyn Future<Output = ()> + Send>>> {
        (0..self.engine.workers().max(1)).map(|_| Box::pin(self.clone().work()) as _).collect()
    }
}

impl<R: Reconciler> Controller<R> {
    async fn work(self: Arc<Self>) {
        loop {
            let (key, wake) = self.task.queue().next().await;
            let began = Instant::now();
            let outcome = self.attempt(&key, wake).await;
            let took = began.elapsed();
            self.settle(&key, wake, took, outcome);
            self.engine.finished(&key, took);
            self.task.queue().done(&key);
        }
    }

    /// One reconcile, on a task of its own: a panic over one object must not end the worker of the others. `None`: it
    /// panicked.
    async fn attempt(&self, key: &Key, wake: Wake) -> Option<Result<Requeue, Stop>> {
        let (engine, of) = (self.engine.clone(), key.clone());
        let is_ours = self.shards.is_ours(key);
        // A reconcile is large: in a box, nobody moves it about on a stack.
        let reconcile = Box::pin(async move {
            if is_ours {
                return engine.reconcile(&of, wake).await;
            }
            engine.released(&of).await;
            Ok(Requeue::Never)
        });
        let reconcile = managed(R::MANAGER, reconcile);
        let running = if R::FENCED {
            tokio::spawn(fenced(self.shards.gate(key), reconcile))
        } else {
            tokio::spawn(reconcile)
        };
        match AbortOnDropHandle::new(running).await {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                tracing::error!(engine = R::NAME, object = %key, %error, "Reconcile panicked; retrying in {} s.", AFTER_PANIC.as_secs());
                None
            }
        }
    }

    /// Records the outcome, and when the key is due again.
    fn settle(&self, key: &Key, wake: Wake, took: Duration, outcome: Option<Result<Requeue, Stop>>) {
        let queue = self.task.queue();
        // Whatever the wake asked for is still to be done after a failure.
        let same = Wake { state: true, ..wake };
        let now = Instant::now();
        match outcome {
            Some(Ok(requeue)) => {
                self.task.record(key, took, None);
                match requeue {
                    Requeue::Unchanged => {}
                    Requeue::Never => queue.clear_timers(key),
                    Requeue::At(at) => {
                        queue.clear_timers(key);
                        queue.add_at(key.clone(), at, Wake::STATE);
                    }
                    Requeue::Within(after) => queue.add_by(key.clone(), now + after, Wake::STATE),
                    Requeue::Again(after) => queue.add_at(key.clone(), now + after, wake),
                }
            }
            Some(Err(Stop::Gone)) => {
                self.task.record(key, took, None);
                queue.clear_timers(key);
            }
            Some(Err(Stop::Changed)) => {
                self.task.record(key, took, None);
                queue.add(key.clone(), same);
            }
            Some(Err(Stop::Fenced)) => {
                tracing::info!(engine = R::NAME, object = %key, "The lease ran out during a reconcile; whoever holds it now goes on.");
                self.task.record(key, took, None);
                queue.add(key.clone(), same);
            }
            Some(Err(Stop::Failed(failure))) => {
                let failures = self.task.record(key, took, Some(&failure.message));
                let delay = R::RETRY.delay(failure.next, failures);
                let person = failure.next == Next::NeedsHuman;
                tracing::warn!(engine = R::NAME, object = %key, error = %failure.message, failures, person, after = ?delay, "Reconcile failed; trying again.");
                queue.add_at(key.clone(), now + delay, same);
            }
            None => {
                self.task.record_panic();
                self.task.record(key, took, Some("the engine panicked; see its log"));
                queue.add_at(key.clone(), now + AFTER_PANIC, Wake::STATE);
            }
        }
    }
}
