//! A typed step whose definition has several steps: a pipeline inside of the step.
//!
//! In: an attempt of the step, and what its definition stands for. Out: started and stopped attempts of the steps
//! inside, in the folders of ids of their own, and the end of the step around them. The same planner decides; the
//! state is in the journal and is written before an effect, as for the pipeline itself.

use slipway_pipeline::plan::{Export, Outcome, apply, finish};
use slipway_pipeline::variables::Layer;
use slipway_pipeline::{Action, BuildState, BuildStatus, Pipeline, StepState, StepStatus, plan};

use super::Build;
use crate::attempt::write_task;
use crate::executor::Inside;
use crate::journal::{Inner, Segment, log_of};
use crate::layout::now_ms;
use crate::task::{Exit, How};

/// Of a step inside; names of steps hold no dot, so it meets no other id.
pub(super) fn inner_id(step: &str, inner: &str) -> String {
    format!("{step}.inner.{inner}")
}

impl Build {
    /// The attempt of the step around has been taken up; nothing inside has begun.
    pub(super) fn open_inner(&mut self, step: &str, attempt: u32, inside: Inside) {
        let mut state = BuildState {
            variables: self.journal.state.variables.clone(),
            branch: self.journal.state.branch.clone(),
            ..BuildState::default()
        };
        for (name, value) in inside.variables {
            state.variables.set(Layer::CfExport, name, value);
        }
        self.journal.inner.insert(step.to_owned(), Inner { attempt, yaml: inside.yaml, state });
    }

    /// Looks at what runs inside, does what the planner says, and ends the step when nothing is left.
    pub(super) fn look_inside(&mut self, step: &str, attempt: u32, status: StepStatus) -> anyhow::Result<()> {
        let Some(mut inner) = self.journal.inner.get(step).cloned() else { return Ok(()) };
        let Some(pipeline) = Pipeline::parse(&inner.yaml).0 else { return Ok(()) };
        inner.state.terminate_requested |= status == StepStatus::Terminating;
        loop {
            self.look_at_steps(step, &pipeline, &mut inner)?;
            inner.state.now_ms = now_ms();
            let planned = plan(&pipeline, &inner.state);
            if let Some(finished) = planned.finished {
                return self.close_inner(step, attempt, inner, finished.status, &finished.reason);
            }
            self.inner_wake = planned.wake_at_ms;
            if planned.actions.is_empty() {
                self.journal.inner.insert(step.to_owned(), inner);
                return Ok(());
            }
            for action in &planned.actions {
                self.intend_inside(step, &pipeline, &mut inner, action)?;
            }
            self.journal.inner.insert(step.to_owned(), inner.clone());
            self.save()?;
        }
    }

    fn look_at_steps(&mut self, step: &str, pipeline: &Pipeline, inner: &mut Inner) -> anyhow::Result<()> {
        for (name, attempt, status) in active(&inner.state) {
            let id = inner_id(step, &name);
            let Some(exit) = self.tend(&id, attempt, status)? else { continue };
            let at = self.dir.attempt(&id, attempt);
            if exit.how == How::Interrupted && self.may_try_again(&id, status) {
                let why = exit.message.clone().unwrap_or_default();
                let line =
                    format!("Attempt {attempt} of `{name}` was interrupted: {why}. A new attempt starts");
                self.journal.say(log_of(step), &line);
                start_over(inner.state.steps.entry(name.clone()).or_default());
            } else {
                let outcome = self.outcome(&id, &exit);
                let failed = outcome.status == StepStatus::Failure;
                let reason = outcome.reason.clone().unwrap_or_default();
                inner.state.now_ms = now_ms();
                let recorded = finish(pipeline, &mut inner.state, &name, attempt, outcome)?;
                for error in recorded.refused {
                    self.journal.say(log_of(step), &format!("Not exported: {error}"));
                }
                if failed {
                    self.journal.say(log_of(step), &format!("`{name}` did not succeed: {reason}"));
                }
                self.hide(exit);
            }
            self.journal.inner.insert(step.to_owned(), inner.clone());
            self.save()?;
            at.scrub();
        }
        Ok(())
    }

    /// What a step inside exported as a secret is one from now on.
    fn hide(&mut self, exit: Exit) {
        for export in exit.exports.into_iter().filter(|export| export.masked) {
            if self.journal.state.variables.try_set(Layer::CfExport, &export.name, &export.value).is_ok() {
                self.journal.state.variables.encrypt(export.name);
            }
        }
        self.masker = super::masker(&self.journal, &self.taken);
    }

    fn intend_inside(
        &mut self,
        step: &str,
        pipeline: &Pipeline,
        inner: &mut Inner,
        action: &Action,
    ) -> anyhow::Result<()> {
        let (name, attempt, spec) = match action {
            Action::Start { step, attempt, spec } | Action::RunHook { step, attempt, spec, .. } => {
                (step, *attempt, spec)
            }
            Action::AwaitApproval { step: name, .. } => {
                apply(&mut inner.state, action)?;
                let mut outcome = Outcome::new(StepStatus::Failure);
                outcome.reason = Some("a step inside of a typed step cannot ask anybody".to_owned());
                finish(pipeline, &mut inner.state, name, 1, outcome)?;
                return Ok(());
            }
            other => return Ok(apply(&mut inner.state, other)?),
        };
        let id = inner_id(step, name);
        let mut spec = spec.clone();
        spec.id = id.clone();
        let at = self.dir.attempt(&id, attempt);
        let prepared = self
            .context
            .executor
            .prepare(&spec, &self.place(attempt, &at, &spec, inner.state.variables.effective()));
        apply(&mut inner.state, action)?;
        self.journal.say(log_of(step), &format!("Step `{name}` of `{step}`"));
        match prepared {
            Ok(task) => {
                write_task(&at, &task)?;
                if let Some(directory) = crate::executor::directory(&spec) {
                    self.journal.directories.insert(id.clone(), directory);
                }
                let output = Segment::Output { step: id, attempt };
                self.journal.logs.entry(log_of(step).to_owned()).or_default().push(output);
            }
            Err(refusal) => {
                let mut outcome = Outcome::new(StepStatus::Failure);
                outcome.reason = Some(refusal.to_string());
                self.journal.say(log_of(step), &refusal.to_string());
                finish(pipeline, &mut inner.state, name, attempt, outcome)?;
            }
        }
        Ok(())
    }

    /// The end of the step: all that was exported inside is the step's own.
    fn close_inner(
        &mut self,
        step: &str,
        attempt: u32,
        inner: Inner,
        status: BuildStatus,
        reason: &str,
    ) -> anyhow::Result<()> {
        self.journal.inner.remove(step);
        self.inner_wake = None;
        let status = match status {
            BuildStatus::Success => StepStatus::Success,
            BuildStatus::Terminated | BuildStatus::Terminating => StepStatus::Terminated,
            _ => StepStatus::Failure,
        };
        let mut outcome = Outcome::new(status);
        outcome.reason = (status != StepStatus::Success).then(|| reason.to_owned());
        let failed = inner.state.steps.values().find(|step| step.status == StepStatus::Failure);
        outcome.exit = failed.map_or(Some(0), |step| step.exit);
        let mut ended: Vec<&StepState> = inner.state.steps.values().collect();
        ended.sort_by_key(|step| step.finished_at);
        let masked = |name: &str| self.journal.state.variables.is_encrypted(name);
        for (name, value) in ended.iter().flat_map(|step| step.exports.iter()) {
            outcome.output.insert(name.clone(), value.clone());
            outcome.exports.push(Export { name: name.clone(), value: value.clone(), mask: masked(name) });
        }
        let Some(pipeline) = self.pipeline.clone() else { return Ok(()) };
        self.settle(&pipeline, step, attempt, outcome)?;
        self.masker = super::masker(&self.journal, &self.taken);
        self.save()
    }
}

/// Steps that something has to be done for.
pub(super) fn active(state: &BuildState) -> Vec<(String, u32, StepStatus)> {
    let active = |step: &StepState| matches!(step.status, StepStatus::Running | StepStatus::Terminating);
    state
        .steps
        .iter()
        .filter(|(_, step)| active(step))
        .map(|(id, step)| (id.clone(), step.attempt, step.status))
        .collect()
}

/// The attempt is over, and nobody knows how far it came: another one begins.
pub(super) fn start_over(state: &mut StepState) {
    state.status = StepStatus::Pending;
    state.finished_at = Some(now_ms());
    state.deadline_ms = None;
    state.next_attempt_at = None;
}
