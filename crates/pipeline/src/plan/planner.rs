//! The walk over a pipeline that makes a plan.
//!
//! The planner works on its own copy of the state and applies what it decides to it at once, so that
//! a step skipped in this plan already counts as skipped for the steps after it.

use serde_json::Value;

use crate::pipeline::{Mode, Pipeline, Scope, Step, hook_id};
use crate::plan::record::apply;
use crate::plan::verdict::{Verdict, failed_so_far, judge, status_of, tolerates};
use crate::plan::when::{Gate, gate, is_about_outcome};
use crate::plan::{Action, CancelReason, Finished, Group, HookPoint, HookRef, Plan, Waiting, WaitingOn};
use crate::resolve::{Resolve, resolve};
use crate::spec::{FinalState, StepKind};
use crate::state::{BuildState, BuildStatus, StepState, StepStatus};

/// Plans the next effects of a build.
pub fn plan(pipeline: &Pipeline, state: &BuildState) -> Plan {
    let mut planner = Planner { pipeline, state: state.clone(), plan: Plan::default() };
    let ended = if state.terminate_requested { planner.terminate() } else { planner.advance() };
    // What has been decided must be recorded before the build can be called finished.
    if planner.plan.actions.is_empty()
        && let Some(finished) = ended
    {
        planner.plan.finished = Some(finished);
        planner.plan.waiting.clear();
        planner.plan.wake_at_ms = None;
    }
    planner.groups(&pipeline.scope);
    planner.plan
}

pub(super) struct Planner<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) state: BuildState,
    pub(super) plan: Plan,
}

/// Where the steps of a scope stand: in the file, or in a hook.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    hook: Option<(Option<&'a str>, HookPoint)>,
    /// The timeout of the block around, as written.
    timeout: Option<&'a Value>,
}

/// What is under way in a parallel scope.
#[derive(Default)]
struct Busy {
    /// Steps that do work whose outcome counts.
    with_work: bool,
    /// Steps that run because the work is over (`workflow.result`).
    with_outcome: bool,
}

impl Busy {
    fn note(&mut self, step: &Step, ended: bool) {
        match is_about_outcome(step.when.as_ref()) {
            true => self.with_outcome |= !ended,
            false => self.with_work |= !ended,
        }
    }

    fn any(&self) -> bool {
        self.with_work || self.with_outcome
    }
}

pub(super) const FILE: Place<'static> = Place { hook: None, timeout: None };

impl Place<'_> {
    fn id(&self, step: &Step) -> String {
        match self.hook {
            Some((owner, point)) => hook_id(owner, point, &step.name),
            None => step.name.clone(),
        }
    }

    fn hook_ref(&self) -> Option<HookRef> {
        self.hook.map(|(owner, point)| HookRef { owner: owner.map(str::to_owned), point })
    }
}

impl<'a> Planner<'a> {
    fn advance(&mut self) -> Option<Finished> {
        let pipeline = self.pipeline;
        let elected = self.hook(None, HookPoint::OnElected, pipeline.hooks.on_elected.as_ref())?;
        let verdict = if elected.status.is_bad() {
            let reason = format!("the pipeline's on_elected hook failed: {}", elected.reason);
            self.skip_rest(&pipeline.scope, FILE, &reason);
            Verdict { status: StepStatus::Failure, reason }
        } else {
            self.scope(&pipeline.scope, FILE)?
        };
        if !self.plan.actions.is_empty() {
            return None;
        }
        let point = if verdict.status.is_bad() { HookPoint::OnFail } else { HookPoint::OnSuccess };
        self.hook(None, point, pipeline.hooks.at(point))?;
        self.hook(None, HookPoint::OnFinish, pipeline.hooks.on_finish.as_ref())?;
        let status = match verdict.status {
            StepStatus::Denied => BuildStatus::Denied,
            StepStatus::Terminated => BuildStatus::Terminated,
            status if status.is_bad() => BuildStatus::Error,
            _ => BuildStatus::Success,
        };
        Some(Finished { status, reason: verdict.reason })
    }

    pub(super) fn emit(&mut self, action: Action) {
        // The copy may only fall behind if an action is malformed, which the checker would report.
        let _ = apply(&mut self.state, &action);
        self.plan.actions.push(action);
    }

    pub(super) fn wait(&mut self, step: &str, on: WaitingOn, since: Option<i64>) {
        self.plan.waiting.push(Waiting { step: step.to_owned(), on, since });
    }

    fn wake(&mut self, at_ms: i64) {
        self.plan.wake_at_ms = Some(self.plan.wake_at_ms.map_or(at_ms, |earlier| earlier.min(at_ms)));
    }

    /// Runs a hook to its end; `None` while it goes on. A hook that is not there has succeeded.
    fn hook(
        &mut self,
        owner: Option<&'a str>,
        point: HookPoint,
        scope: Option<&'a Scope>,
    ) -> Option<Verdict> {
        match scope {
            None => Some(Verdict { status: StepStatus::Success, reason: String::new() }),
            Some(scope) => self.scope(scope, Place { hook: Some((owner, point)), timeout: None }),
        }
    }

    /// Moves a scope on; the verdict comes once every step of it has ended.
    fn scope(&mut self, scope: &'a Scope, place: Place<'a>) -> Option<Verdict> {
        let ended = match scope.mode {
            Mode::Sequential => self.sequential(scope, place),
            Mode::Parallel => self.parallel(scope, place),
        };
        ended.then(|| judge(scope, self.pipeline, &self.state, |step| self.status(step, place)))
    }

    fn status(&self, step: &Step, place: Place<'_>) -> StepStatus {
        if place.hook.is_some() {
            return self.state.status(&place.id(step));
        }
        status_of(step, self.pipeline, &self.state)
    }

    fn sequential(&mut self, scope: &'a Scope, place: Place<'a>) -> bool {
        for (index, step) in scope.steps.iter().enumerate() {
            if !self.touched(step, place) {
                let result = if self.failed(place) { "failure" } else { "success" };
                if let Gate::Closed { reason, .. } = self.gate(step, result) {
                    self.skip(step, place, &reason);
                    continue;
                }
            }
            if !self.unit(step, place) {
                for later in &scope.steps[index + 1..] {
                    self.wait(&place.id(later), WaitingOn::Step { name: step.name.clone() }, None);
                }
                return false;
            }
            let status = self.status(step, place);
            if status.is_bad() && !tolerates(step, scope, self.pipeline, &self.state) {
                let reason = format!("skipped: step `{}` {}", step.name, status.ended());
                for later in &scope.steps[index + 1..] {
                    self.skip(later, place, &reason);
                }
                return true;
            }
        }
        true
    }

    fn parallel(&mut self, scope: &'a Scope, place: Place<'a>) -> bool {
        let mut busy = Busy::default();
        for step in &scope.steps {
            if self.touched(step, place) {
                let ended = self.unit(step, place);
                busy.note(step, ended);
            }
        }
        let stopper = scope.success_criteria.is_none().then(|| {
            scope.steps.iter().find(|step| {
                self.status(step, place).is_bad() && !tolerates(step, scope, self.pipeline, &self.state)
            })
        });
        if let Some(Some(stopper)) = stopper {
            let reason = format!("not started, because step `{}` failed", stopper.name);
            self.skip_rest(scope, place, &reason);
            return !busy.any();
        }
        // Starting or skipping a step can open or close another one: look again until nothing changes.
        loop {
            let before = self.plan.actions.len();
            let mut held = Vec::new();
            for step in scope.steps.iter().filter(|step| !self.touched(step, place)).collect::<Vec<_>>() {
                match self.gate(step, "running") {
                    Gate::Open => {
                        let ended = self.unit(step, place);
                        busy.note(step, ended);
                    }
                    Gate::Closed { reason, forever: true, .. } => self.skip(step, place, &reason),
                    Gate::Closed { reason, .. } => held.push((step, reason)),
                }
            }
            if self.plan.actions.len() > before {
                continue;
            }
            if held.is_empty() {
                return !busy.any();
            }
            if !busy.with_work && self.last_word(&held, place, &mut busy) {
                continue;
            }
            for (step, text) in held {
                self.wait(&place.id(step), WaitingOn::Condition { text }, None);
            }
            return false;
        }
    }

    /// Nothing is left that could change the outcome by itself: steps that ask for `workflow.result`
    /// get it, and if none of them takes it up, the first step that cannot open is skipped. One at a
    /// time, so that the steps that wait for it are looked at again. `false` when nothing was done.
    fn last_word(&mut self, held: &[(&'a Step, String)], place: Place<'a>, busy: &mut Busy) -> bool {
        let result = if self.failed(place) { "failure" } else { "success" };
        let mut opened = false;
        let mut closed: Option<(&Step, String, bool)> = None;
        for (step, _) in held {
            match self.gate(step, result) {
                Gate::Open => {
                    let ended = self.unit(step, place);
                    busy.note(step, ended);
                    opened = true;
                }
                Gate::Closed { reason, on_step, .. } => {
                    // A step that waits for another one goes last: that one may yet be skipped.
                    if closed.as_ref().is_none_or(|(_, _, waits)| *waits && !on_step) {
                        closed = Some((step, reason, on_step));
                    }
                }
            }
        }
        match closed {
            Some((step, reason, _)) if !opened && !busy.any() => {
                self.skip(step, place, &reason);
                true
            }
            _ => opened,
        }
    }

    fn failed(&self, place: Place<'_>) -> bool {
        place.hook.is_none() && failed_so_far(&self.pipeline.scope, self.pipeline, &self.state)
    }

    pub(super) fn gate(&self, step: &Step, workflow_result: &str) -> Gate {
        let chosen = |names: &std::collections::BTreeSet<String>| {
            names.contains(&step.name)
                || step
                    .children
                    .as_ref()
                    .is_some_and(|children| children.steps.iter().any(|child| names.contains(&child.name)))
        };
        if self.state.skip_steps.contains(&step.name) {
            return Gate::never("left out by whoever started the build");
        }
        let inside_chosen_block = || {
            self.state.only_steps.iter().any(|name| {
                self.pipeline
                    .step(name)
                    .and_then(|block| block.children.as_ref())
                    .is_some_and(|children| children.find(&step.name).is_some())
            })
        };
        if !self.state.only_steps.is_empty() && !chosen(&self.state.only_steps) && !inside_chosen_block() {
            return Gate::never("not among the steps chosen for this build");
        }
        match &step.when {
            Some(when) => gate(when, self.pipeline, &self.state, workflow_result),
            None => Gate::Open,
        }
    }

    /// Whether anything of the step has begun; its `when` is not looked at again after that.
    fn touched(&self, step: &Step, place: Place<'_>) -> bool {
        if let Some(children) = &step.children {
            return children.steps.iter().any(|child| self.touched(child, place));
        }
        let id = place.id(step);
        let observed = self.state.step(&id);
        if observed.status != StepStatus::Pending || observed.attempt > 0 {
            return true;
        }
        let hooks = format!("{id}.hooks.");
        self.state.steps.range(hooks.clone()..).next().is_some_and(|(key, _)| key.starts_with(&hooks))
    }

    /// Moves a step or a block on; `true` once it and its hooks have ended.
    fn unit(&mut self, step: &'a Step, place: Place<'a>) -> bool {
        match &step.children {
            Some(children) => {
                let timeout = step.timeout.as_ref().or(place.timeout);
                self.parallel(children, Place { timeout, ..place })
            }
            None => self.leaf(step, place),
        }
    }

    fn leaf(&mut self, step: &'a Step, place: Place<'a>) -> bool {
        let id = place.id(step);
        let observed = self.state.step(&id);
        match observed.status {
            StepStatus::Pending => self.begin(step, place, &id, &observed),
            StepStatus::Running => {
                self.running(&id, &observed);
                false
            }
            StepStatus::PendingApproval => self.asked(&id, &observed) && self.leaf(step, place),
            StepStatus::Terminating => {
                self.wait(&id, WaitingOn::Stopping, observed.started_at);
                false
            }
            StepStatus::Skipped | StepStatus::Terminated => true,
            status => self.after(step, place, status),
        }
    }

    pub(super) fn begin(&mut self, step: &'a Step, place: Place<'a>, id: &str, observed: &StepState) -> bool {
        if let Some(at_ms) = observed.next_attempt_at
            && at_ms > self.state.now_ms
        {
            let spec = self.resolve(step, place, id, observed.attempt + 1);
            let max_attempts = spec.retry.max_attempts;
            self.wake(at_ms);
            self.wait(
                id,
                WaitingOn::Retry { attempt: observed.attempt + 1, max_attempts, at_ms },
                observed.finished_at,
            );
            return false;
        }
        // A step that runs because the build is being stopped runs alone.
        if observed.attempt == 0 && place.hook.is_none() && !self.state.terminate_requested {
            match self.hook(Some(&step.name), HookPoint::OnElected, step.hooks.on_elected.as_ref()) {
                None => {
                    let hook = HookRef { owner: Some(step.name.clone()), point: HookPoint::OnElected };
                    self.wait(id, WaitingOn::Hook { hook }, None);
                    return false;
                }
                Some(verdict) if verdict.status.is_bad() => {
                    let reason = format!("its on_elected hook failed: {}", verdict.reason);
                    self.emit(Action::Settle { step: id.to_owned(), status: StepStatus::Failure, reason });
                    return self.leaf(step, place);
                }
                Some(_) => {}
            }
        }
        let attempt = observed.attempt + 1;
        let spec = Box::new(self.resolve(step, place, id, attempt));
        let now = self.state.now_ms;
        let after = |ms: u64| now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX));
        let action = match (&spec.kind, place.hook_ref()) {
            (StepKind::PendingApproval(approval), _) => {
                let deadline_ms = approval.timeout_ms.map(after);
                let final_state = approval.final_state;
                if let Some(at) = deadline_ms {
                    self.wake(at);
                }
                self.wait(id, WaitingOn::Approval { deadline_ms }, Some(now));
                Action::AwaitApproval { step: id.to_owned(), deadline_ms, final_state, spec }
            }
            (_, hook) => {
                if let Some(ms) = spec.timeout_ms {
                    self.wake(after(ms));
                }
                self.wait(id, WaitingOn::Running { attempt }, Some(now));
                match hook {
                    Some(hook) => Action::RunHook { hook, step: id.to_owned(), attempt, spec },
                    None => Action::Start { step: id.to_owned(), attempt, spec },
                }
            }
        };
        self.emit(action);
        false
    }

    fn resolve(&self, step: &Step, place: Place<'_>, id: &str, attempt: u32) -> crate::spec::StepSpec {
        let interpolator = crate::resolve::interpolator(self.pipeline, &self.state, Vec::new());
        resolve(&Resolve {
            pipeline: self.pipeline,
            state: &self.state,
            step,
            id,
            attempt,
            inherited_timeout: place.timeout,
            fail_fast: crate::resolve::flag(step.fail_fast.as_ref(), true, &interpolator),
        })
    }

    pub(super) fn running(&mut self, id: &str, observed: &StepState) {
        match observed.deadline_ms {
            Some(deadline) if deadline <= self.state.now_ms => {
                self.emit(Action::Cancel { step: id.to_owned(), reason: CancelReason::Timeout });
                self.wait(id, WaitingOn::Stopping, observed.started_at);
            }
            deadline => {
                if let Some(at) = deadline {
                    self.wake(at);
                }
                self.wait(id, WaitingOn::Running { attempt: observed.attempt }, observed.started_at);
            }
        }
    }

    /// `true` when the question has just run out of time and been settled.
    fn asked(&mut self, id: &str, observed: &StepState) -> bool {
        match observed.deadline_ms {
            Some(deadline) if deadline <= self.state.now_ms => {
                let status = match observed.final_state.unwrap_or_default() {
                    FinalState::Terminated => StepStatus::Terminated,
                    FinalState::Approved => StepStatus::Approved,
                    FinalState::Denied => StepStatus::Denied,
                };
                let reason = "nobody answered in time".to_owned();
                self.emit(Action::Settle { step: id.to_owned(), status, reason });
                true
            }
            deadline_ms => {
                if let Some(at) = deadline_ms {
                    self.wake(at);
                }
                self.wait(id, WaitingOn::Approval { deadline_ms }, observed.started_at);
                false
            }
        }
    }

    /// The hooks after a step; their own result changes nothing.
    fn after(&mut self, step: &'a Step, place: Place<'a>, status: StepStatus) -> bool {
        if place.hook.is_some() {
            return true;
        }
        let outcome = if status.is_bad() { HookPoint::OnFail } else { HookPoint::OnSuccess };
        for point in [outcome, HookPoint::OnFinish] {
            if self.hook(Some(&step.name), point, step.hooks.at(point)).is_none() {
                let hook = HookRef { owner: Some(step.name.clone()), point };
                self.wait(&step.name, WaitingOn::Hook { hook }, None);
                return false;
            }
        }
        true
    }

    /// Skips what has not begun of a step.
    fn skip(&mut self, step: &Step, place: Place<'_>, reason: &str) {
        match &step.children {
            Some(children) => self.skip_rest(children, place, reason),
            None if !self.touched(step, place) => {
                self.emit(Action::Skip { step: place.id(step), reason: reason.to_owned() });
            }
            None => {}
        }
    }

    fn skip_rest(&mut self, scope: &Scope, place: Place<'_>, reason: &str) {
        for step in &scope.steps {
            self.skip(step, place, reason);
        }
    }

    fn groups(&mut self, scope: &Scope) {
        for step in &scope.steps {
            let Some(children) = &step.children else { continue };
            let group = Group {
                name: step.name.clone(),
                status: status_of(step, self.pipeline, &self.state),
                children: children.steps.iter().map(|child| child.name.clone()).collect(),
            };
            self.plan.groups.push(group);
            self.groups(children);
        }
    }
}
