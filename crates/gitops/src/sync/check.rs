//! What must be true of every plan, whatever it was made from. Every test runs its plans through this.

use super::{Action, OutcomePhase, SyncPlan};
use crate::compare::{Comparison, SyncCode};
use crate::object::ResourceKey;
use std::collections::BTreeSet;

/// Sentences about what is wrong with a plan; none for a sound one.
pub fn check(plan: &SyncPlan, comparison: &Comparison) -> Vec<String> {
    let mut wrong = Vec::new();
    let desired: BTreeSet<&ResourceKey> =
        comparison.resources.iter().filter(|r| r.target.is_some()).map(|r| &r.key).collect();
    let mut seen = BTreeSet::new();
    for step in &plan.steps {
        let name = match step.action {
            Action::Apply { .. } => "apply",
            Action::Prune { .. } => "prune",
            Action::RunHook { .. } => "run",
            Action::ReleaseHook { .. } => "release",
            Action::DeleteHook { .. } => "delete",
        };
        if !seen.insert((step.phase, step.key.clone(), name)) {
            wrong.push(format!("{name} {} twice in {}", step.key, step.phase.as_str()));
        }
        if let Action::Prune { key, uid, .. } = &step.action {
            if desired.contains(key) {
                wrong.push(format!("{key} is pruned although it is desired"));
            }
            if !comparison.resources.iter().any(|r| r.key == *key && r.requires_pruning && r.live.is_some()) {
                wrong.push(format!("{key} is pruned although the comparison does not say so"));
            }
            if uid.is_empty() {
                wrong.push(format!("{key} is pruned without its UID"));
            }
        }
        if let Action::Apply { object, .. } = &step.action
            && !desired.contains(&object.key())
            && object.key().kind != "Namespace"
        {
            wrong.push(format!("{} is applied although it is not desired", step.key));
        }
    }
    let writes: Vec<_> = plan
        .steps
        .iter()
        .filter(|s| matches!(s.action, Action::Apply { .. } | Action::Prune { .. } | Action::RunHook { .. }))
        .map(|s| (s.phase, s.wave))
        .collect();
    if !writes.is_sorted() {
        wrong.push("waves do not ascend".into());
    }
    let is_write = |index: &usize| {
        matches!(
            plan.steps[*index].action,
            Action::Apply { .. } | Action::Prune { .. } | Action::RunHook { .. }
        )
    };
    let groups: BTreeSet<_> = plan
        .ready
        .iter()
        .filter(|i| is_write(i))
        .map(|i| (plan.steps[*i].phase, plan.steps[*i].wave))
        .collect();
    if groups.len() > 1 {
        wrong.push("steps of two waves are ready at once".into());
    }
    if plan.outcome.is_some() && !plan.ready.is_empty() {
        wrong.push("it is over and yet there are steps to run".into());
    }
    if plan.outcome.is_none() && plan.ready.is_empty() && plan.waiting.is_empty() && plan.dry_run.is_empty() {
        wrong.push("nothing to run, nothing to wait for, and no outcome".into());
    }
    let synced = comparison.sync_status == SyncCode::Synced
        && comparison.resources.iter().all(|r| r.status == Some(SyncCode::Synced));
    if synced
        && plan
            .steps
            .iter()
            .any(|s| !matches!(s.action, Action::Apply { force: true, .. }) && s.key.kind != "Namespace")
    {
        wrong.push("everything is in sync and yet there are steps".into());
    }
    if comparison.context.error.is_some()
        && !matches!(plan.outcome.as_ref().map(|o| o.phase), Some(OutcomePhase::Error))
    {
        wrong.push("the comparison failed and yet something is planned".into());
    }
    wrong
}
