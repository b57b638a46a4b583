//! The steps of a canary, and how each of them fared.

use slipway_crd::analysis::AnalysisRun;

use crate::names::{self, pause};
use crate::plan::Observed;
use crate::preview::step_words;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not yet.
    Pending,
    /// Under way.
    Active,
    Passed,
    /// What it measured was bad.
    Failed,
    /// It waits for a person.
    PausedIndefinite,
    /// It waits for a person, because a measurement could not tell.
    PausedInconclusive,
    /// The update was aborted before it, or during it.
    Terminated,
}

impl State {
    /// As users of the platform know it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Active => "ACTIVE",
            Self::Passed => "PASSED",
            Self::Failed => "FAILED",
            Self::PausedIndefinite => "PAUSED_INDEFINITE",
            Self::PausedInconclusive => "PAUSED_INCONCLUSIVE",
            Self::Terminated => "TERMINATED",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// In the words of events: `setWeight: 20`.
    pub words: String,
    pub state: State,
}

pub(super) fn of(observed: &Observed) -> Vec<Step> {
    let Some(canary) = observed.rollout.canary() else { return Vec::new() };
    let steps = canary.steps.iter().enumerate();
    steps.map(|(at, step)| Step { words: step_words(step), state: state(observed, at) }).collect()
}

fn state(observed: &Observed, at: usize) -> State {
    let (rollout, status) = (&observed.rollout, &observed.rollout.status);
    if status.stable_rs.is_empty() || super::is_promoted(rollout) {
        return State::Passed;
    }
    if status.abort {
        // Where it stood is forgotten with the abort; what a run measured is not.
        let bad = |run: &&AnalysisRun| matches!(run.status.phase.as_str(), "Failed" | "Error");
        let failed = run_of(observed, at).filter(bad).is_some();
        return if failed { State::Failed } else { State::Terminated };
    }
    let current = usize::try_from(status.current_step_index.unwrap_or(0)).unwrap_or(0);
    if at < current {
        return State::Passed;
    }
    if at > current {
        return State::Pending;
    }
    let inconclusive = [pause::INCONCLUSIVE_RUN, pause::INCONCLUSIVE_EXPERIMENT];
    let reasons = || status.pause_conditions.iter().map(|one| one.reason.as_str());
    if reasons().any(|reason| inconclusive.contains(&reason)) {
        return State::PausedInconclusive;
    }
    let step = rollout.canary().and_then(|canary| canary.steps.get(at));
    let endless = step.and_then(|step| step.pause.as_ref()).is_some_and(|pause| pause.duration.is_none());
    let is_paused = rollout.spec.paused || (endless && reasons().any(|reason| reason == pause::CANARY_STEP));
    if is_paused { State::PausedIndefinite } else { State::Active }
}

/// The last run of the step, of the version that is wanted.
fn run_of(observed: &Observed, at: usize) -> Option<&AnalysisRun> {
    let (hash, at) = (&observed.rollout.status.current_pod_hash, at.to_string());
    let is = |run: &&AnalysisRun| {
        let labels = &run.metadata.labels;
        labels.get(names::STEP_INDEX) == Some(&at) && labels.get(names::HASH) == Some(hash)
    };
    observed.runs.iter().filter(is).max_by_key(|run| run.status.started_at.clone())
}
