//! The state machine: tasks and their results become steps, waits and an outcome.

use super::progress::{DRY_RUN_PREFIX, Results, SyncProgress, belongs_to, belongs_to_operation, key_of};
use super::tasks::{self, Task, TaskKind};
use super::{Action, HookDeletion, Outcome, OutcomePhase, PlannedStep, SyncPlan, Waiting, WaitingOn};
use crate::compare::Comparison;
use crate::health::{self, HealthCode};
use crate::hooks::{self, DeletePolicy, SyncPhase};
use crate::object::{self, ResourceKey};
use crate::options::{Deletion, SyncOptions};
use jiff::{SignedDuration, Timestamp};
use slipway_crd::{ResourceResult, SyncOperation, names};
use std::collections::BTreeSet;

/// Plans what is left of a sync.
pub fn plan(comparison: &Comparison, operation: &SyncOperation, progress: &SyncProgress) -> SyncPlan {
    let options = tasks::effective_options(comparison, operation);
    let tasks = tasks::tasks(comparison, operation, progress, &options);
    let mut planner = Planner::new(comparison, operation, progress, &options, tasks);
    let refused = planner.refusal();
    match refused {
        Some(outcome) => planner.plan.outcome = Some(outcome),
        None => planner.run(),
    }
    planner.plan.results = planner.results.into_list();
    planner.plan
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Pending,
    Running,
    Succeeded,
    Failed(String),
}

struct Planner<'a> {
    comparison: &'a Comparison,
    operation: &'a SyncOperation,
    progress: &'a SyncProgress,
    options: &'a SyncOptions,
    tasks: Vec<Task<'a>>,
    on_failure: Vec<Task<'a>>,
    last_group: (SyncPhase, i64),
    /// The last group's resources are waited for too: others come before it and hooks stand in it.
    last_group_blocks: bool,
    plan: SyncPlan,
    results: Results,
}

impl<'a> Planner<'a> {
    fn new(
        comparison: &'a Comparison,
        operation: &'a SyncOperation,
        progress: &'a SyncProgress,
        options: &'a SyncOptions,
        tasks: Vec<Task<'a>>,
    ) -> Self {
        let (on_failure, tasks): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|t| t.phase == SyncPhase::SyncFail);
        let groups = || tasks.iter().map(Task::group);
        let last_group = groups().max().unwrap_or((SyncPhase::Sync, 0));
        let multi_step = groups().min().is_some_and(|first| first != last_group);
        let last_group_blocks = multi_step && tasks.iter().any(|t| t.group() == last_group && t.is_hook());
        let plan = SyncPlan {
            steps: Vec::new(),
            ready: Vec::new(),
            dry_run: Vec::new(),
            waiting: Vec::new(),
            outcome: None,
            results: Vec::new(),
        };
        let results = Results::new(progress.results.clone());
        Self {
            comparison,
            operation,
            progress,
            options,
            tasks,
            on_failure,
            last_group,
            last_group_blocks,
            plan,
            results,
        }
    }

    /// Why nothing may be done at all.
    fn refusal(&mut self) -> Option<Outcome> {
        let context = &self.comparison.context;
        if let Some(error) = &context.error {
            return Some(outcome(OutcomePhase::Error, error));
        }
        if self.options.is_true("FailOnSharedResource") && !context.shared.is_empty() {
            return Some(outcome(
                OutcomePhase::Failed,
                &format!("Shared resource found: {}", context.shared.join(", ")),
            ));
        }
        let invalid: Vec<(usize, String)> =
            self.tasks.iter().enumerate().filter_map(|(i, t)| Some((i, self.invalid(t)?))).collect();
        if invalid.is_empty() {
            return None;
        }
        for (index, reason) in &invalid {
            let result = ResourceResult {
                status: "SyncFailed".into(),
                message: reason.clone(),
                hook_phase: "Failed".into(),
                ..result_of(&self.tasks[*index])
            };
            self.results.put(result);
        }
        let reasons: Vec<String> = invalid.into_iter().map(|(_, reason)| reason).collect();
        Some(outcome(
            OutcomePhase::Failed,
            &format!("one or more synchronization tasks are not valid: {}", reasons.join(", ")),
        ))
    }

    /// Why a task can never be done. A kind that is not served yet may come with this sync.
    fn invalid(&self, task: &Task<'_>) -> Option<String> {
        if let Some(reason) = task.forbidden {
            return Some(reason.to_string());
        }
        let cluster = &self.comparison.context.cluster;
        let target = task.object.as_ref()?;
        if object::name(target).is_empty() {
            return Some(format!("{} has no name", task.key.kind));
        }
        if !cluster.complete || task.unchanged || self.result(task).is_some_and(|r| r.status == "Synced") {
            return None;
        }
        let served = cluster
            .kind(&task.key.group, &task.key.kind)
            .is_some_and(|info| info.versions.contains(&task.version));
        let comes = self.options.is_true_for(target, "SkipDryRunOnMissingResource")
            || self.is_defined_here(&task.key);
        (!served && !comes).then(|| {
            format!(
                "the server could not find the requested resource {} (apply its CustomResourceDefinition first, or set SkipDryRunOnMissingResource=true)",
                gvk(task)
            )
        })
    }

    fn is_defined_here(&self, key: &ResourceKey) -> bool {
        self.tasks.iter().filter_map(|t| t.object.as_ref()).filter(|o| object::is_crd(o)).any(|crd| {
            object::text(crd, &["spec", "group"]) == key.group
                && object::text(crd, &["spec", "names", "kind"]) == key.kind
        })
    }

    fn run(&mut self) {
        if self.progress.terminating {
            return self.terminate("Operation terminated");
        }
        if let Some(message) = self.timed_out() {
            return self.terminate(&message);
        }
        if self.operation.dry_run {
            return self.dry_run_only();
        }
        let tasks = std::mem::take(&mut self.tasks);
        self.advance(&tasks);
        self.tasks = tasks;
    }

    fn timed_out(&self) -> Option<String> {
        let limit = self.comparison.context.sync_timeout_seconds;
        let age = self.progress.now.duration_since(self.progress.started_at).as_secs();
        (limit > 0 && age > limit)
            .then(|| format!("sync did not finish within {limit} seconds and was ended"))
    }

    /// Running hooks of this operation are deleted; then it is over.
    fn terminate(&mut self, message: &str) {
        let hooks: Vec<Task<'_>> =
            self.tasks.iter().chain(&self.on_failure).filter(|t| t.is_hook()).cloned().collect();
        for task in &hooks {
            let state = self.state(task);
            if state == State::Running || self.is_ours(task) && matches!(state, State::Pending) {
                self.delete_hook(task, HookDeletion::Terminated, "the operation was ended");
            } else {
                self.release_hook(task);
            }
        }
        self.plan.ready = (0..self.plan.steps.len()).collect();
        if self.plan.ready.is_empty() {
            self.plan.outcome = Some(outcome(OutcomePhase::Failed, message));
        }
    }

    fn dry_run_only(&mut self) {
        let tasks = std::mem::take(&mut self.tasks);
        for task in &tasks {
            self.push_step(task);
        }
        self.number_batches();
        if let Some(failed) = self.failed_dry_run() {
            self.plan.outcome = Some(failed);
        } else if self.progress.dry_run_done {
            self.plan.outcome = Some(outcome(OutcomePhase::Succeeded, "successfully synced (dry run)"));
        } else {
            self.plan.dry_run = self.dry_runnable();
            if self.plan.dry_run.is_empty() {
                self.plan.outcome = Some(outcome(OutcomePhase::Succeeded, "successfully synced (dry run)"));
            }
        }
        self.tasks = tasks;
    }

    fn failed_dry_run(&self) -> Option<Outcome> {
        let failed = self
            .progress
            .results
            .iter()
            .find(|r| r.status == "SyncFailed" && r.message.starts_with(DRY_RUN_PREFIX))?;
        let reason = failed.message.trim_start_matches(DRY_RUN_PREFIX);
        Some(outcome(
            OutcomePhase::Failed,
            &format!("one or more objects failed to apply (dry run), reason: {reason}"),
        ))
    }

    /// Steps whose kind the server knows already; the others cannot be tried.
    fn dry_runnable(&self) -> Vec<usize> {
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

    /// The normal course.
    fn advance(&mut self, tasks: &[Task<'a>]) {
        if let Some(failed) = self.failed_dry_run() {
            self.plan.outcome = Some(failed);
            return;
        }
        self.note(tasks);
        let states = self.observe(tasks);
        let running: Vec<&Task<'_>> =
            pick(tasks, &states, |t, s| *s == State::Running && t.kind != TaskKind::Prune);
        let failed = states.iter().any(|s| matches!(s, State::Failed(_)));
        let running_hooks: Vec<&Task<'_>> = running.iter().copied().filter(|t| t.is_hook()).collect();
        if self.has_unstarted(tasks, &states) {
            self.next_group(tasks, &states);
        } else if !running_hooks.is_empty() || !failed && !running.is_empty() {
            // A failed resource ends the wait for its neighbours' health, but never the wait for a hook.
            self.wait_for(&running_hooks, &running);
        } else if failed {
            self.fail(tasks, &states);
        } else {
            self.next_group(tasks, &states);
        }
        self.list_later_steps(tasks, &states, failed);
        let extra = self.plan.steps.len();
        self.number_batches();
        // Clean-up may always run, and an operation ends only after it.
        for step in self.clean_up(tasks, &states) {
            self.plan.steps.push(step);
        }
        self.plan.ready.extend(extra..self.plan.steps.len());
        if self.plan.ready.iter().any(|index| *index >= extra) {
            self.plan.outcome = None;
        }
    }

    /// The group that has begun has tasks that were not started: whatever became of their neighbours, they are started
    /// too, or a restart in the middle of a group would leave out what an undisturbed sync does.
    fn has_unstarted(&self, tasks: &[Task<'_>], states: &[State]) -> bool {
        let Some(pending) = first_group(tasks, states, |s| *s == State::Pending) else { return false };
        let busy = first_group(tasks, states, |s| matches!(s, State::Running | State::Failed(_)));
        busy == Some(pending)
            && tasks.iter().zip(states).any(|(t, s)| {
                t.group() == pending && *s == State::Pending && !self.needs_confirmation(t) && !t.unchanged
            })
    }

    /// States of all tasks, with unchanged resources of groups that were reached counted as applied.
    fn observe(&mut self, tasks: &[Task<'a>]) -> Vec<State> {
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

    /// Notes, before anything is done, what the cluster cannot say afterwards: the waves of what will be pruned (or the
    /// mirrored waves of the others would move) and which resources were out of sync (or they would not be waited for).
    fn note(&mut self, tasks: &[Task<'a>]) {
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
                result.status = "Pruned".into();
                result.message = "pruned".into();
                result.hook_phase = "Succeeded".into();
            }
        }
    }

    /// The result of a task that needs no step.
    fn without_step(&self, task: &Task<'_>) -> Option<ResourceResult> {
        match task.kind {
            TaskKind::Apply if task.unchanged => Some(ResourceResult {
                status: "Synced".into(),
                message: format!("{} unchanged", kubectl_name(&task.key)),
                hook_phase: "Running".into(),
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
                    status: "PruneSkipped".into(),
                    message: message.into(),
                    hook_phase: "Succeeded".into(),
                    ..result_of(task)
                })
            }
            _ => None,
        }
    }

    fn result(&self, task: &Task<'_>) -> Option<&ResourceResult> {
        self.results.get(&task.key, task.is_hook().then_some(task.phase))
    }

    /// Something was done already.
    fn has_begun(&self) -> bool {
        self.progress.results.iter().any(|r| !r.status.is_empty())
    }

    fn is_ours(&self, task: &Task<'_>) -> bool {
        task.live.is_some_and(|live| belongs_to(live, &self.progress.operation_id, task.phase))
    }

    fn blocks(&self, task: &Task<'_>) -> bool {
        task.group() < self.last_group || self.last_group_blocks
    }

    /// Controllers had time to see what was applied.
    fn settles_at(&self) -> Option<Timestamp> {
        let delay = SignedDuration::from_millis(self.comparison.context.wave_delay_ms);
        let at = self.progress.last_change_at?.checked_add(delay).ok()?;
        (at > self.progress.now).then_some(at)
    }

    fn state(&self, task: &Task<'_>) -> State {
        let result = self.result(task);
        match result.map(|r| (r.status.as_str(), r.hook_phase.as_str())) {
            Some(("SyncFailed", _) | (_, "Failed" | "Error")) => {
                State::Failed(result.map(|r| r.message.clone()).unwrap_or_default())
            }
            // Only noted: see `note`.
            Some(("", "")) => State::Pending,
            Some(("PruneSkipped", _)) => State::Succeeded,
            Some(("Pruned", _)) => {
                if task.live.is_some() && self.blocks(task) {
                    State::Running
                } else {
                    State::Succeeded
                }
            }
            Some((_, "Succeeded")) => State::Succeeded,
            Some(_) if task.is_hook() => self.hook_state(task),
            Some(_) => self.resource_state(task),
            // Made by this operation, but the shell died before it could write that down.
            None if task.is_hook() && self.is_ours(task) => self.hook_state(task),
            None => State::Pending,
        }
    }

    fn resource_state(&self, task: &Task<'_>) -> State {
        if !self.blocks(task) {
            return State::Succeeded;
        }
        if self.settles_at().is_some() {
            return State::Running;
        }
        let Some(live) = task.live else {
            return State::Failed(format!("{} is missing, it might have been deleted", task.key.short()));
        };
        match health::assess(live).map(|h| (h.status, h.message)) {
            None | Some((HealthCode::Healthy, _)) => State::Succeeded,
            Some((HealthCode::Degraded, message)) => State::Failed(message),
            Some(_) => State::Running,
        }
    }

    fn hook_state(&self, task: &Task<'_>) -> State {
        let Some(live) = task.live else {
            return if self.settles_at().is_some() {
                State::Running
            } else {
                State::Failed(format!("{} is missing, it might have been deleted", task.key.short()))
            };
        };
        match health::assess(live).map(|h| (h.status, h.message)) {
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
    fn write_down(&mut self, task: &Task<'_>, state: &State) {
        let phase = match state {
            State::Pending => return,
            State::Running => "Running",
            // Resources of the last group are not watched; their result stays as the apply left it.
            State::Succeeded if !task.is_hook() && !self.blocks(task) => return,
            State::Succeeded => "Succeeded",
            State::Failed(_) => "Failed",
        };
        let before = self.result(task).cloned();
        if before
            .as_ref()
            .is_some_and(|r| r.hook_phase == phase || r.status == "Pruned" || r.status.is_empty())
        {
            return;
        }
        let mut result =
            before.unwrap_or_else(|| ResourceResult { status: "Synced".into(), ..result_of(task) });
        result.hook_phase = phase.into();
        if let Some(live) = task.live {
            result.uid = object::uid(live).into();
        }
        let message = match state {
            State::Failed(message) => message.clone(),
            _ if task.is_hook() => {
                task.live.and_then(|l| health::assess(l)).map(|h| h.message).unwrap_or_default()
            }
            _ => String::new(),
        };
        if !message.is_empty() {
            result.message = message;
        }
        self.results.put(result);
    }

    fn wait_for(&mut self, hooks: &[&Task<'_>], running: &[&Task<'_>]) {
        if let Some(at) = self.settles_at() {
            let sentence = "waiting for controllers to see what was applied".to_string();
            self.plan.waiting.push(Waiting { on: WaitingOn::Time(at), sentence });
        }
        let waiting = if hooks.is_empty() {
            let keys: Vec<ResourceKey> = running.iter().map(|t| t.key.clone()).collect();
            Waiting {
                sentence: sentence("healthy state of", &keys, "resources"),
                on: WaitingOn::Health(keys),
            }
        } else {
            let keys: Vec<ResourceKey> = hooks.iter().map(|t| t.key.clone()).collect();
            Waiting { sentence: sentence("completion of hook", &keys, "hooks"), on: WaitingOn::Hook(keys) }
        };
        self.plan.waiting.insert(0, waiting);
    }

    /// Something failed: SyncFail hooks run, then it is over.
    fn fail(&mut self, tasks: &[Task<'_>], states: &[State]) {
        let on_failure = std::mem::take(&mut self.on_failure);
        let states_after: Vec<State> = on_failure.iter().map(|t| self.state(t)).collect();
        for (task, state) in on_failure.iter().zip(&states_after) {
            self.write_down(task, state);
        }
        let running: Vec<&Task<'_>> = pick(&on_failure, &states_after, |_, s| *s == State::Running);
        let pending: Vec<&Task<'_>> = pick(&on_failure, &states_after, |_, s| *s == State::Pending);
        if !running.is_empty() {
            self.wait_for(&running, &running);
        } else if let Some(wave) = pending.iter().map(|t| t.wave).min() {
            self.start(&pending.into_iter().filter(|t| t.wave == wave).collect::<Vec<_>>());
        } else {
            self.plan.outcome = Some(failure(tasks, states));
        }
        self.on_failure = on_failure;
    }

    /// Starts the first group that is not done.
    fn next_group(&mut self, tasks: &[Task<'_>], states: &[State]) {
        let pending = pick(tasks, states, |_, s| *s == State::Pending);
        let reached = pending.iter().map(|t| t.group()).min();
        let is_leaving = |t: &Task<'_>, s: &State| *s == State::Running && t.kind == TaskKind::Prune;
        let leaving: Vec<ResourceKey> =
            pick(tasks, states, |t, s| is_leaving(t, s) && reached.is_none_or(|group| t.group() < group))
                .iter()
                .map(|t| t.key.clone())
                .collect();
        if !leaving.is_empty() {
            let sentence = sentence("deletion of", &leaving, "resources");
            self.plan.waiting.push(Waiting { on: WaitingOn::Deletion(leaving), sentence });
            return;
        }
        let Some(group) = reached else {
            let run = !tasks.is_empty() && !tasks.iter().any(|t| t.is_hook() && t.group() == self.last_group);
            let what = if run { "all tasks run" } else { "no more tasks" };
            self.plan.outcome =
                Some(outcome(OutcomePhase::Succeeded, &format!("successfully synced ({what})")));
            return;
        };
        let current: Vec<&Task<'_>> = pending.into_iter().filter(|t| t.group() == group).collect();
        let unconfirmed: Vec<ResourceKey> =
            current.iter().filter(|t| self.needs_confirmation(t)).map(|t| t.key.clone()).collect();
        let able: Vec<&Task<'_>> = current.into_iter().filter(|t| !self.needs_confirmation(t)).collect();
        if !unconfirmed.is_empty() {
            let sentence = sentence("pruning confirmation of", &unconfirmed, "resources");
            self.plan.waiting.push(Waiting { on: WaitingOn::Confirmation(unconfirmed), sentence });
        }
        self.start(&able);
    }

    fn needs_confirmation(&self, task: &Task<'_>) -> bool {
        let Some(live) = task.live.filter(|_| task.kind == TaskKind::Prune) else { return false };
        self.options.prune_of(live) == Deletion::Confirm
            && self.comparison.context.deletion_approved.is_none_or(|at| at < self.progress.started_at)
    }

    /// Makes the steps of one group and says which may run now.
    fn start(&mut self, group: &[&Task<'_>]) {
        let first = self.plan.steps.len();
        for task in group.iter().filter(|t| t.kind == TaskKind::Prune) {
            self.push_step(task);
        }
        let mut in_the_way = Vec::new();
        for task in group.iter().filter(|t| t.is_hook()) {
            if self.is_in_the_way(task) {
                in_the_way.push(task.key.clone());
                self.delete_hook(
                    task,
                    HookDeletion::BeforeHookCreation,
                    "an earlier run of this hook is in the way",
                );
            }
        }
        let ready_before_writes = self.plan.steps.len();
        for task in group.iter().filter(|t| t.kind != TaskKind::Prune) {
            self.push_step(task);
        }
        let ready_end = if in_the_way.is_empty() { self.plan.steps.len() } else { ready_before_writes };
        self.plan.ready = (first..ready_end).collect();
        if !in_the_way.is_empty() {
            let sentence = sentence("deletion of", &in_the_way, "hooks");
            self.plan.waiting.push(Waiting { on: WaitingOn::Deletion(in_the_way), sentence });
        }
        if !self.has_begun() && !self.progress.dry_run_done {
            self.plan.dry_run = self.dry_runnable();
        }
    }

    /// A hook object of an earlier operation or phase that has to go before this one is made.
    fn is_in_the_way(&self, task: &Task<'_>) -> bool {
        let Some(live) = task.live.filter(|_| !self.is_ours(task)) else { return false };
        let policies = task.object.as_ref().map(|o| hooks::delete_policies(o)).unwrap_or_default();
        policies.contains(&DeletePolicy::BeforeHookCreation)
            // A finished Job does not run again by being applied, and it has to run in this phase too.
            || belongs_to_operation(live, &self.progress.operation_id)
            // What is on its way out cannot be applied to.
            || object::is_being_deleted(live)
    }

    /// The steps of later groups, for people who want to see the whole plan.
    fn list_later_steps(&mut self, tasks: &[Task<'_>], states: &[State], failed: bool) {
        if failed || self.plan.outcome.is_some() {
            return;
        }
        for (task, state) in tasks.iter().zip(states) {
            let listed =
                self.plan.steps.iter().any(|s| s.key == task.key && s.phase == task.phase && writes(s));
            if *state == State::Pending && !listed && self.without_step(task).is_none() {
                self.push_step(task);
            }
        }
        if !self.has_begun() && !self.progress.dry_run_done && !self.plan.ready.is_empty() {
            self.plan.dry_run = self.dry_runnable();
        }
    }

    fn push_step(&mut self, task: &Task<'_>) {
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
    fn clean_up(&self, tasks: &[Task<'_>], states: &[State]) -> Vec<PlannedStep> {
        let failed_phase =
            |phase| tasks.iter().zip(states).any(|(t, s)| t.phase == phase && matches!(s, State::Failed(_)));
        let done_phase =
            |phase| tasks.iter().zip(states).all(|(t, s)| t.phase != phase || *s == State::Succeeded);
        let mut steps = Vec::new();
        for task in tasks.iter().chain(&self.on_failure).filter(|t| t.is_hook() && self.is_ours(t)) {
            let ended = self
                .result(task)
                .is_some_and(|r| matches!(r.hook_phase.as_str(), "Succeeded" | "Failed" | "Error"));
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
        steps
    }

    fn delete_hook(&mut self, task: &Task<'_>, why: HookDeletion, sentence: &str) {
        self.plan.steps.extend(deletion(task, why, sentence));
    }

    fn release_hook(&mut self, task: &Task<'_>) {
        if self.is_ours(task) && !self.progress.given_up.contains(&task.key) {
            self.plan.steps.extend(release(task));
        }
    }

    /// Steps of one kind, phase and wave that stand together may run at once.
    fn number_batches(&mut self) {
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

fn writes(step: &PlannedStep) -> bool {
    !matches!(step.action, Action::DeleteHook { .. } | Action::ReleaseHook { .. })
}

fn pick<'t, 'a>(
    tasks: &'t [Task<'a>],
    states: &[State],
    wanted: impl Fn(&Task<'a>, &State) -> bool,
) -> Vec<&'t Task<'a>> {
    tasks.iter().zip(states).filter(|(t, s)| wanted(t, s)).map(|(t, _)| t).collect()
}

fn first_group(
    tasks: &[Task<'_>],
    states: &[State],
    wanted: impl Fn(&State) -> bool,
) -> Option<(SyncPhase, i64)> {
    tasks.iter().zip(states).filter(|(_, s)| wanted(s)).map(|(t, _)| t.group()).min()
}

fn result_of(task: &Task<'_>) -> ResourceResult {
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

/// Our finalizer is taken off; nothing to do once it is.
fn release(task: &Task<'_>) -> Option<PlannedStep> {
    let live = task.live.filter(|live| object::has_finalizer(live, names::HOOK_FINALIZER))?;
    let action = Action::ReleaseHook { key: task.key.clone(), uid: object::uid(live).into() };
    Some(hook_step(task, action, "its end is written down"))
}

/// The hook is deleted; nothing to do once it is on its way.
fn deletion(task: &Task<'_>, why: HookDeletion, sentence: &str) -> Option<PlannedStep> {
    let live = task.live?;
    if object::is_being_deleted(live) && !object::has_finalizer(live, names::HOOK_FINALIZER) {
        return None;
    }
    let action = Action::DeleteHook { key: task.key.clone(), uid: object::uid(live).into(), why };
    Some(hook_step(task, action, sentence))
}

fn hook_step(task: &Task<'_>, action: Action, why: &str) -> PlannedStep {
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

fn outcome(phase: OutcomePhase, message: &str) -> Outcome {
    Outcome { phase, message: message.into() }
}

/// How a failed sync ends: objects that could not be written, or tasks that came to a bad end.
fn failure(tasks: &[Task<'_>], states: &[State]) -> Outcome {
    let reason = states
        .iter()
        .zip(tasks)
        .filter_map(|(state, task)| match state {
            State::Failed(message) if !message.is_empty() => Some(message.clone()),
            State::Failed(_) => Some(format!("{} failed", task.key.short())),
            _ => None,
        })
        .collect::<Vec<_>>();
    let what = "one or more synchronization tasks completed unsuccessfully";
    let mut message = match reason.is_empty() {
        true => what.to_string(),
        false => format!("{what}, reason: {}", reason.join(",")),
    };
    // The status must stay writable, whatever an admission webhook had to say a hundred times.
    if message.len() > 4096 {
        let cut = (0..=4096).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(cut);
        message.push_str("...");
    }
    outcome(OutcomePhase::Failed, &message)
}

fn sentence(what: &str, keys: &[ResourceKey], noun: &str) -> String {
    let first = keys.first().map(ResourceKey::short).unwrap_or_default();
    match keys.len() {
        0 | 1 => format!("waiting for {what} {first}"),
        n => format!("waiting for {what} {first} and {} more {noun}", n - 1),
    }
}

fn gvk(task: &Task<'_>) -> String {
    if task.key.group.is_empty() {
        format!("{}/{}", task.version, task.key.kind)
    } else {
        format!("{}/{}/{}", task.key.group, task.version, task.key.kind)
    }
}

/// `deployment.apps/web`, as kubectl names an object.
fn kubectl_name(key: &ResourceKey) -> String {
    let kind = key.kind.to_lowercase();
    if key.group.is_empty() {
        format!("{kind}/{}", key.name)
    } else {
        format!("{kind}.{}/{}", key.group, key.name)
    }
}
