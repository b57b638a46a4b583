//! Keeping an Application's status: conditions and history.

use crate::cluster::Settings;
use crate::glob;
use crate::object::{self, ResourceKey};
use crate::tracking;
use serde_json::Value;
use slipway_crd::{AppProject, Application, Condition, OperationState, RevisionHistory};

/// Conditions after an evaluation: those of the evaluated types are replaced, the others stay.
pub fn merged_conditions(before: &[Condition], evaluated: &[&str], found: &[Condition]) -> Vec<Condition> {
    let mut merged: Vec<Condition> =
        before.iter().filter(|c| !evaluated.contains(&c.kind.as_str())).cloned().collect();
    for condition in found {
        let known = before.iter().find(|c| c.kind == condition.kind && c.message == condition.message);
        let mut condition = condition.clone();
        if let Some(time) = known.and_then(|c| c.last_transition_time.clone()) {
            condition.last_transition_time = Some(time);
        }
        merged.push(condition);
    }
    merged.sort_by(|a, b| (&a.kind, &a.message).cmp(&(&b.kind, &b.message)));
    merged.dedup_by(|a, b| a.kind == b.kind && a.message == b.message);
    merged
}

/// Types that a comparison evaluates.
pub const COMPARISON_CONDITIONS: &[&str] = &[
    "ComparisonError",
    "InvalidSpecError",
    "SharedResourceWarning",
    "RepeatedResourceWarning",
    "ExcludedResourceWarning",
    "OrphanedResourceWarning",
];

/// The history with a finished operation, oldest first. Only whole, real, successful syncs get in.
pub fn with_history(application: &Application, state: &OperationState, limit: usize) -> Vec<RevisionHistory> {
    let mut history = application.status.history.clone();
    let sync = state.operation.sync.as_ref();
    let counts = state.phase == "Succeeded" && sync.is_some_and(|s| !s.dry_run && s.resources.is_empty());
    if let (true, Some(result), Some(finished)) = (counts, &state.sync_result, &state.finished_at) {
        let several = !result.sources.is_empty();
        history.push(RevisionHistory {
            id: history.last().map_or(0, |last| last.id + 1),
            revision: result.revision.clone(),
            revisions: result.revisions.clone(),
            deployed_at: finished.clone(),
            deploy_started_at: Some(state.started_at.clone()),
            source: (!several).then(|| result.source.clone()),
            sources: result.sources.clone(),
            initiated_by: state.operation.initiated_by.clone(),
            ..RevisionHistory::default()
        });
    }
    let limit =
        application.spec.revision_history_limit.map_or(limit, |given| usize::try_from(given).unwrap_or(0));
    let surplus = history.len().saturating_sub(limit);
    history.drain(..surplus);
    history
}

/// Objects of the destination namespace that belong to no application and to no other object.
pub fn orphans(project: &AppProject, in_namespace: &[Value], settings: &Settings) -> Vec<ResourceKey> {
    let Some(watch) = &project.spec.orphaned_resources else { return Vec::new() };
    let ignored = |key: &ResourceKey| {
        watch.ignore.iter().any(|rule| {
            let fits = |pattern: &str, text: &str| pattern.is_empty() || glob::matches(pattern, text);
            glob::matches(&rule.group, &key.group)
                && fits(&rule.kind, &key.kind)
                && fits(&rule.name, &key.name)
        })
    };
    let mut found: Vec<ResourceKey> = in_namespace
        .iter()
        .filter(|o| !object::has_owner(o) && tracking::tracked_by(o, settings).is_none())
        .map(ResourceKey::of)
        .filter(|key| !is_of_kubernetes(key) && !ignored(key))
        .collect();
    found.sort();
    found
}

/// What every namespace has from the start.
fn is_of_kubernetes(key: &ResourceKey) -> bool {
    match (key.group.as_str(), key.kind.as_str(), key.name.as_str()) {
        ("", "ServiceAccount", "default") | ("", "ConfigMap", "kube-root-ca.crt") => true,
        ("", "Service", "kubernetes") => key.namespace == "default",
        _ => false,
    }
}

/// The warning about orphans, where the project asks for it.
pub fn orphan_warning(project: &AppProject, orphans: &[ResourceKey]) -> Option<Condition> {
    let warn = project.spec.orphaned_resources.as_ref()?.warn == Some(true);
    (warn && !orphans.is_empty()).then(|| Condition {
        kind: "OrphanedResourceWarning".into(),
        message: format!("Application has {} orphaned resources", orphans.len()),
        ..Condition::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn condition(kind: &str, message: &str, time: &str) -> Condition {
        Condition {
            kind: kind.into(),
            message: message.into(),
            last_transition_time: Some(time.into()),
            ..Condition::default()
        }
    }

    #[test]
    fn only_evaluated_types_are_replaced_and_times_stay() {
        let before = [
            condition("SyncError", "a", "1"),
            condition("ComparisonError", "b", "1"),
            condition("ComparisonError", "c", "1"),
        ];
        let after = merged_conditions(
            &before,
            COMPARISON_CONDITIONS,
            &[condition("ComparisonError", "c", "2"), condition("ComparisonError", "d", "2")],
        );
        let shown: Vec<_> = after
            .iter()
            .map(|c| (c.message.as_str(), c.last_transition_time.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(shown, [("c", "1"), ("d", "2"), ("a", "1")]);
    }

    #[test]
    fn history_grows_by_whole_syncs_and_keeps_its_length() {
        let mut application: Application = serde_json::from_value(
            json!({"status": {"history": [{"id": 7, "deployedAt": "x", "revision": "old"}]}}),
        )
        .expect("readable");
        let state = |phase: &str, sync: Value| -> OperationState {
            serde_json::from_value(
                json!({"operation": {"sync": sync}, "phase": phase, "startedAt": "s", "finishedAt": "f",
                "syncResult": {"revision": "new", "source": {"repoURL": "r"}}}),
            )
            .expect("readable")
        };
        let done = with_history(&application, &state("Succeeded", json!({})), 10);
        assert_eq!(
            done.iter().map(|h| (h.id, h.revision.as_str())).collect::<Vec<_>>(),
            [(7, "old"), (8, "new")]
        );
        for (phase, sync) in [
            ("Failed", json!({})),
            ("Succeeded", json!({"dryRun": true})),
            ("Succeeded", json!({"resources": [{"kind": "A", "name": "b"}]})),
        ] {
            assert_eq!(with_history(&application, &state(phase, sync), 10).len(), 1);
        }
        application.spec.revision_history_limit = Some(1);
        assert_eq!(with_history(&application, &state("Succeeded", json!({})), 10)[0].id, 8);
        application.spec.revision_history_limit = Some(0);
        assert!(with_history(&application, &state("Succeeded", json!({})), 10).is_empty());
    }

    #[test]
    fn orphans_are_what_nobody_owns() {
        let project: AppProject = serde_json::from_value(json!({"spec": {"orphanedResources": {"warn": true, "ignore": [{"kind": "Secret", "name": "tmp-*"}]}}})).expect("readable");
        let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "n"}});
        let mut owned = object("Pod", "owned");
        owned["metadata"]["ownerReferences"] = json!([{"uid": "x"}]);
        let mut tracked = object("ConfigMap", "tracked");
        tracking::set_tracking(&mut tracked, "app", &Settings::default());
        let found = orphans(
            &project,
            &[
                owned,
                tracked,
                object("Secret", "tmp-1"),
                object("Secret", "lost"),
                object("ServiceAccount", "default"),
            ],
            &Settings::default(),
        );
        assert_eq!(found.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), ["lost"]);
        assert_eq!(
            orphan_warning(&project, &found).expect("a warning").message,
            "Application has 1 orphaned resources"
        );
    }
}
