//! A plan as people read it.

use super::{Action, ApplyHow, SyncPlan, WaitingOn};
use std::fmt::Write;

/// The whole plan as text: what runs now, what later, what is waited for.
pub fn explain(plan: &SyncPlan) -> String {
    let mut text = String::new();
    if let Some(outcome) = &plan.outcome {
        let _ = writeln!(text, "{}: {}", outcome.phase.as_str(), outcome.message);
    }
    for waiting in &plan.waiting {
        let _ = match &waiting.on {
            WaitingOn::Time(at) => writeln!(text, "waiting: {} (until {at})", waiting.sentence),
            _ => writeln!(text, "waiting: {}", waiting.sentence),
        };
    }
    let mut group = None;
    for (index, step) in plan.steps.iter().enumerate() {
        if group != Some((step.phase, step.wave)) {
            group = Some((step.phase, step.wave));
            let _ = writeln!(text, "{} wave {}", step.phase.as_str(), step.wave);
        }
        let marker = if plan.ready.contains(&index) { "now " } else { "then" };
        let _ = writeln!(text, "  {marker} {} {} ({})", verb(&step.action), step.key, step.why);
    }
    if text.is_empty() {
        text.push_str("nothing to do\n");
    }
    text
}

fn verb(action: &Action) -> &'static str {
    match action {
        Action::Apply { how: ApplyHow::ClientSide, .. } => "apply",
        Action::Apply { how: ApplyHow::ServerSide, .. } => "apply server-side",
        Action::Apply { how: ApplyHow::Replace, .. } => "replace",
        Action::Apply { how: ApplyHow::Create, .. } => "create",
        Action::Prune { .. } => "prune",
        Action::RunHook { .. } => "run hook",
        Action::ReleaseHook { .. } => "release hook",
        Action::DeleteHook { .. } => "delete hook",
    }
}
