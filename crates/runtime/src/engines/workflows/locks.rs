//! Workflows that want something for themselves: one of them is planned and written at a time, and those that wait are woken when another one
//! gives something back.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use slipway_crd::names::GROUP;
use slipway_crd::workflow::{Workflow, WorkflowStatus};
use slipway_reconcile::{Key, Task, Wake};
use slipway_workflow::plan::Library;
use slipway_workflow::plan::locks::{Locks, has_any};

use super::{WORKFLOW, Workflows};

pub(super) struct Locking {
    /// Held from the look at all others until the own status is written.
    pub(super) turn: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
    task: Arc<Task>,
}

/// Who has something, and who waits.
#[derive(Default)]
struct Known {
    holders: BTreeSet<Key>,
    waiting: BTreeSet<Key>,
}

impl Locking {
    pub(super) fn new(task: Arc<Task>) -> Self {
        Self { turn: tokio::sync::Mutex::default(), known: Mutex::default(), task }
    }

    /// After the status was written. Whoever waits looks again when something was given back.
    pub(super) fn wrote(&self, key: &Key, before: &WorkflowStatus, after: &WorkflowStatus) {
        if before.synchronization.is_none() && after.synchronization.is_none() {
            return;
        }
        let has = |status: &WorkflowStatus, word: &str| {
            let of = status.synchronization.as_ref();
            of.is_some_and(|of| ["mutex", "semaphore"].iter().any(|kind| of[*kind][word].is_array()))
        };
        let mut known = self.known.lock().expect("no panic while locked");
        for (set, word) in [(0, "holding"), (1, "waiting")] {
            let set = if set == 0 { &mut known.holders } else { &mut known.waiting };
            if has(after, word) {
                set.insert(key.clone());
            } else {
                set.remove(key);
            }
        }
        drop(known);
        if before.synchronization != after.synchronization {
            self.wake(key);
        }
    }

    /// The workflow is not there any more.
    pub(super) fn gone(&self, key: &Key) {
        let mut known = self.known.lock().expect("no panic while locked");
        let (held, waited) = (known.holders.remove(key), known.waiting.remove(key));
        drop(known);
        if held || waited {
            self.wake(key);
        }
    }

    fn wake(&self, but: &Key) {
        let waiting = self.known.lock().expect("no panic while locked").waiting.clone();
        for key in waiting.into_iter().filter(|key| key != but) {
            self.task.wake(key, Wake::STATE);
        }
    }
}

/// Whether a workflow, or a template that it names, wants something for itself.
pub(super) fn wants(workflow: &Workflow, library: &Library) -> bool {
    let of = |spec: &slipway_crd::workflow::WorkflowSpec| {
        spec.synchronization.is_some()
            || spec.template_defaults.iter().any(|template| template.synchronization.is_some())
            || spec.templates.iter().any(|template| {
                let steps = template.steps.iter().flatten().flatten();
                let tasks = template.dag.iter().flat_map(|dag| &dag.tasks);
                let inline = |inline: &Value| !inline["synchronization"].is_null();
                template.synchronization.is_some()
                    || steps.chain(tasks).filter_map(|step| step.inline.as_ref()).any(inline)
            })
    };
    workflow.status.synchronization.is_some()
        || of(&workflow.spec)
        || workflow.status.stored_workflow_template_spec.as_ref().is_some_and(of)
        || library.specs.values().any(of)
}

impl Workflows {
    /// What all others have and wait for, out of the copy: it has what we wrote ourselves at once.
    pub(super) fn locks(&self, key: &Key) -> Locks {
        let mut locks = Locks::default();
        for live in self.cluster.live_of_kind(GROUP, WORKFLOW.kind) {
            if live.key.namespace == key.namespace
                && live.key.name != key.name
                && let Some(object) = live.object()
                && has_any(&object)
            {
                locks.add(&object);
            }
        }
        locks
    }
}
