//! What an operation has done so far, as `status.operationState` remembers it.

use super::{Action, PlannedStep};
use crate::hooks::SyncPhase;
use crate::object::{self, ResourceKey};
use crate::tree;
use jiff::Timestamp;
use slipway_crd::{OperationPhase, OperationState, ResourceResult, ResultCode};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

/// How far an operation is.
#[derive(Debug, Clone)]
pub struct SyncProgress {
    /// One per operation and attempt: hooks of another id are hooks of the past.
    pub operation_id: String,
    pub started_at: Timestamp,
    pub now: Timestamp,
    /// The revision that is synced; its first seven characters go into names of generated hooks.
    pub revision: String,
    pub results: Vec<ResourceResult>,
    /// A person asked to stop.
    pub terminating: bool,
    /// The dry run passed. In memory only: after a restart it is made again if nothing was applied yet.
    pub dry_run_done: bool,
    /// When a step last changed the cluster. In memory only.
    pub last_change_at: Option<Timestamp>,
    /// Since when this process has known the operation: a restart gives a wave its time anew. In memory only.
    pub watched_since: Timestamp,
    /// Clean-up that failed and is left to people. In memory only.
    pub given_up: BTreeSet<ResourceKey>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepResult {
    /// Done; `message` as kubectl would say it, `uid` of the object if there is one.
    Done {
        message: String,
        uid: String,
    },
    Failed {
        message: String,
    },
}

impl SyncProgress {
    /// A new operation.
    pub fn start(started_at: Timestamp, revision: &str) -> Self {
        Self {
            operation_id: operation_id(started_at, 0),
            started_at,
            now: started_at,
            watched_since: started_at,
            revision: revision.into(),
            results: Vec::new(),
            terminating: false,
            dry_run_done: false,
            last_change_at: None,
            given_up: BTreeSet::new(),
        }
    }

    /// What the Application remembers. An unreadable start counts as now.
    pub fn from_state(state: &OperationState, now: Timestamp) -> Self {
        let started_at = state.started_at.parse().unwrap_or(now);
        let result = state.sync_result.as_ref();
        Self {
            operation_id: operation_id(started_at, state.retry_count),
            now,
            watched_since: now,
            results: result.map(|r| r.resources.clone()).unwrap_or_default(),
            terminating: state.phase == OperationPhase::Terminating,
            ..Self::start(started_at, result.map(|r| r.revision.as_str()).unwrap_or_default())
        }
    }

    /// When something last happened, as far as this process knows.
    pub fn last_step_at(&self) -> Timestamp {
        self.last_change_at.unwrap_or(self.watched_since)
    }

    /// Writes down what became of a step.
    pub fn record(&mut self, step: &PlannedStep, outcome: &StepResult) {
        self.last_change_at = Some(self.now);
        match &step.action {
            Action::ReleaseHook { key, .. } | Action::DeleteHook { key, .. } => {
                // Clean-up never decides how an operation ends.
                if matches!(outcome, StepResult::Failed { .. }) {
                    self.given_up.insert(key.clone());
                }
                return;
            }
            _ => {}
        }
        let result = match (&step.action, outcome) {
            (Action::Prune { own_wave, .. }, StepResult::Done { .. }) => ResourceResult {
                status: ResultCode::Pruned,
                message: "pruned".into(),
                hook_phase: OperationPhase::Succeeded,
                wave: Some(*own_wave),
                ..result_of(step)
            },
            (Action::RunHook { .. }, StepResult::Done { message, uid }) => ResourceResult {
                status: ResultCode::Synced,
                message: message.clone(),
                hook_type: step.phase.as_str().into(),
                hook_phase: OperationPhase::Running,
                uid: uid.clone(),
                ..result_of(step)
            },
            (_, StepResult::Done { message, uid }) => ResourceResult {
                status: ResultCode::Synced,
                message: message.clone(),
                hook_phase: OperationPhase::Running,
                uid: uid.clone(),
                ..result_of(step)
            },
            (action, StepResult::Failed { message }) => ResourceResult {
                status: ResultCode::SyncFailed,
                message: message.clone(),
                hook_type: if matches!(action, Action::RunHook { .. }) {
                    step.phase.as_str().into()
                } else {
                    String::new()
                },
                hook_phase: OperationPhase::Failed,
                ..result_of(step)
            },
        };
        let same = |r: &ResourceResult| {
            (r.name == result.name && r.namespace == result.namespace)
                && (r.kind == result.kind && r.group == result.group)
                && r.hook_type.is_empty() == result.hook_type.is_empty()
                && (r.hook_type.is_empty() || r.sync_phase == result.sync_phase)
        };
        match self.results.iter().position(same) {
            Some(index) => self.results[index] = result,
            None => self.results.push(result),
        }
    }

    /// What a step would do, where trying is all that was asked for.
    pub fn record_dry_run(&mut self, step: &PlannedStep, message: &str) {
        self.record(step, &StepResult::Done { message: format!("{message} (dry run)"), uid: String::new() });
        if let Some(result) = self.results.iter_mut().find(|r| is_of(r, step)) {
            result.hook_phase = OperationPhase::Succeeded;
        }
    }

    /// The dry run of a step failed: nothing will be applied.
    pub fn record_dry_run_failure(&mut self, step: &PlannedStep, message: &str) {
        self.record(step, &StepResult::Failed { message: message.into() });
        if let Some(result) = self.results.iter_mut().find(|r| is_of(r, step)) {
            result.message = format!("{DRY_RUN_PREFIX}{message}");
        }
    }
}

/// How a failed dry run is told from a failed apply after a restart.
pub(super) const DRY_RUN_PREFIX: &str = "dry run: ";

fn operation_id(started_at: Timestamp, attempt: i64) -> String {
    format!("{}#{attempt}", crate::compare::rfc3339(started_at))
}

fn result_of(step: &PlannedStep) -> ResourceResult {
    let images = match &step.action {
        Action::Apply { object, .. } | Action::RunHook { object, .. } => tree::images(object),
        _ => Vec::new(),
    };
    ResourceResult {
        group: step.key.group.clone(),
        version: step.version.clone(),
        kind: step.key.kind.clone(),
        namespace: step.key.namespace.clone(),
        name: step.key.name.clone(),
        sync_phase: step.phase.as_str().into(),
        images,
        ..ResourceResult::default()
    }
}

pub(super) fn key_of(result: &ResourceResult) -> ResourceKey {
    ResourceKey::new(&result.group, &result.kind, &result.namespace, &result.name)
}

fn is_of(result: &ResourceResult, step: &PlannedStep) -> bool {
    key_of(result) == step.key && result.sync_phase == step.phase.as_str()
}

/// Results by object, and for hooks by phase: a hook of two phases has two, a resource has one wherever it was moved.
#[derive(Debug, Default)]
pub(super) struct Results {
    list: Vec<ResourceResult>,
    places: HashMap<(ResourceKey, String), usize>,
}

impl Results {
    pub(super) fn new(list: Vec<ResourceResult>) -> Self {
        let mut results = Self::default();
        list.into_iter().for_each(|result| results.put(result));
        results
    }

    fn place(key: ResourceKey, hook_phase: &str) -> (ResourceKey, String) {
        (key, hook_phase.to_string())
    }

    /// Adds a result, or puts it in the place of the earlier one.
    pub(super) fn put(&mut self, result: ResourceResult) {
        let phase = if result.hook_type.is_empty() { "" } else { result.sync_phase.as_str() };
        match self.places.entry(Self::place(key_of(&result), phase)) {
            Entry::Occupied(slot) => self.list[*slot.get()] = result,
            Entry::Vacant(slot) => {
                slot.insert(self.list.len());
                self.list.push(result);
            }
        }
    }

    /// The result of a resource (`hook` is None) or of a hook in a phase.
    pub(super) fn get(&self, key: &ResourceKey, hook: Option<SyncPhase>) -> Option<&ResourceResult> {
        let place = Self::place(key.clone(), hook.map_or("", SyncPhase::as_str));
        self.places.get(&place).map(|index| &self.list[*index])
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ResourceResult> {
        self.list.iter_mut()
    }

    pub(super) fn into_list(self) -> Vec<ResourceResult> {
        self.list
    }
}

/// The mark of a hook: its operation and the phase, because one hook may run in two phases.
pub(super) fn hook_mark(operation_id: &str, phase: SyncPhase) -> String {
    format!("{operation_id}/{}", phase.as_str())
}

/// True when the live object is the hook of this operation and phase.
pub(super) fn belongs_to(live: &serde_json::Value, operation_id: &str, phase: SyncPhase) -> bool {
    object::annotation(live, slipway_crd::names::HOOK_OPERATION) == Some(&hook_mark(operation_id, phase))
}

/// True when the live object is a hook of this operation, in whatever phase.
pub(super) fn belongs_to_operation(live: &serde_json::Value, operation_id: &str) -> bool {
    object::annotation(live, slipway_crd::names::HOOK_OPERATION)
        .and_then(|mark| mark.rsplit_once('/'))
        .is_some_and(|(id, _)| id == operation_id)
}
