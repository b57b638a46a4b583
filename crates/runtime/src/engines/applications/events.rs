//! Kubernetes Events about Applications, in Argo CD's words.

use slipway_crd::{Application, OperationPhase};
use slipway_reconcile::Note;

use super::is_running;

/// What happened between two states of an Application.
pub(crate) fn between(before: &Application, after: &Application) -> Vec<Note> {
    let mut notes = Vec::new();
    let note = |reason, message| Note { reason, warning: false, message };
    let moved = |from: &str, to: &str| from != to && !to.is_empty();
    let (was, is) = (&before.status, &after.status);
    if moved(was.sync.status.as_str(), is.sync.status.as_str()) {
        let message = format!("Updated sync status: {} -> {}", was.sync.status, is.sync.status);
        notes.push(note("ResourceUpdated", message));
    }
    if moved(was.health.status.as_str(), is.health.status.as_str()) {
        let cause = &is.health.message;
        let why = if cause.is_empty() { String::new() } else { format!(" ({cause})") };
        let message = format!("Updated health status: {} -> {}{why}", was.health.status, is.health.status);
        notes.push(note("ResourceUpdated", message));
    }
    let Some(state) = &is.operation_state else { return notes };
    let began = was.operation_state.as_ref().is_none_or(|old| old.started_at != state.started_at);
    let sync = state.operation.sync.clone().unwrap_or_default();
    if began {
        let by = &state.operation.initiated_by;
        let result = state.sync_result.as_ref().map(|result| result.revision.clone()).unwrap_or_default();
        let revision = [sync.revision.clone(), sync.revisions.join(", "), result].into_iter();
        let revision = revision.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| "HEAD".into());
        let message = match (by.automated, by.username.as_str()) {
            (true, _) => format!("Initiated automated sync to '{revision}'"),
            (false, "") => format!("Unknown user initiated sync to {revision}"),
            (false, user) => format!("{user} initiated sync to {revision}"),
        };
        notes.push(note("OperationStarted", message));
    }
    let ended = !is_running(after)
        && (began || was.operation_state.as_ref().is_some_and(|old| old.phase != state.phase));
    if ended {
        let result = state.sync_result.clone().unwrap_or_default();
        let revision = if result.revision.is_empty() { result.revisions.join(", ") } else { result.revision };
        let what = if sync.resources.is_empty() { "Sync operation" } else { "Partial sync operation" };
        let failed = state.phase != OperationPhase::Succeeded;
        let outcome = if failed { format!("failed: {}", state.message) } else { "succeeded".to_owned() };
        let message = format!("{what} to {revision} {outcome}");
        notes.push(Note { reason: "OperationCompleted", warning: failed, message });
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn app(status: Value) -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {}, "status": status}))
            .expect("readable")
    }

    fn words(before: Value, after: Value) -> Vec<(&'static str, String)> {
        between(&app(before), &app(after)).into_iter().map(|note| (note.reason, note.message)).collect()
    }

    #[test]
    fn the_words_are_those_that_users_grep_for() {
        let old = json!({"sync": {"status": "OutOfSync"}, "health": {"status": "Progressing"}});
        let new = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
        assert_eq!(words(old.clone(), old.clone()), []);
        assert_eq!(
            words(old, new),
            [
                ("ResourceUpdated", "Updated sync status: OutOfSync -> Synced".to_owned()),
                ("ResourceUpdated", "Updated health status: Progressing -> Healthy".to_owned()),
            ]
        );
        let operation = |phase: &str| {
            json!({"operationState": {"operation": {"sync": {"revision": "abc"}, "initiatedBy": {"automated": true}},
                "phase": phase, "message": "no", "startedAt": "2026-01-01T00:00:00Z", "syncResult": {"revision": "abc"}}})
        };
        let begun = ("OperationStarted", "Initiated automated sync to 'abc'".to_owned());
        assert_eq!(words(json!({}), operation("Running")), std::slice::from_ref(&begun));
        let done = ("OperationCompleted", "Sync operation to abc succeeded".to_owned());
        assert_eq!(words(operation("Running"), operation("Succeeded")), std::slice::from_ref(&done));
        // Begun and ended within one look.
        assert_eq!(words(json!({}), operation("Succeeded")), [begun, done]);
        let failed = words(operation("Running"), operation("Failed"));
        assert_eq!(failed, [("OperationCompleted", "Sync operation to abc failed: no".to_owned())]);
    }
}
