//! The state machine: tasks and their results become steps, waits and an outcome.

use super::observe::{pick, result_of};
use super::progress::{DRY_RUN_PREFIX, Results, SyncProgress, belongs_to_operation};
use super::steps::writes;
use super::tasks::{self, Task, TaskKind};
use super::{HookDeletion, Outcome, OutcomePhase, SyncPlan, Waiting, WaitingOn};
use crate::compare::Comparison;
use crate::hooks::{self, DeletePolicy, SyncPhase};
use crate::object::{self, ResourceKey};
use crate::options::{Deletion, SyncOptions};
use jiff::Timestamp;
use slipway_crd::{OperationPhase, ResourceResult, ResultCode, SyncOperation};
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
pub(super) enum State {
    Pending,
    Running,
    Succeeded,
    Failed(String),
}

pub(super) struct Planner<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) operation: &'a SyncOperation,
    pub(super) progress: &'a SyncProgress,
    pub(super) options: &'a SyncOptions,
    pub(super) tasks: Vec<Task<'a>>,
    pub(super) on_failure: Vec<Task<'a>>,
    pub(super) last_group: (SyncPhase, i64),
    /// The last group's resources are waited for too: others come before it and hooks stand in it.
    pub(super) last_group_blocks: bool,
    pub(super) plan: SyncPlan,
    pub(super) results: Results,
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
                status: ResultCode::SyncFailed,
                message: reason.clone(),
                hook_phase: OperationPhase::Failed,
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
        if !cluster.complete
            || task.unchanged
            || self.result(task).is_some_and(|r| r.status == ResultCode::Synced)
        {
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
        let settings = &self.comparison.context.settings;
        let past = |limit: i64, since: Timestamp| {
            limit > 0 && self.progress.now.duration_since(since).as_secs() > limit
        };
        let (whole, wave) = (self.comparison.context.sync_timeout_seconds, settings.wave_timeout_seconds);
        if past(whole, self.progress.started_at) {
            return Some(format!("sync did not finish within {whole} seconds and was ended"));
        }
        past(wave, self.progress.last_step_at())
            .then(|| format!("a wave did not get ready within {wave} seconds and the sync was ended"))
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
            .find(|r| r.status == ResultCode::SyncFailed && r.message.starts_with(DRY_RUN_PREFIX))?;
        let reason = failed.message.trim_start_matches(DRY_RUN_PREFIX);
        Some(outcome(
            OutcomePhase::Failed,
            &format!("one or more objects failed to apply (dry run), reason: {reason}"),
        ))
    }

    /// The normal course.
    fn advance(&mut self, tasks: &[Task<'a>]) {
        if let Some(failed) = self.failed_dry_run() {
            self.plan.outcome = Some(failed);
            return;
        }
        self.record(tasks);
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

    pub(super) fn needs_confirmation(&self, task: &Task<'_>) -> bool {
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
            // What runs to an end does not run again by being applied: a failed Job of the last attempt would fail this
            // one at once, and one of another phase would pass for this phase's.
            || runs_to_an_end(&task.key)
            || belongs_to_operation(live, &self.progress.operation_id)
            // What is on its way out cannot be applied to.
            || object::is_being_deleted(live)
    }

    /// The steps of later groups, for people who want to see the whole plan.
    fn list_later_steps(&mut self, tasks: &[Task<'_>], states: &[State], failed: bool) {
        if failed || self.plan.outcome.is_some() {
            return;
        }
        let listed: BTreeSet<(SyncPhase, ResourceKey)> =
            self.plan.steps.iter().filter(|s| writes(s)).map(|s| (s.phase, s.key.clone())).collect();
        for (task, _) in tasks.iter().zip(states).filter(|(_, state)| **state == State::Pending) {
            let is_listed = listed.contains(&(task.phase, task.key.clone()));
            if !is_listed && self.without_step(task).is_none() {
                self.push_step(task);
            }
        }
        if !self.has_begun() && !self.progress.dry_run_done && !self.plan.ready.is_empty() {
            self.plan.dry_run = self.dry_runnable();
        }
    }
}

fn runs_to_an_end(key: &ResourceKey) -> bool {
    matches!(
        (key.group.as_str(), key.kind.as_str()),
        ("batch", "Job") | ("", "Pod") | ("argoproj.io", "Workflow")
    )
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
