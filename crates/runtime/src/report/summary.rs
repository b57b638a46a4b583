//! One sentence about an Application in plain words: what it is doing or waiting for, or what a person has to do.

use slipway_crd::{Application, ConditionType, HealthCode, OperationPhase, SyncCode, names};
use slipway_gitops::refresh;

use super::view::compared_revision;
use crate::engines::applications::is_running;

/// Of an operation that has not begun.
pub(crate) const REQUESTED: &str = "A sync was requested and starts shortly.";

pub(super) fn summary(app: &Application, waiting: &[String], anything_live: bool) -> String {
    let status = &app.status;
    let at = compared_revision(app).map_or("the target revision".to_owned(), |sha| short(&sha));
    if app.metadata.deletion_timestamp.is_some() {
        return "Being deleted, together with the resources it deployed.".to_owned();
    }
    if refresh::is_skipped(app) {
        return format!("Reconciliation is paused by the annotation {}.", names::SKIP_RECONCILE);
    }
    let unreadable = status
        .conditions
        .iter()
        .find(|c| matches!(c.kind, ConditionType::InvalidSpecError | ConditionType::ComparisonError));
    if let Some(error) = unreadable {
        let why = error.message.trim_end_matches('.');
        let what = match error.kind {
            ConditionType::InvalidSpecError => "The Application's spec is not valid",
            _ => "Can't render the manifests in Git",
        };
        let rest = if anything_live { "The deployed version keeps running." } else { "Nothing is deployed." };
        return format!("{what}: {why}. {rest}");
    }
    if app.operation.is_some() && !is_running(app) {
        return REQUESTED.to_owned();
    }
    let state = status.operation_state.as_ref();
    if let Some(state) = state.filter(|state| state.phase.is_under_way()) {
        let revision = state.sync_result.as_ref().map(|r| short(&r.revision)).filter(|sha| !sha.is_empty());
        let what = revision.unwrap_or(at);
        let why = waiting.first().cloned().unwrap_or_else(|| state.message.clone());
        let why = why.trim_end_matches('.');
        return match state.phase {
            OperationPhase::Terminating => "The sync is being terminated.".to_owned(),
            _ if state.finished_at.is_some() => format!("The sync to {what} failed: {why}."),
            _ if why.is_empty() => format!("Syncing to {what}."),
            _ => format!("Syncing to {what}: {why}."),
        };
    }
    if let Some(condition) = status.conditions.iter().find(|c| c.kind == ConditionType::SyncError) {
        let why = condition.message.trim_end_matches('.');
        return format!("{why}. Push a fix, or sync manually.");
    }
    let differing = status.resources.iter().filter(|r| r.status == SyncCode::OutOfSync).count();
    if status.sync.status == SyncCode::OutOfSync {
        let total = status.resources.len();
        let differ = if differing == 1 { "differs" } else { "differ" };
        let what = format!("{differing} of {total} resources {differ} from {at}");
        return match (app.spec.automation(), waiting.first()) {
            (Some(_), Some(wait)) => format!("{what}. {}.", wait.trim_end_matches('.')),
            (Some(_), None) if status.resources.iter().any(|r| r.requires_pruning) => {
                format!(
                    "{what}; some are no longer in Git and automatic pruning is off: sync with prune to delete them."
                )
            }
            (Some(_), None) => format!("{what}; a sync will start shortly."),
            (None, _) => format!("{what}; sync to apply the changes."),
        };
    }
    let Some(code) = status.health.status.known() else {
        return "Not compared yet.".to_owned();
    };
    let culprits = status.health.message.trim_end_matches('.');
    let culprits = culprits.strip_prefix("Caused by ").unwrap_or(culprits);
    let why = if culprits.is_empty() { String::new() } else { format!(": {culprits}") };
    match code {
        HealthCode::Healthy => format!("Synced to {at} and healthy."),
        HealthCode::Progressing => format!("Synced to {at}; progressing{why}."),
        HealthCode::Degraded => format!("Synced to {at}; degraded{why}."),
        HealthCode::Suspended => format!("Synced to {at}; suspended{why}."),
        HealthCode::Missing => format!("Synced to {at}; missing{why}."),
        HealthCode::Unknown => format!("Synced to {at}; health unknown{why}."),
    }
}

fn short(sha: &str) -> String {
    sha.chars().take(7).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::view::tests::app;

    #[test]
    fn the_summary_is_one_plain_sentence() {
        let with = |status: Value| {
            let mut app = app("", &["https://a"]);
            app.status = serde_json::from_value(status).expect("a status");
            app
        };
        let broken = |kind: &str| {
            with(
                json!({"conditions": [{"type": kind, "message": "a.yaml:3:1: no."}], "sync": {"status": "Unknown"}}),
            )
        };
        let compared = |health: Value| {
            with(json!({"sync": {"status": "Synced", "revision": "dcde864f00"}, "health": health}))
        };
        let running = with(json!({"operationState": {"operation": {}, "phase": "Running", "startedAt": "x",
            "syncResult": {"revision": "dcde864f00"}}}));
        let waits = ["Waiting for hook Job/migrate to finish".to_owned()];
        for (app, waiting, live, expected) in [
            (
                broken("ComparisonError"),
                &[][..],
                true,
                "Can't render the manifests in Git: a.yaml:3:1: no. The deployed version keeps running.",
            ),
            (
                broken("ComparisonError"),
                &[],
                false,
                "Can't render the manifests in Git: a.yaml:3:1: no. Nothing is deployed.",
            ),
            (
                broken("InvalidSpecError"),
                &[],
                false,
                "The Application's spec is not valid: a.yaml:3:1: no. Nothing is deployed.",
            ),
            (
                compared(json!({"status": "Degraded", "message": "Caused by Deployment/web"})),
                &[],
                true,
                "Synced to dcde864; degraded: Deployment/web.",
            ),
            (compared(json!({"status": "Healthy"})), &[], true, "Synced to dcde864 and healthy."),
            (running, &waits, true, "Syncing to dcde864: Waiting for hook Job/migrate to finish."),
        ] {
            assert_eq!(summary(&app, waiting, live), expected);
        }
    }
}
