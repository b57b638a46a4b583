//! `when` and `success_criteria`: does it hold, and if not, can it ever?

use serde_json::{Map, Value, json};

use crate::expression::{JsRegex, evaluate};
use crate::pipeline::{Condition, Dependency, Pipeline, Step, StepsClause, SuccessCriteria, When};
use crate::plan::verdict;
use crate::resolve::interpolator;
use crate::state::{BuildState, StepStatus};

/// Whether a step may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Not now; `forever` when no later event can open it, `on_step` when only another step can.
    Closed {
        reason: String,
        forever: bool,
        on_step: bool,
    },
}

impl Gate {
    fn closed(reason: impl Into<String>) -> Self {
        Self::Closed { reason: reason.into(), forever: false, on_step: false }
    }

    fn waits(reason: impl Into<String>) -> Self {
        Self::Closed { reason: reason.into(), forever: false, on_step: true }
    }

    pub(crate) fn never(reason: impl Into<String>) -> Self {
        Self::Closed { reason: reason.into(), forever: true, on_step: false }
    }
}

/// Looks at a step's `when`. The three kinds must all hold.
pub(crate) fn gate(when: &When, pipeline: &Pipeline, state: &BuildState, workflow_result: &str) -> Gate {
    let mut waiting = None;
    let parts = [
        branch(when, state),
        steps(when.steps.as_ref(), pipeline, state),
        condition(when.condition.as_ref(), pipeline, state, workflow_result),
    ];
    for part in parts {
        match part {
            Gate::Open => {}
            closed @ Gate::Closed { forever: true, .. } => return closed,
            closed => {
                waiting.get_or_insert(closed);
            }
        }
    }
    waiting.unwrap_or(Gate::Open)
}

fn branch(when: &When, state: &BuildState) -> Gate {
    if when.branch_only.is_none() && when.branch_ignore.is_none() {
        return Gate::Open;
    }
    let branch =
        state.branch.branch.as_deref().or_else(|| state.variables.get("CF_BRANCH")).unwrap_or_default();
    if let Some(only) = &when.branch_only
        && !only.iter().any(|entry| branch_matches(entry, branch))
    {
        return Gate::never(format!("branch `{branch}` is not in `when.branch.only`"));
    }
    if let Some(ignore) = &when.branch_ignore
        && ignore.iter().any(|entry| branch_matches(entry, branch))
    {
        return Gate::never(format!("branch `{branch}` is in `when.branch.ignore`"));
    }
    Gate::Open
}

/// An exact name, or a regular expression between slashes. A broken expression matches nothing.
fn branch_matches(entry: &str, branch: &str) -> bool {
    match JsRegex::literal(entry) {
        Some(Ok(regex)) => regex.is_match(branch),
        Some(Err(_)) => false,
        None => entry == branch,
    }
}

fn steps(clause: Option<&StepsClause>, pipeline: &Pipeline, state: &BuildState) -> Gate {
    let Some(clause) = clause else { return Gate::Open };
    let checked: Vec<(bool, bool, &Dependency)> = clause
        .dependencies()
        .iter()
        .map(|dependency| {
            let status =
                pipeline.step(&dependency.name).map(|step| verdict::status_of(step, pipeline, state));
            let holds = status.is_some_and(|status| result_matches(&dependency.on, status));
            let settled = status.is_none_or(StepStatus::is_final);
            (holds, settled, dependency)
        })
        .collect();
    match clause {
        StepsClause::All(_) => match checked.iter().find(|(holds, _, _)| !holds) {
            None => Gate::Open,
            Some(first) => {
                let dead = checked.iter().find(|(holds, settled, _)| !holds && *settled);
                let (_, _, dependency) = dead.unwrap_or(first);
                let reason = describe(dependency);
                if dead.is_some() { Gate::never(reason) } else { Gate::waits(reason) }
            }
        },
        StepsClause::Any(_) => {
            if checked.is_empty() || checked.iter().any(|(holds, _, _)| *holds) {
                return Gate::Open;
            }
            let reasons: Vec<String> =
                checked.iter().map(|(_, _, dependency)| describe(dependency)).collect();
            let reason = reasons.join(" or ");
            if checked.iter().all(|(_, settled, _)| *settled) {
                Gate::never(reason)
            } else {
                Gate::closed(reason)
            }
        }
    }
}

fn describe(dependency: &Dependency) -> String {
    let on = if dependency.on.is_empty() { "success".to_owned() } else { dependency.on.join(" or ") };
    format!("step `{}` with result {on}", dependency.name)
}

fn result_matches(on: &[String], status: StepStatus) -> bool {
    if on.is_empty() {
        // The default is success, and an approval that was given is one.
        return matches!(status, StepStatus::Success | StepStatus::Approved);
    }
    on.iter().any(|word| match word.as_str() {
        "finished" => matches!(
            status,
            StepStatus::Success
                | StepStatus::Failure
                | StepStatus::Skipped
                | StepStatus::Approved
                | StepStatus::Denied
        ),
        "pending" => matches!(status, StepStatus::Pending | StepStatus::PendingApproval),
        word => word == status.as_str(),
    })
}

fn condition(
    condition: Option<&Condition>,
    pipeline: &Pipeline,
    state: &BuildState,
    workflow_result: &str,
) -> Gate {
    let scope = || {
        expression_scope(pipeline, state, workflow_result, &|step| verdict::status_of(step, pipeline, state))
    };
    match condition.map(|condition| holds(condition, pipeline, state, &scope())) {
        None | Some(Ok(())) => Gate::Open,
        Some(Err(reason)) => Gate::closed(reason),
    }
}

/// `Ok` when the named expressions hold; the reason names the expression that does not.
fn holds(
    condition: &Condition,
    pipeline: &Pipeline,
    state: &BuildState,
    scope: &Map<String, Value>,
) -> Result<(), String> {
    let interpolator = interpolator(pipeline, state, Vec::new());
    let one = |(name, expression): &(String, String)| -> Result<(), String> {
        match evaluate(&interpolator.condition(expression), scope) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("condition `{name}` is false: {expression}")),
            Err(error) => Err(format!("condition `{name}` counts as false, {error}: {expression}")),
        }
    };
    for named in &condition.all {
        one(named)?;
    }
    let mut any = condition.any.iter().map(one);
    match any.next() {
        None => Ok(()),
        Some(first) => {
            first.or_else(|reason| if any.any(|result| result.is_ok()) { Ok(()) } else { Err(reason) })
        }
    }
}

/// Whether a scope that has ended counts as successful under its criteria.
pub(crate) fn criteria_met(
    criteria: &SuccessCriteria,
    statuses: &[(String, StepStatus)],
    pipeline: &Pipeline,
    state: &BuildState,
    workflow_result: &str,
) -> Result<(), String> {
    for (name, status) in statuses {
        let counts = match (&criteria.only, &criteria.ignore) {
            (Some(only), _) => only.contains(name),
            (None, Some(ignore)) => !ignore.contains(name),
            (None, None) => criteria.condition.is_none(),
        };
        if counts && status.is_bad() {
            return Err(format!("step `{name}` {}, and the pipeline requires its success", status.ended()));
        }
    }
    match &criteria.condition {
        Some(condition) => {
            // Criteria decide the status of a block, so they cannot ask for one that criteria decide.
            let scope = expression_scope(pipeline, state, workflow_result, &|step| {
                verdict::plain_status_of(step, state)
            });
            holds(condition, pipeline, state, &scope)
        }
        None => Ok(()),
    }
}

/// The names an expression may use when nothing is asked about the build's own result.
pub(crate) fn build_scope(pipeline: &Pipeline, state: &BuildState) -> Map<String, Value> {
    expression_scope(pipeline, state, "running", &|step| verdict::status_of(step, pipeline, state))
}

/// The names an expression may use: every variable, `steps`, every step by its own name, `workflow`.
fn expression_scope(
    pipeline: &Pipeline,
    state: &BuildState,
    workflow_result: &str,
    status: &dyn Fn(&Step) -> StepStatus,
) -> Map<String, Value> {
    let mut scope: Map<String, Value> =
        state.variables.effective().into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    let mut steps = Map::new();
    let mut pending: Vec<_> = pipeline.scope.steps.iter().collect();
    while let Some(step) = pending.pop() {
        if let Some(children) = &step.children {
            pending.extend(children.steps.iter());
        }
        let observed = state.step(&step.name);
        let mut members: Map<String, Value> = observed
            .members
            .iter()
            .map(|(name, value)| (name.clone(), Value::String(value.clone())))
            .collect();
        members.insert("output".to_owned(), json!(observed.output));
        members.insert("name".to_owned(), json!(step.name));
        members.insert("type".to_owned(), json!(step.type_name));
        members.insert("workingDirectory".to_owned(), json!(observed.working_directory));
        members.insert("result".to_owned(), json!(status(step).as_str()));
        if let Some(description) = step.fields.get("description") {
            members.insert("description".to_owned(), description.clone());
        }
        steps.insert(step.name.clone(), Value::Object(members));
    }
    for (name, step) in &steps {
        scope.insert(name.clone(), step.clone());
    }
    scope.insert("steps".to_owned(), Value::Object(steps));
    scope.insert("workflow".to_owned(), json!({ "result": workflow_result }));
    scope
}

/// Whether a step waits for the outcome of the rest of the build.
pub(crate) fn is_about_outcome(when: Option<&When>) -> bool {
    let condition = when.and_then(|when| when.condition.as_ref());
    condition.is_some_and(|condition| {
        condition.all.iter().chain(&condition.any).any(|(_, text)| text.contains("workflow.result"))
    })
}

/// Whether a step's `when` speaks about the end of the build, so that it still runs after a stop.
pub(crate) fn is_about_termination(when: Option<&When>) -> bool {
    let Some(when) = when else { return false };
    let in_condition = when.condition.as_ref().is_some_and(|condition| {
        condition.all.iter().chain(&condition.any).any(|(_, text)| text.contains("terminat"))
    });
    let in_steps = when.steps.as_ref().is_some_and(|clause| {
        clause
            .dependencies()
            .iter()
            .any(|dependency| dependency.on.iter().any(|on| on.starts_with("terminat")))
    });
    in_condition || in_steps
}
