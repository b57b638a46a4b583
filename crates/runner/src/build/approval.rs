//! Steps that wait for a person: the question, and the answer with who gave it and why.
//!
//! An answer may be there before the question (it was given to another runner of the same build), so
//! answers are kept in the journal and looked at when the step asks.

use slipway_api::agent::ApprovalDecision;
use slipway_pipeline::plan::Outcome;
use slipway_pipeline::{Pipeline, StepStatus};

use super::Build;
use crate::journal::log_of;

impl Build {
    /// The planner has made the step wait.
    pub(super) fn ask(
        &mut self,
        pipeline: &Pipeline,
        step: &str,
        deadline_ms: Option<i64>,
    ) -> anyhow::Result<()> {
        let until = deadline_ms
            .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
            .map(|time| format!(", until {}", time.round(jiff::Unit::Second).unwrap_or(time)))
            .unwrap_or_default();
        self.journal.say(log_of(step), &format!("Waiting for somebody to approve or deny{until}"));
        match self.journal.decisions.get(step).cloned() {
            Some(decision) => self.decide(pipeline, &decision),
            None => Ok(()),
        }
    }

    /// Answers from the server; each is written down once, and again means nothing.
    pub(super) fn hear(&mut self, decisions: &[ApprovalDecision]) -> anyhow::Result<()> {
        for decision in decisions {
            if self.journal.decisions.contains_key(&decision.step) {
                continue;
            }
            self.journal.decisions.insert(decision.step.clone(), decision.clone());
            if self.journal.finished.is_none()
                && self.journal.state.status(&decision.step) == StepStatus::PendingApproval
                && let Some(pipeline) = self.pipeline.clone()
            {
                self.decide(&pipeline, decision)?;
            }
            self.save()?;
        }
        Ok(())
    }

    fn decide(&mut self, pipeline: &Pipeline, decision: &ApprovalDecision) -> anyhow::Result<()> {
        let (status, word) = match decision.approved {
            true => (StepStatus::Approved, "approved"),
            false => (StepStatus::Denied, "denied"),
        };
        let why = decision.reason.as_deref().filter(|why| !why.trim().is_empty());
        let sentence = match why {
            Some(why) => format!("{word} by {}: {why}", decision.by),
            None => format!("{word} by {}", decision.by),
        };
        let mut outcome = Outcome::new(status);
        outcome.reason = Some(sentence.clone());
        outcome.members.insert("authEntity.name".to_owned(), decision.by.clone());
        outcome.members.insert("authEntity.type".to_owned(), decision.by_kind.clone());
        self.journal.say(log_of(&decision.step), &format!("The step was {sentence}"));
        let attempt = self.journal.state.step(&decision.step).attempt;
        self.settle(pipeline, &decision.step, attempt, outcome)
    }

    /// Nothing runs, and somebody has been asked.
    pub(super) fn waits_for_people(&self) -> bool {
        let mut active = self.journal.state.steps.values().filter(|step| step.status.is_active()).peekable();
        self.journal.finished.is_none()
            && active.peek().is_some()
            && active.all(|step| step.status == StepStatus::PendingApproval)
    }
}
