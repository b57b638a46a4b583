//! From the end of an attempt to the planner's state.

use slipway_pipeline::plan::{Export, Outcome, finish};
use slipway_pipeline::variables::Layer;
use slipway_pipeline::{Pipeline, StepStatus};

use super::inner::start_over;
use super::{Build, masker};
use crate::executor::Refusal;
use crate::journal::log_of;
use crate::layout::now_ms;
use crate::task::{Exit, How};
use slipway_pipeline::system::of_revision;

/// A step that takes the machine down with it is not started for ever.
const INTERRUPTIONS_MAX: u32 = 3;
const MAIN_CLONE: &str = "main_clone";

impl Build {
    /// Records how an attempt ended, in the journal and in the log.
    pub(super) fn record(&mut self, step: &str, attempt: u32, exit: Exit) -> anyhow::Result<()> {
        let at = self.dir.attempt(step, attempt);
        if exit.how == How::Interrupted && self.try_again(step, attempt, &exit) {
            self.save()?;
            at.scrub();
            return Ok(());
        }
        self.read_tests(step);
        let outcome = self.outcome(step, &exit);
        let Some(pipeline) = self.pipeline.clone() else { return Ok(()) };
        self.settle(&pipeline, step, attempt, outcome)?;
        self.note_image(&pipeline, step, &exit);
        if step == MAIN_CLONE {
            self.note_revision(&exit);
        }
        self.masker = masker(&self.journal, &self.taken);
        self.save()?;
        at.scrub();
        Ok(())
    }

    /// A step that this executor cannot run has failed without having begun.
    pub(super) fn refuse(
        &mut self,
        pipeline: &Pipeline,
        step: &str,
        attempt: u32,
        refusal: &Refusal,
    ) -> anyhow::Result<()> {
        let mut outcome = Outcome::new(StepStatus::Failure);
        outcome.reason = Some(refusal.to_string());
        self.settle(pipeline, step, attempt, outcome)
    }

    pub(super) fn settle(
        &mut self,
        pipeline: &Pipeline,
        step: &str,
        attempt: u32,
        outcome: Outcome,
    ) -> anyhow::Result<()> {
        let fine = matches!(outcome.status, StepStatus::Success | StepStatus::Approved | StepStatus::Denied);
        let (failed, reason) = (!fine, outcome.reason.clone());
        self.journal.state.now_ms = now_ms();
        let recorded = finish(pipeline, &mut self.journal.state, step, attempt, outcome)?;
        for error in recorded.refused {
            self.journal.say(log_of(step), &format!("Not exported: {error}"));
        }
        if failed {
            let reason = self.journal.state.step(step).reason.or(reason).unwrap_or_default();
            self.journal.say(log_of(step), &format!("The step did not succeed: {reason}"));
        }
        if let Some(at) = recorded.retry_at_ms {
            let seconds = (at - now_ms()).max(0).div_euclid(1000);
            self.journal.say(log_of(step), &format!("It is tried again in {seconds} s"));
        }
        Ok(())
    }

    pub(super) fn outcome(&self, step: &str, exit: &Exit) -> Outcome {
        let status = match exit.how {
            _ if exit.is_success() => StepStatus::Success,
            How::Cancelled => StepStatus::Terminated,
            _ => StepStatus::Failure,
        };
        let mut outcome = Outcome::new(status);
        outcome.exit = exit.code;
        outcome.reason = exit.message.clone().or_else(|| {
            (status == StepStatus::Failure)
                .then(|| format!("its command ended with exit code {}", exit.code.unwrap_or(-1)))
        });
        outcome.exports = exit
            .exports
            .iter()
            .map(|export| Export {
                name: export.name.clone(),
                value: export.value.clone(),
                mask: export.masked,
            })
            .collect();
        outcome.output =
            exit.exports.iter().map(|export| (export.name.clone(), export.value.clone())).collect();
        outcome.members = exit.members.clone();
        outcome.working_directory =
            exit.working_directory.clone().or_else(|| self.journal.directories.get(step).cloned());
        outcome
    }

    /// Counts of the tests that the step ran, if it said where its reports are.
    fn read_tests(&mut self, step: &str) {
        let Some(patterns) = self.journal.junit.get(step) else { return };
        let directory = self.journal.directories.get(step).map_or("", String::as_str);
        let below = directory.strip_prefix(crate::layout::VOLUME).unwrap_or_default().trim_start_matches('/');
        let counts = crate::junit::read(&self.dir.volume(), std::path::Path::new(below), patterns);
        let Some(mut counts) = counts else {
            let line = format!("No test report was found at {patterns}");
            return self.journal.say(log_of(step), &line);
        };
        let hidden = |name: &String| self.masker.mask_whole(name);
        for names in [&mut counts.failed_cases, &mut counts.passed_cases, &mut counts.skipped_cases] {
            *names = names.iter().map(hidden).collect();
        }
        let line =
            format!("Tests: {} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
        self.journal.say(log_of(step), &line);
        self.journal.tests.insert(step.to_owned(), counts);
    }

    /// Counts an interruption, and says whether another attempt may begin.
    pub(super) fn may_try_again(&mut self, id: &str, status: StepStatus) -> bool {
        let count = self.journal.interruptions.entry(id.to_owned()).or_default();
        *count += 1;
        *count <= INTERRUPTIONS_MAX && status != StepStatus::Terminating
    }

    /// Nobody knows how far the attempt came: it is over, and another one begins.
    fn try_again(&mut self, step: &str, attempt: u32, exit: &Exit) -> bool {
        if !self.may_try_again(step, self.journal.state.status(step)) {
            return false;
        }
        let why = exit.message.clone().unwrap_or_default();
        self.journal
            .say(log_of(step), &format!("Attempt {attempt} was interrupted: {why}. A new attempt starts"));
        if let Some(state) = self.journal.state.steps.get_mut(step) {
            start_over(state);
        }
        true
    }

    /// A build that no commit started learns its revision from the main clone.
    fn note_revision(&mut self, exit: &Exit) {
        let member = |name: &str| exit.members.get(name).map(String::as_str);
        let Some(sha) = member("revision") else { return };
        let author = member("commit.author").unwrap_or_default();
        let message = member("commit.message").unwrap_or_default();
        for (name, value) in of_revision(sha, member("branch"), author, message) {
            if self.journal.state.variables.get(name).is_none() {
                self.journal.state.variables.set(Layer::System, name, value);
            }
        }
        if self.journal.state.branch.branch.is_none() {
            self.journal.state.branch.branch = member("branch").map(str::to_owned);
        }
    }
}
