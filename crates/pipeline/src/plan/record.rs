//! Writing down what happened: the report half of observe → plan → apply → report.
//!
//! The runner calls [`apply`] when it has taken an action up and [`finish`] when a step has ended.
//! Both refuse what does not fit the state, so a late answer of an attempt that was given up changes
//! nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::pipeline::Pipeline;
use crate::plan::{Action, CancelReason};
use crate::resolve::{interpolator, retry};
use crate::spec::Retry;
use crate::state::{BuildState, StepState, StepStatus};
use crate::variables::{Layer, VariableError};

/// Longest pause between two attempts, whatever the factor says.
const RETRY_DELAY_SECONDS_MAX: f64 = 86_400.0;

/// What a step left behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// `success`, `failure`, `terminated`, `approved` or `denied`.
    pub status: StepStatus,
    pub exit: Option<i32>,
    pub reason: Option<String>,
    pub exports: Vec<Export>,
    pub members: BTreeMap<String, String>,
    pub output: BTreeMap<String, String>,
    pub working_directory: Option<String>,
}

impl Outcome {
    pub fn new(status: StepStatus) -> Self {
        Self {
            status,
            exit: None,
            reason: None,
            exports: Vec::new(),
            members: BTreeMap::new(),
            output: BTreeMap::new(),
            working_directory: None,
        }
    }
}

/// One `cf_export`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    pub name: String,
    pub value: String,
    pub mask: bool,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    /// The step failed and will be tried again then.
    pub retry_at_ms: Option<i64>,
    /// Exports that were refused; the step's log should say so.
    pub refused: Vec<VariableError>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("there is no step `{0}` in this pipeline")]
    UnknownStep(String),
    #[error("step `{step}` is {status}, so this cannot be recorded; plan again")]
    WrongStatus { step: String, status: &'static str },
    #[error("attempt {given} of step `{step}` is over; attempt {current} is the current one")]
    StaleAttempt { step: String, given: u32, current: u32 },
    #[error("`{status}` is not an end of step `{step}`")]
    NotAnEnd { step: String, status: &'static str },
}

/// Records that an action has been taken up, at `state.now_ms`.
pub fn apply(state: &mut BuildState, action: &Action) -> Result<(), RecordError> {
    let now = state.now_ms;
    let step = state.steps.entry(action.step().to_owned()).or_default();
    let wrong = |step: &StepState| {
        Err(RecordError::WrongStatus { step: action.step().to_owned(), status: step.status.as_str() })
    };
    match action {
        Action::Start { attempt, spec, .. } | Action::RunHook { attempt, spec, .. } => {
            if step.status != StepStatus::Pending || *attempt != step.attempt + 1 {
                return wrong(step);
            }
            let timeout = spec.timeout_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
            *step = StepState {
                status: StepStatus::Running,
                attempt: *attempt,
                started_at: Some(now),
                deadline_ms: timeout.map(|ms| now.saturating_add(ms)),
                exports: std::mem::take(&mut step.exports),
                ..StepState::default()
            };
            state.started_at.get_or_insert(now);
        }
        Action::AwaitApproval { deadline_ms, final_state, .. } => {
            if step.status != StepStatus::Pending {
                return wrong(step);
            }
            *step = StepState {
                status: StepStatus::PendingApproval,
                attempt: 1,
                started_at: Some(now),
                deadline_ms: *deadline_ms,
                final_state: Some(*final_state),
                ..StepState::default()
            };
            state.started_at.get_or_insert(now);
        }
        Action::Skip { reason, .. } => {
            if step.status != StepStatus::Pending {
                return wrong(step);
            }
            step.status = StepStatus::Skipped;
            step.finished_at = Some(now);
            step.reason = Some(reason.clone());
        }
        Action::Settle { status, reason, .. } => {
            if step.status.is_final() {
                return wrong(step);
            }
            step.status = *status;
            step.finished_at = Some(now);
            step.next_attempt_at = None;
            step.reason = Some(reason.clone());
        }
        Action::Cancel { reason, .. } => {
            if step.status != StepStatus::Running {
                return wrong(step);
            }
            step.status = StepStatus::Terminating;
            step.cancel = Some(*reason);
        }
    }
    Ok(())
}

/// Records the end of an attempt, at `state.now_ms`; a failure that may be tried again goes back to
/// pending with the time of the next attempt.
pub fn finish(
    pipeline: &Pipeline,
    state: &mut BuildState,
    id: &str,
    attempt: u32,
    outcome: Outcome,
) -> Result<Recorded, RecordError> {
    let step = pipeline.step_by_id(id).ok_or_else(|| RecordError::UnknownStep(id.to_owned()))?;
    let observed = state.step(id);
    if observed.attempt != attempt {
        return Err(RecordError::StaleAttempt {
            step: id.to_owned(),
            given: attempt,
            current: observed.attempt,
        });
    }
    if !observed.status.is_active() {
        return Err(RecordError::WrongStatus { step: id.to_owned(), status: observed.status.as_str() });
    }
    if !outcome.status.is_final() || outcome.status == StepStatus::Skipped {
        return Err(RecordError::NotAnEnd { step: id.to_owned(), status: outcome.status.as_str() });
    }
    let retry = retry(step.retry.as_ref(), &interpolator(pipeline, state, Vec::new()));
    let (status, reason) = ended(&observed, &outcome);
    let now = state.now_ms;
    let mut recorded = Recorded::default();
    let again = status == StepStatus::Failure
        && attempt < retry.max_attempts
        && !state.terminate_requested
        && observed.cancel != Some(CancelReason::BuildTerminated);
    for export in &outcome.exports {
        match state.variables.try_set(Layer::CfExport, export.name.as_str(), export.value.as_str()) {
            Ok(()) if export.mask => state.variables.encrypt(export.name.as_str()),
            Ok(()) => {}
            Err(error) => recorded.refused.push(error),
        }
    }
    let entry = state.steps.entry(id.to_owned()).or_default();
    entry.exports.extend(outcome.exports.iter().map(|export| (export.name.clone(), export.value.clone())));
    entry.exit = outcome.exit;
    entry.members = outcome.members;
    entry.output = outcome.output;
    entry.working_directory = outcome.working_directory;
    entry.finished_at = Some(now);
    entry.deadline_ms = None;
    entry.cancel = None;
    entry.reason = reason;
    if again {
        let at = now.saturating_add(delay_ms(&retry, attempt));
        entry.status = StepStatus::Pending;
        entry.next_attempt_at = Some(at);
        recorded.retry_at_ms = Some(at);
    } else {
        entry.status = status;
    }
    Ok(recorded)
}

/// A step that was being stopped ends as the stop says, unless it got through after all.
fn ended(observed: &StepState, outcome: &Outcome) -> (StepStatus, Option<String>) {
    if outcome.status == StepStatus::Success {
        return (StepStatus::Success, outcome.reason.clone());
    }
    match observed.cancel {
        Some(CancelReason::Timeout) => {
            (StepStatus::Failure, Some("it ran longer than its timeout".to_owned()))
        }
        Some(CancelReason::BuildTerminated) => {
            (StepStatus::Terminated, Some("the build was terminated".to_owned()))
        }
        None => (outcome.status, outcome.reason.clone()),
    }
}

/// The documented back-off: each pause is the one before it raised to the factor (5 s, 25 s, 625 s for 2).
fn delay_ms(retry: &Retry, attempt: u32) -> i64 {
    let exponent =
        retry.exponential_factor.powi(i32::try_from(attempt).unwrap_or(i32::MAX).saturating_sub(1));
    let seconds = retry.delay_seconds.powf(exponent).clamp(0.0, RETRY_DELAY_SECONDS_MAX);
    (seconds * 1000.0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_as_documented_and_stay_bounded() {
        let retry = Retry { max_attempts: 9, delay_seconds: 5.0, exponential_factor: 2.0 };
        assert_eq!([1, 2, 3].map(|attempt| delay_ms(&retry, attempt)), [5_000, 25_000, 625_000]);
        assert_eq!(delay_ms(&retry, 8), 86_400_000);
        let flat = Retry { exponential_factor: 1.0, ..retry };
        assert_eq!([1, 2, 8].map(|attempt| delay_ms(&flat, attempt)), [5_000; 3]);
    }
}
