//! What must be true of every plan, whatever the pipeline. Tests, here and in the runner, pass every
//! plan they make through [`check`].

use std::collections::BTreeSet;

use crate::pipeline::{Mode, Pipeline};
use crate::plan::when::is_about_termination;
use crate::plan::{Action, Plan, WaitingOn};
use crate::state::{BuildState, StepStatus};

/// Everything that is wrong with a plan; empty for a good one.
pub fn check(pipeline: &Pipeline, state: &BuildState, plan: &Plan) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for action in &plan.actions {
        let id = action.step();
        let observed = state.step(id);
        if !seen.insert(id) && !matches!(action, Action::Settle { .. } | Action::Skip { .. }) {
            wrong.push(format!("{id}: two actions in one plan"));
        }
        let Some(step) = pipeline.step_by_id(id) else {
            wrong.push(format!("{id}: not a step of this pipeline"));
            continue;
        };
        match action {
            Action::Start { attempt, spec, .. } | Action::RunHook { attempt, spec, .. } => {
                if observed.status != StepStatus::Pending {
                    wrong.push(format!("{id}: started while {}", observed.status.as_str()));
                }
                if *attempt != observed.attempt + 1 || *attempt > spec.retry.max_attempts {
                    wrong.push(format!("{id}: attempt {attempt} after {}", observed.attempt));
                }
                if observed.next_attempt_at.is_some_and(|at| at > state.now_ms) {
                    wrong.push(format!("{id}: tried again too early"));
                }
                if spec.id != id {
                    wrong.push(format!("{id}: carries the work of {}", spec.id));
                }
                if state.terminate_requested && !is_about_termination(step.when.as_ref()) {
                    wrong.push(format!("{id}: started although the build is being terminated"));
                }
            }
            Action::AwaitApproval { .. } if observed.status != StepStatus::Pending => {
                wrong.push(format!("{id}: asked while {}", observed.status.as_str()));
            }
            Action::Skip { .. } if observed.status != StepStatus::Pending || observed.attempt > 0 => {
                wrong.push(format!("{id}: skipped after it had begun"));
            }
            Action::Cancel { .. } if observed.status != StepStatus::Running => {
                wrong.push(format!("{id}: cancelled while {}", observed.status.as_str()));
            }
            Action::Settle { status, .. } if observed.status.is_final() || !status.is_final() => {
                wrong.push(format!("{id}: settled from {}", observed.status.as_str()));
            }
            _ => {}
        }
    }
    ending(pipeline, state, plan, &mut wrong);
    order(pipeline, state, plan, &mut wrong);
    wrong
}

fn ending(pipeline: &Pipeline, state: &BuildState, plan: &Plan, wrong: &mut Vec<String>) {
    match &plan.finished {
        Some(_) => {
            if !plan.actions.is_empty() || !plan.waiting.is_empty() {
                wrong.push("finished, yet something is left to do".to_owned());
            }
            for (id, observed) in &state.steps {
                if observed.status.is_active() {
                    wrong.push(format!("finished while {id} is {}", observed.status.as_str()));
                }
            }
            for step in pipeline.leaves() {
                if !state.status(&step.name).is_final() {
                    wrong.push(format!("finished while {} has not ended", step.name));
                }
            }
        }
        None => {
            let moving = plan.waiting.iter().any(|waiting| {
                !matches!(
                    waiting.on,
                    WaitingOn::Step { .. } | WaitingOn::Condition { .. } | WaitingOn::Hook { .. }
                )
            });
            if plan.actions.is_empty() && !moving {
                wrong.push(
                    "not finished, yet nothing runs and nothing starts: the build would hang".to_owned(),
                );
            }
            if plan.wake_at_ms.is_none()
                && plan.waiting.iter().any(|waiting| matches!(waiting.on, WaitingOn::Retry { .. }))
            {
                wrong.push("waits for a time, yet names none to wake at".to_owned());
            }
        }
    }
}

/// In a sequential file at most one top-level step has work of its own at a time.
fn order(pipeline: &Pipeline, state: &BuildState, plan: &Plan, wrong: &mut Vec<String>) {
    if pipeline.scope.mode != Mode::Sequential || state.terminate_requested {
        return;
    }
    let starting = |name: &str| {
        plan.actions.iter().any(|action| {
            matches!(action, Action::Start { step, .. } | Action::AwaitApproval { step, .. } if step == name)
        })
    };
    let settled = |name: &str| {
        plan.actions.iter().any(|action| matches!(action, Action::Settle { step, .. } if step == name))
    };
    let busy = |name: &str| starting(name) || (state.status(name).is_active() && !settled(name));
    let mut open = Vec::new();
    for step in &pipeline.scope.steps {
        let active = match &step.children {
            None => busy(&step.name),
            Some(children) => {
                let mut leaves = Vec::new();
                children.collect_leaves(&mut leaves);
                leaves.iter().any(|leaf| busy(&leaf.name))
            }
        };
        if active {
            open.push(step.name.as_str());
        }
    }
    if open.len() > 1 {
        wrong.push(format!("sequential, yet {} run together", open.join(" and ")));
    }
}
