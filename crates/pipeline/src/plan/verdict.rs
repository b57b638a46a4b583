//! From the statuses of steps to the status of a block and of the build.

use crate::pipeline::{Pipeline, Scope, Step};
use crate::plan::when::criteria_met;
use crate::resolve::{flag, interpolator};
use crate::state::{BuildState, StepStatus};

/// How a scope ended, and the sentence that says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) status: StepStatus,
    pub(crate) reason: String,
}

/// A step's status; a block's is made from its children.
pub(crate) fn status_of(step: &Step, pipeline: &Pipeline, state: &BuildState) -> StepStatus {
    let Some(children) = &step.children else { return state.status(&step.name) };
    let statuses: Vec<StepStatus> =
        children.steps.iter().map(|child| status_of(child, pipeline, state)).collect();
    unfinished(&statuses)
        .unwrap_or_else(|| judge(children, pipeline, state, |child| status_of(child, pipeline, state)).status)
}

/// As [`status_of`], taking every child of a block at its word: no criteria, no tolerance.
pub(crate) fn plain_status_of(step: &Step, state: &BuildState) -> StepStatus {
    let Some(children) = &step.children else { return state.status(&step.name) };
    let statuses: Vec<StepStatus> =
        children.steps.iter().map(|child| plain_status_of(child, state)).collect();
    unfinished(&statuses).unwrap_or(match statuses.iter().any(|status| status.is_bad()) {
        true => StepStatus::Failure,
        false => StepStatus::Success,
    })
}

/// The status of a block that needs no judgement.
fn unfinished(children: &[StepStatus]) -> Option<StepStatus> {
    let all = |wanted: StepStatus| children.iter().all(|status| *status == wanted);
    if all(StepStatus::Pending) {
        Some(StepStatus::Pending)
    } else if !children.iter().all(|status| status.is_final()) {
        Some(StepStatus::Running)
    } else if all(StepStatus::Skipped) {
        Some(StepStatus::Skipped)
    } else {
        None
    }
}

/// Whether a step's failure is let pass: by the step, or by the scope around it.
pub(crate) fn tolerates(step: &Step, scope: &Scope, pipeline: &Pipeline, state: &BuildState) -> bool {
    let interpolator = interpolator(pipeline, state, Vec::new());
    !flag(scope.fail_fast.as_ref(), true, &interpolator)
        || !flag(step.fail_fast.as_ref(), true, &interpolator)
}

/// The end of a scope all of whose steps have ended.
pub(crate) fn judge(
    scope: &Scope,
    pipeline: &Pipeline,
    state: &BuildState,
    status: impl Fn(&Step) -> StepStatus,
) -> Verdict {
    let statuses: Vec<(String, StepStatus)> =
        scope.steps.iter().map(|step| (step.name.clone(), status(step))).collect();
    if let Some(criteria) = &scope.success_criteria {
        let so_far = if statuses.iter().any(|(_, status)| status.is_bad()) { "failure" } else { "success" };
        return match criteria_met(criteria, &statuses, pipeline, state, so_far) {
            Ok(()) => {
                Verdict { status: StepStatus::Success, reason: "its success criteria are met".to_owned() }
            }
            Err(reason) => Verdict { status: StepStatus::Failure, reason },
        };
    }
    let interpolator = interpolator(pipeline, state, Vec::new());
    let scope_strict = flag(scope.strict_fail_fast.as_ref(), false, &interpolator);
    for (step, (name, status)) in scope.steps.iter().zip(&statuses) {
        if status.is_bad() && !tolerates(step, scope, pipeline, state) {
            return Verdict { status: *status, reason: format!("step `{name}` {}", status.ended()) };
        }
    }
    for (step, (name, status)) in scope.steps.iter().zip(&statuses) {
        // A block that lets its failures pass is not made strict by its own flag.
        let lenient_block = step.children.is_some() && !flag(step.fail_fast.as_ref(), true, &interpolator);
        let step_strict = !lenient_block && flag(step.strict_fail_fast.as_ref(), false, &interpolator);
        let failed = status.is_bad() || (scope_strict && hidden_failure(step, pipeline, state));
        if failed && (scope_strict || step_strict) {
            let reason = format!("step `{name}` failed, and strict_fail_fast counts it");
            return Verdict { status: StepStatus::Failure, reason };
        }
    }
    Verdict { status: StepStatus::Success, reason: "all steps succeeded".to_owned() }
}

/// A child that failed inside a block which came out well, unless the block lets everything pass.
fn hidden_failure(step: &Step, pipeline: &Pipeline, state: &BuildState) -> bool {
    let Some(children) = &step.children else { return false };
    let interpolator = interpolator(pipeline, state, Vec::new());
    if !flag(step.fail_fast.as_ref(), true, &interpolator) {
        return false;
    }
    children
        .steps
        .iter()
        .any(|child| status_of(child, pipeline, state).is_bad() || hidden_failure(child, pipeline, state))
}

/// Whether anything has failed so far that its own step does not wave through: `workflow.result`.
pub(crate) fn failed_so_far(scope: &Scope, pipeline: &Pipeline, state: &BuildState) -> bool {
    let interpolator = interpolator(pipeline, state, Vec::new());
    scope.steps.iter().any(|step| {
        let own = flag(step.fail_fast.as_ref(), true, &interpolator)
            || flag(step.strict_fail_fast.as_ref(), false, &interpolator);
        own && status_of(step, pipeline, state).is_bad()
            || step.children.as_ref().is_some_and(|children| {
                children.success_criteria.is_none() && own && failed_so_far(children, pipeline, state)
            })
    })
}
