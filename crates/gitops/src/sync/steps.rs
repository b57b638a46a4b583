//! Tasks as steps: what exactly is done to the cluster, and what may be done at once.

use super::plan::{Planner, State};
use super::progress::belongs_to_operation;
use super::tasks::{self, Task, TaskKind};
use super::{Action, HookDeletion, PlannedStep};
use crate::hooks::{self, DeletePolicy, SyncPhase};
use crate::object::{self, ResourceKey};
use slipway_crd::{OperationPhase, names};
use std::collections::BTreeSet;

impl<'a> Planner<'a> {
    /// Steps whose kind the server knows already; the others cannot be tried.
    pub(super) fn dry_runnable(&self) -> Vec<usize> {
        let cluster = &self.comparison.context.cluster;
        let known =
            |step: &PlannedStep| !cluster.complete || cluster.kind(&step.key.group, &step.key.kind).is_some();
        let writes =
            |step: &PlannedStep| matches!(step.action, Action::Apply { .. } | Action::RunHook { .. });
        let is_there = |name: &str| {
            let context = &self.comparison.context;
            context.destination_namespace == name && context.destination_namespace_exists
                || self
                    .comparison
                    .resources
                    .iter()
                    .any(|r| r.key.kind == "Namespace" && r.key.name == name && r.live.is_some())
        };
        let to_come: BTreeSet<&str> = self
            .plan
            .steps
            .iter()
            .filter(|s| s.key.kind == "Namespace" && s.key.group.is_empty() && writes(s))
            .map(|s| s.key.name.as_str())
            .filter(|name| !is_there(name))
            .collect();
        let mut tried = Vec::new();
        for (index, step) in self.plan.steps.iter().enumerate() {
            // An object cannot be tried in a namespace that is still to come.
            if writes(step) && known(step) && !to_come.contains(step.key.namespace.as_str()) {
                tried.push(index);
            }
        }
        tried
    }

    pub(super) fn push_step(&mut self, task: &Task<'_>) {
        let step = |action, why: String| PlannedStep {
            phase: task.phase,
            wave: task.wave,
            batch: 0,
            key: task.key.clone(),
            version: task.version.clone(),
            action,
            why,
        };
        let made = match (task.kind, &task.object) {
            (TaskKind::Prune, _) => {
                let Some(live) = task.live else { return };
                let action = Action::Prune {
                    key: task.key.clone(),
                    uid: object::uid(live).into(),
                    propagation: self.options.propagation(),
                    own_wave: hooks::wave(live),
                };
                step(action, "it is not in the manifests any more".into())
            }
            (kind, Some(object)) => {
                if task.unchanged {
                    return;
                }
                let how = tasks::apply_how(object, task.live, self.options);
                let force = tasks::is_forced(self.operation) || self.options.is_true_for(object, "Force");
                let validate = self.options.for_object(object, "Validate") != Some("false");
                let object = object.clone();
                if kind == TaskKind::Hook {
                    let why = format!("{} hook", task.phase.as_str());
                    step(Action::RunHook { object, how, force, validate }, why)
                } else {
                    let why = if task.live.is_none() {
                        "it does not exist"
                    } else {
                        "live differs from the manifest"
                    };
                    step(Action::Apply { object, how, force, validate }, why.into())
                }
            }
            (_, None) => return,
        };
        self.plan.steps.push(made);
    }

    /// Steps that take care of hooks whose end is in the results, which are written down before any step runs.
    pub(super) fn clean_up(&self, tasks: &[Task<'_>], states: &[State]) -> Vec<PlannedStep> {
        let failed_phase =
            |phase| tasks.iter().zip(states).any(|(t, s)| t.phase == phase && matches!(s, State::Failed(_)));
        let done_phase =
            |phase| tasks.iter().zip(states).all(|(t, s)| t.phase != phase || *s == State::Succeeded);
        let mut steps = Vec::new();
        for task in tasks.iter().chain(&self.on_failure).filter(|t| t.is_hook() && self.is_ours(t)) {
            let ended = self.result(task).is_some_and(|r| {
                matches!(
                    r.hook_phase,
                    OperationPhase::Succeeded | OperationPhase::Failed | OperationPhase::Error
                )
            });
            if !ended || self.progress.given_up.contains(&task.key) {
                continue;
            }
            let policies = task.object.as_ref().map(|o| hooks::delete_policies(o)).unwrap_or_default();
            let own_end = task.phase == SyncPhase::SyncFail;
            let succeeded = policies.contains(&DeletePolicy::HookSucceeded)
                && (done_phase(task.phase) && !own_end || own_end && self.state(task) == State::Succeeded);
            let failed = policies.contains(&DeletePolicy::HookFailed)
                && (failed_phase(task.phase) || own_end && matches!(self.state(task), State::Failed(_)));
            if succeeded {
                steps.extend(deletion(
                    task,
                    HookDeletion::HookSucceeded,
                    "it succeeded and its delete policy says so",
                ));
            } else if failed {
                steps.extend(deletion(
                    task,
                    HookDeletion::HookFailed,
                    "its phase failed and its delete policy says so",
                ));
            } else {
                steps.extend(release(task));
            }
        }
        steps.extend(self.stale_hooks(tasks));
        steps
    }

    /// Hooks of operations that are over and that nobody waits for: our finalizer must not hold them for ever.
    fn stale_hooks(&self, tasks: &[Task<'_>]) -> Vec<PlannedStep> {
        let handled: BTreeSet<&ResourceKey> =
            tasks.iter().chain(&self.on_failure).filter(|t| t.is_hook()).map(|t| &t.key).collect();
        let held = self.comparison.resources.iter().filter(|r| {
            let live = r.live.as_ref();
            r.hook
                && live.is_some_and(|live| {
                    object::has_finalizer(live, names::HOOK_FINALIZER)
                        && !belongs_to_operation(live, &self.progress.operation_id)
                })
                && !handled.contains(&r.key)
                && !self.progress.given_up.contains(&r.key)
        });
        held.map(|r| PlannedStep {
            phase: SyncPhase::Sync,
            wave: r.wave,
            batch: 0,
            key: r.key.clone(),
            version: r.version.clone(),
            action: Action::ReleaseHook {
                key: r.key.clone(),
                uid: r.live.as_ref().map(|live| object::uid(live).to_string()).unwrap_or_default(),
            },
            why: "its operation is over".into(),
        })
        .collect()
    }

    pub(super) fn delete_hook(&mut self, task: &Task<'_>, why: HookDeletion, sentence: &str) {
        self.plan.steps.extend(deletion(task, why, sentence));
    }

    pub(super) fn release_hook(&mut self, task: &Task<'_>) {
        if self.is_ours(task) && !self.progress.given_up.contains(&task.key) {
            self.plan.steps.extend(release(task));
        }
    }

    /// Steps of one kind, phase and wave that stand together may run at once.
    pub(super) fn number_batches(&mut self) {
        let mut batch = 0;
        let mut before: Option<(SyncPhase, i64, String, u8)> = None;
        for step in &mut self.plan.steps {
            let sort = match step.action {
                Action::Prune { .. } => 0,
                Action::DeleteHook { .. } | Action::ReleaseHook { .. } => 1,
                Action::Apply { .. } | Action::RunHook { .. } => 2,
            };
            // Prunes wait for nothing but their wave.
            let kind = if sort == 0 { String::new() } else { step.key.kind.clone() };
            let this = (step.phase, step.wave, kind, sort);
            if before.as_ref().is_some_and(|b| *b != this) {
                batch += 1;
            }
            step.batch = batch;
            before = Some(this);
        }
    }
}

pub(super) fn writes(step: &PlannedStep) -> bool {
    !matches!(step.action, Action::DeleteHook { .. } | Action::ReleaseHook { .. })
}

/// Our finalizer is taken off; nothing to do once it is.
pub(super) fn release(task: &Task<'_>) -> Option<PlannedStep> {
    let live = task.live.filter(|live| object::has_finalizer(live, names::HOOK_FINALIZER))?;
    let action = Action::ReleaseHook { key: task.key.clone(), uid: object::uid(live).into() };
    Some(hook_step(task, action, "its end is written down"))
}

/// The hook is deleted; nothing to do once it is on its way.
pub(super) fn deletion(task: &Task<'_>, why: HookDeletion, sentence: &str) -> Option<PlannedStep> {
    let live = task.live?;
    if object::is_being_deleted(live) && !object::has_finalizer(live, names::HOOK_FINALIZER) {
        return None;
    }
    let action = Action::DeleteHook { key: task.key.clone(), uid: object::uid(live).into(), why };
    Some(hook_step(task, action, sentence))
}

pub(super) fn hook_step(task: &Task<'_>, action: Action, why: &str) -> PlannedStep {
    PlannedStep {
        phase: task.phase,
        wave: task.wave,
        batch: 0,
        key: task.key.clone(),
        version: task.version.clone(),
        action,
        why: why.into(),
    }
}
