//! Where the tasks stand: results that were written down, and what the live objects say since.

use super::plan::{Planner, State};
use super::progress::{belongs_to, key_of};
use super::tasks::{Task, TaskKind};
use crate::health::{self, Health, HealthCode};
use crate::hooks::{self, SyncPhase};
use crate::object::{self, ResourceKey};
use crate::options::Deletion;
use jiff::{SignedDuration, Timestamp};
use slipway_crd::{OperationPhase, ResourceResult, ResultCode};
use std::collections::BTreeSet;

impl<'a> Planner<'a> {
    /// Records, before anything is done, what the cluster cannot say afterwards: the waves of what will be pruned (or the
    /// mirrored waves of the others would move) and which resources were out of sync (or they would not be waited for).
    pub(super) fn record(&mut self, tasks: &[Task<'a>]) {
        let own_wave = |task: &Task<'_>| task.live.map_or(0, |live| hooks::wave(live));
        let prunes = || tasks.iter().filter(|t| t.kind == TaskKind::Prune && self.without_step(t).is_none());
        let waves: BTreeSet<i64> = prunes().map(own_wave).collect();
        let selects = self.options.is_true("ApplyOutOfSyncOnly");
        let mut noted = Vec::new();
        if self.progress.results.is_empty() && waves.len() > 1 {
            noted.extend(prunes().map(|task| ResourceResult {
                message: "to be pruned".into(),
                wave: Some(own_wave(task)),
                ..result_of(task)
            }));
        }
        if self.progress.results.is_empty() && selects {
            let applies = tasks.iter().filter(|t| t.kind == TaskKind::Apply && !t.unchanged);
            noted.extend(
                applies.map(|task| ResourceResult { message: "to be applied".into(), ..result_of(task) }),
            );
        }
        for result in noted {
            self.results.put(result);
        }
        // Pruned by a shell that died before it could say so.
        let pruning: BTreeSet<&ResourceKey> =
            tasks.iter().filter(|t| t.kind == TaskKind::Prune).map(|t| &t.key).collect();
        for result in self.results.iter_mut().filter(|r| r.status.is_empty() && r.wave.is_some()) {
            if !pruning.contains(&key_of(result)) {
                result.status = ResultCode::Pruned;
                result.message = "pruned".into();
                result.hook_phase = OperationPhase::Succeeded;
            }
        }
    }

    /// Something was done already.
    pub(super) fn has_begun(&self) -> bool {
        self.progress.results.iter().any(|r| !r.status.is_empty())
    }

    /// States of all tasks, with unchanged resources of groups that were reached counted as applied.
    pub(super) fn observe(&mut self, tasks: &[Task<'a>]) -> Vec<State> {
        loop {
            let states: Vec<State> = tasks.iter().map(|task| self.state(task)).collect();
            for (task, state) in tasks.iter().zip(&states) {
                self.write_down(task, state);
            }
            let busy = first_group(tasks, &states, |s| matches!(s, State::Running | State::Failed(_)));
            let pending = || tasks.iter().zip(&states).filter(|(_, s)| **s == State::Pending).map(|(t, _)| t);
            let Some(group) = pending().map(Task::group).min() else { return states };
            // A group is reached when all before it is done.
            if busy.is_some_and(|busy| busy < group) {
                return states;
            }
            let settled: Vec<ResourceResult> =
                pending().filter(|t| t.group() == group).filter_map(|t| self.without_step(t)).collect();
            if settled.is_empty() {
                return states;
            }
            for result in settled {
                self.results.put(result);
            }
        }
    }

    /// The result of a task that needs no step.
    pub(super) fn without_step(&self, task: &Task<'_>) -> Option<ResourceResult> {
        match task.kind {
            TaskKind::Apply if task.unchanged => Some(ResourceResult {
                status: ResultCode::Synced,
                message: format!("{} unchanged", kubectl_name(&task.key)),
                hook_phase: OperationPhase::Running,
                uid: task.live.map(|live| object::uid(live).to_string()).unwrap_or_default(),
                ..result_of(task)
            }),
            TaskKind::Prune => {
                let message = match task.live.map_or(Deletion::Never, |live| self.options.prune_of(live)) {
                    Deletion::Never => "ignored (no prune)",
                    _ if !self.operation.prune => "ignored (requires pruning)",
                    _ => return None,
                };
                Some(ResourceResult {
                    status: ResultCode::PruneSkipped,
                    message: message.into(),
                    hook_phase: OperationPhase::Succeeded,
                    ..result_of(task)
                })
            }
            _ => None,
        }
    }

    pub(super) fn result(&self, task: &Task<'_>) -> Option<&ResourceResult> {
        self.results.get(&task.key, task.is_hook().then_some(task.phase))
    }

    pub(super) fn is_ours(&self, task: &Task<'_>) -> bool {
        task.live.is_some_and(|live| belongs_to(live, &self.progress.operation_id, task.phase))
    }

    pub(super) fn blocks(&self, task: &Task<'_>) -> bool {
        task.group() < self.last_group || self.last_group_blocks
    }

    /// Controllers had time to see what was applied.
    pub(super) fn settles_at(&self) -> Option<Timestamp> {
        let delay = SignedDuration::from_millis(self.comparison.context.wave_delay_ms);
        let at = self.progress.last_change_at?.checked_add(delay).ok()?;
        (at > self.progress.now).then_some(at)
    }

    pub(super) fn state(&self, task: &Task<'_>) -> State {
        let result = self.result(task);
        match result.map(|r| (&r.status, &r.hook_phase)) {
            Some((ResultCode::SyncFailed, _) | (_, OperationPhase::Failed | OperationPhase::Error)) => {
                State::Failed(result.map(|r| r.message.clone()).unwrap_or_default())
            }
            // Only noted: see `note`.
            Some((status, phase)) if status.is_empty() && phase.is_empty() => State::Pending,
            Some((ResultCode::PruneSkipped, _)) => State::Succeeded,
            Some((ResultCode::Pruned, _)) => {
                if task.live.is_some() && self.blocks(task) {
                    State::Running
                } else {
                    State::Succeeded
                }
            }
            Some((_, OperationPhase::Succeeded)) => State::Succeeded,
            Some(_) if task.is_hook() => self.hook_state(task),
            Some(_) => self.resource_state(task),
            // Made by this operation, but the shell died before it could write that down.
            None if task.is_hook() && self.is_ours(task) => self.hook_state(task),
            None => State::Pending,
        }
    }

    fn health(&self, live: &serde_json::Value) -> Option<Health> {
        health::assess_with(live, &self.comparison.context.settings, self.progress.now)
    }

    pub(super) fn resource_state(&self, task: &Task<'_>) -> State {
        if !self.blocks(task) {
            return State::Succeeded;
        }
        if self.settles_at().is_some() {
            return State::Running;
        }
        let Some(live) = task.live else {
            return State::Failed(format!("{} is missing, it might have been deleted", task.key.short()));
        };
        match self.health(live).map(|h| (h.status, h.message)) {
            None | Some((HealthCode::Healthy, _)) => State::Succeeded,
            Some((HealthCode::Degraded, message)) => State::Failed(message),
            Some(_) => State::Running,
        }
    }

    pub(super) fn hook_state(&self, task: &Task<'_>) -> State {
        let Some(live) = task.live else {
            return if self.settles_at().is_some() {
                State::Running
            } else {
                State::Failed(format!("{} is missing, it might have been deleted", task.key.short()))
            };
        };
        match self.health(live).map(|h| (h.status, h.message)) {
            None | Some((HealthCode::Healthy, _)) => State::Succeeded,
            Some((HealthCode::Degraded | HealthCode::Unknown, message)) => State::Failed(message),
            // Only our finalizer keeps it: nobody works on it any more, so it will never end by itself.
            Some(_) if object::is_being_deleted(live) => {
                State::Failed(format!("{} was deleted before it finished", task.key.short()))
            }
            Some(_) => State::Running,
        }
    }

    /// Brings the task's result up to what was observed.
    pub(super) fn write_down(&mut self, task: &Task<'_>, state: &State) {
        let phase = match state {
            State::Pending => return,
            State::Running => OperationPhase::Running,
            // Resources of the last group are not watched; their result stays as the apply left it.
            State::Succeeded if !task.is_hook() && !self.blocks(task) => return,
            State::Succeeded => OperationPhase::Succeeded,
            State::Failed(_) => OperationPhase::Failed,
        };
        let before = self.result(task).cloned();
        if before
            .as_ref()
            .is_some_and(|r| r.hook_phase == phase || r.status == ResultCode::Pruned || r.status.is_empty())
        {
            return;
        }
        let mut result =
            before.unwrap_or_else(|| ResourceResult { status: ResultCode::Synced, ..result_of(task) });
        result.hook_phase = phase;
        if let Some(live) = task.live {
            result.uid = object::uid(live).into();
        }
        let message = match state {
            State::Failed(message) => message.clone(),
            _ if task.is_hook() => {
                task.live.and_then(|l| self.health(l)).map(|h| h.message).unwrap_or_default()
            }
            _ => String::new(),
        };
        if !message.is_empty() {
            result.message = message;
        }
        self.results.put(result);
    }

    /// The group that has begun has tasks that were not started: whatever became of their neighbours, they are started
    /// too, or a restart in the middle of a group would leave out what an undisturbed sync does.
    pub(super) fn has_unstarted(&self, tasks: &[Task<'_>], states: &[State]) -> bool {
        let Some(pending) = first_group(tasks, states, |s| *s == State::Pending) else { return false };
        let busy = first_group(tasks, states, |s| matches!(s, State::Running | State::Failed(_)));
        busy == Some(pending)
            && tasks.iter().zip(states).any(|(t, s)| {
                t.group() == pending && *s == State::Pending && !self.needs_confirmation(t) && !t.unchanged
            })
    }
}

pub(super) fn first_group(
    tasks: &[Task<'_>],
    states: &[State],
    wanted: impl Fn(&State) -> bool,
) -> Option<(SyncPhase, i64)> {
    tasks.iter().zip(states).filter(|(_, s)| wanted(s)).map(|(t, _)| t.group()).min()
}

pub(super) fn pick<'t, 'a>(
    tasks: &'t [Task<'a>],
    states: &[State],
    wanted: impl Fn(&Task<'a>, &State) -> bool,
) -> Vec<&'t Task<'a>> {
    tasks.iter().zip(states).filter(|(t, s)| wanted(t, s)).map(|(t, _)| t).collect()
}

pub(super) fn result_of(task: &Task<'_>) -> ResourceResult {
    ResourceResult {
        group: task.key.group.clone(),
        version: task.version.clone(),
        kind: task.key.kind.clone(),
        namespace: task.key.namespace.clone(),
        name: task.key.name.clone(),
        sync_phase: task.phase.as_str().into(),
        hook_type: if task.is_hook() { task.phase.as_str().into() } else { String::new() },
        images: task.object.as_ref().map(|o| crate::tree::images(o)).unwrap_or_default(),
        ..ResourceResult::default()
    }
}

/// `deployment.apps/web`, as kubectl names an object.
pub(super) fn kubectl_name(key: &ResourceKey) -> String {
    let kind = key.kind.to_lowercase();
    if key.group.is_empty() {
        format!("{kind}/{}", key.name)
    } else {
        format!("{kind}.{}/{}", key.group, key.name)
    }
}
