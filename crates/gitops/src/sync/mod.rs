//! The sync engine: a comparison and what was done so far become a plan.
//!
//! The shell calls [`plan`], writes `results` down, runs the steps in `ready`, [records](SyncProgress::record) each
//! and calls [`plan`] again with a fresh comparison, until there is an outcome. Everything the next call needs is in
//! `status.operationState` and the live objects, so a shell that was killed goes on where it stopped.
//!
//! A hook is made with a finalizer and the id of its operation on it: it cannot vanish before its end was written
//! down, and a re-plan knows it again, so that it runs once per operation.

mod check;
mod explain;
mod observe;
mod plan;
mod progress;
mod steps;
mod tasks;

pub use check::check;
pub use explain::explain;
pub use plan::plan;
pub use progress::{StepResult, SyncProgress};

use crate::hooks::SyncPhase;
use crate::object::{Manifest, ResourceKey};
use crate::options::Propagation;
use jiff::Timestamp;
use slipway_crd::{OperationPhase, ResourceResult};

/// What is to be done, what may be done now, what is waited for, and whether it is over.
#[derive(Debug, Clone)]
pub struct SyncPlan {
    /// All steps that are left, in order.
    pub steps: Vec<PlannedStep>,
    /// Steps that may run now. Batches run in order; the steps of one batch may run at once.
    pub ready: Vec<usize>,
    /// Steps to try with a dry run before the first real one; if one fails nothing is applied.
    pub dry_run: Vec<usize>,
    pub waiting: Vec<Waiting>,
    /// `None` while it goes on.
    pub outcome: Option<Outcome>,
    /// The results with what was observed since; to be written down before a step runs.
    pub results: Vec<ResourceResult>,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStep {
    pub phase: SyncPhase,
    pub wave: i64,
    /// Steps of one batch may run at once.
    pub batch: u32,
    pub key: ResourceKey,
    pub version: String,
    pub action: Action,
    /// A sentence for people.
    pub why: String,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Make the object so. `force` allows deleting and making it again; `validate` asks for schema validation.
    Apply { object: Manifest, how: ApplyHow, force: bool, validate: bool },
    /// Delete an object that is not desired any more, if its UID is still this one. `own_wave` is the wave that
    /// stands on it; prunes run in mirrored waves.
    Prune { key: ResourceKey, uid: String, propagation: Propagation, own_wave: i64 },
    /// Make a hook. Its end is seen in the live object.
    RunHook { object: Manifest, how: ApplyHow, force: bool, validate: bool },
    /// Take our finalizer off a hook whose end is written down.
    ReleaseHook { key: ResourceKey, uid: String },
    /// Take our finalizer off a hook and delete it.
    DeleteHook { key: ResourceKey, uid: String, why: HookDeletion },
}

/// How an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyHow {
    /// Three-way, with the last-applied annotation.
    ClientSide,
    /// As field manager `argocd-controller`, conflicts forced.
    ServerSide,
    /// PUT over what is there.
    Replace,
    Create,
}

/// Why a hook is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookDeletion {
    BeforeHookCreation,
    HookSucceeded,
    HookFailed,
    Terminated,
}

/// Something that must happen first.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    pub on: WaitingOn,
    /// For `operationState.message`, in the words of upstream.
    pub sentence: String,
}

impl Waiting {
    /// One sentence for people.
    pub fn plain(&self) -> String {
        let named = |keys: &[ResourceKey], noun: &str| {
            let first = keys.first().map(|key| format!("{}/{}", key.kind, key.name)).unwrap_or_default();
            match keys.len() {
                0 | 1 => first,
                n => format!("{first} and {} more {noun}", n - 1),
            }
        };
        match &self.on {
            WaitingOn::Health(keys) => format!("Waiting for {} to become healthy", named(keys, "resources")),
            WaitingOn::Hook(keys) => format!("Waiting for hook {} to finish", named(keys, "hooks")),
            WaitingOn::Deletion(keys) => format!("Waiting for {} to be deleted", named(keys, "resources")),
            WaitingOn::Confirmation(keys) => {
                format!("Waiting for confirmation before pruning {}", named(keys, "resources"))
            }
            WaitingOn::Time(_) => "Waiting for controllers to observe the applied changes".into(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum WaitingOn {
    Health(Vec<ResourceKey>),
    Hook(Vec<ResourceKey>),
    Deletion(Vec<ResourceKey>),
    Confirmation(Vec<ResourceKey>),
    /// Nothing to watch for: ask again at this time.
    Time(Timestamp),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomePhase {
    Succeeded,
    Failed,
    Error,
}

impl OutcomePhase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Error => "Error",
        }
    }
}

impl From<OutcomePhase> for OperationPhase {
    fn from(phase: OutcomePhase) -> Self {
        match phase {
            OutcomePhase::Succeeded => Self::Succeeded,
            OutcomePhase::Failed => Self::Failed,
            OutcomePhase::Error => Self::Error,
        }
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub phase: OutcomePhase,
    pub message: String,
}

impl SyncPlan {
    /// `operationState.phase` and `.message` as of this plan.
    pub fn phase_and_message(&self) -> (&'static str, String) {
        match &self.outcome {
            Some(outcome) => (outcome.phase.as_str(), outcome.message.clone()),
            None => (
                "Running",
                self.waiting.first().map_or_else(|| "sync is running".to_string(), |w| w.sentence.clone()),
            ),
        }
    }

    /// The steps that may run now.
    pub fn ready_steps(&self) -> impl Iterator<Item = &PlannedStep> {
        self.ready.iter().map(|index| &self.steps[*index])
    }
}
