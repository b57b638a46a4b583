//! What a sync did to each object, as far as it is told.
//!
//! In: the state of an operation on the custom resource, whose controller ever wrote it. Out: one entry for each object and hook, in the
//! order of the sync, bounded in number and length. Knows no engine and no manifest.

use slipway_api::application as wire;
use slipway_crd::{OperationState, ResourceResult};

/// Of thousands nobody reads more, and a report has a limit.
const TOLD_MAX: usize = 200;
const MESSAGE_CHARS_MAX: usize = 300;
const DONE: [&str; 3] = ["Synced", "Pruned", "Succeeded"];

/// What is told, and how many are not.
pub(super) fn of(state: &OperationState) -> (Vec<wire::ResultOfSync>, usize) {
    let all = state.sync_result.as_ref().map(|result| result.resources.as_slice()).unwrap_or_default();
    let told: Vec<_> = all.iter().map(told).collect();
    let more = told.len().saturating_sub(TOLD_MAX);
    // Where one would look first stays: what is not done. The order is kept.
    let open = told.iter().filter(|one| !is_done(one)).count();
    let mut room_for_done = TOLD_MAX.saturating_sub(open);
    let mut kept = Vec::with_capacity(told.len().min(TOLD_MAX));
    for one in told {
        if is_done(&one) {
            if room_for_done == 0 {
                continue;
            }
            room_for_done -= 1;
        }
        if kept.len() < TOLD_MAX {
            kept.push(one);
        }
    }
    (kept, more)
}

fn is_done(one: &wire::ResultOfSync) -> bool {
    DONE.contains(&one.status.as_str())
}

fn told(result: &ResourceResult) -> wire::ResultOfSync {
    let is_hook = !result.hook_type.is_empty();
    let status = if is_hook { result.hook_phase.to_string() } else { result.status.to_string() };
    wire::ResultOfSync {
        group: result.group.clone(),
        kind: result.kind.clone(),
        namespace: result.namespace.clone(),
        name: result.name.clone(),
        phase: result.sync_phase.clone(),
        hook: result.hook_type.clone(),
        status,
        message: result.message.chars().take(MESSAGE_CHARS_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state(resources: &[Value]) -> OperationState {
        serde_json::from_value(
            json!({"phase": "Running", "startedAt": "2026-01-01T00:00:00Z", "operation": {},
            "syncResult": {"revision": "a", "resources": resources}}),
        )
        .expect("a state")
    }

    #[test]
    fn hooks_say_how_they_fare_and_objects_what_was_done() {
        let (told, more) = of(&state(&[
            json!({"group": "batch", "version": "v1", "kind": "Job", "namespace": "shop", "name": "migrate", "hookType": "PreSync",
                "hookPhase": "Running", "syncPhase": "PreSync", "message": "0 of 1"}),
            json!({"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "a", "status": "SyncFailed",
                "syncPhase": "Sync", "message": "é".repeat(1_000)}),
        ]));
        let words: Vec<_> =
            told.iter().map(|one| (one.name.as_str(), one.hook.as_str(), one.status.as_str())).collect();
        assert_eq!(words, [("migrate", "PreSync", "Running"), ("a", "", "SyncFailed")]);
        assert_eq!((told[1].message.chars().count(), more), (MESSAGE_CHARS_MAX, 0));
    }

    #[test]
    fn of_many_those_that_are_not_done_are_told_in_their_place() {
        let of_number = |number: usize| {
            let status = if number % 100 == 99 { "SyncFailed" } else { "Synced" };
            json!({"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "x", "name": format!("{number}"), "status": status})
        };
        let all: Vec<Value> = (0..1_000).map(of_number).collect();
        let (told, more) = of(&state(&all));
        assert_eq!((told.len(), more), (TOLD_MAX, 800));
        let failed: Vec<_> = told.iter().filter(|one| one.status == "SyncFailed").collect();
        assert_eq!((failed.len(), failed[9].name.as_str(), told[199].name.as_str()), (10, "999", "999"));
        let failing: Vec<Value> = (0..500).map(|_| of_number(99)).collect();
        assert_eq!(of(&state(&failing)).0.len(), TOLD_MAX);
    }
}
