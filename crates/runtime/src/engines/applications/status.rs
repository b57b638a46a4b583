//! Report, first half: what is written on the Application, and only when it differs from what stands there.

use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::{Application, ApplicationStatus, Condition, ConditionType, RevisionHistory, Summary};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::{Comparison, images};

use super::observe::Observed;
use super::sources::Desired;

/// Conditions that a comparison sets and takes back.
const COMPARED: [ConditionType; 8] = [
    ConditionType::InvalidSpecError,
    ConditionType::ComparisonError,
    ConditionType::UnknownError,
    ConditionType::SharedResourceWarning,
    ConditionType::ServerSideDiffWarning,
    ConditionType::RepeatedResourceWarning,
    ConditionType::ExcludedResourceWarning,
    ConditionType::OrphanedResourceWarning,
];

/// The status after a comparison. Times move only with what they date.
pub(crate) fn compared(app: &Application, observed: &Observed, now: Timestamp) -> ApplicationStatus {
    let mut status = app.status.clone();
    let comparison = &observed.comparison;
    let revisions = observed.desired.as_ref().map(|desired| desired.revisions());
    status.sync = comparison.claim(app, revisions.as_deref());
    status.health = comparison.health_status(&status.health, now);
    if comparison.context.error.is_none() {
        status.resources = comparison.resource_statuses();
        status.summary = summary(comparison);
    }
    set_conditions(&mut status.conditions, &COMPARED, &comparison.conditions);
    if let Some(desired) = &observed.desired {
        let types = desired.source_types();
        if !app.spec.has_several_sources() {
            status.source_type = types.into_iter().next().unwrap_or_default();
            status.source_types.clear();
        } else {
            status.source_types = types;
            status.source_type.clear();
        }
    }
    app.metadata.namespace.clone_into(&mut status.controller_namespace);
    status
}

fn summary(comparison: &Comparison) -> Summary {
    let mut summary = Summary::default();
    for live in comparison.resources.iter().filter_map(|resource| resource.live.as_ref()) {
        summary.images.extend(images(live));
        summary.external_urls.extend(external_urls(live));
        summary.is_app_of_apps |=
            live["kind"] == "Application" && live["apiVersion"] == slipway_crd::names::API_VERSION;
    }
    for list in [&mut summary.images, &mut summary.external_urls] {
        list.sort();
        list.dedup();
    }
    summary
}

/// Addresses that an Ingress gives to the world.
fn external_urls(live: &Value) -> Vec<String> {
    if live["kind"] != "Ingress"
        || !live["apiVersion"].as_str().is_some_and(|v| v.starts_with("networking.k8s.io/"))
    {
        return Vec::new();
    }
    let tls: Vec<&str> = live["spec"]["tls"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|entry| entry["hosts"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    let rules = live["spec"]["rules"].as_array().into_iter().flatten();
    rules
        .filter_map(|rule| rule["host"].as_str())
        .map(|host| format!("{}://{host}", if tls.contains(&host) { "https" } else { "http" }))
        .collect()
}

/// Replaces the conditions of the evaluated types; a condition that stays keeps its time.
pub(crate) fn set_conditions(
    conditions: &mut Vec<Condition>,
    evaluated: &[ConditionType],
    found: &[Condition],
) {
    conditions.retain(|condition| !evaluated.contains(&condition.kind));
    conditions.extend(found.iter().cloned());
    conditions.sort_by(|a, b| (a.kind.as_str(), &a.message).cmp(&(b.kind.as_str(), &b.message)));
    conditions.dedup_by(|a, b| a.kind == b.kind && a.message == b.message);
}

/// The most that the history may weigh, however long it may be.
const HISTORY_BYTES: usize = 256 << 10;

/// Adds a deployment to the history, and forgets the oldest past the limit.
pub(crate) fn add_history(
    app: &Application,
    status: &mut ApplicationStatus,
    desired: &Desired,
    now: Timestamp,
) {
    let Some(state) = &status.operation_state else { return };
    let several = app.spec.has_several_sources();
    let revisions = desired.revisions();
    let entry = RevisionHistory {
        id: status.history.iter().map(|entry| entry.id + 1).max().unwrap_or(0),
        deployed_at: rfc3339(now),
        deploy_started_at: Some(state.started_at.clone()),
        revision: if several { String::new() } else { revisions.first().cloned().unwrap_or_default() },
        revisions: if several { revisions } else { Vec::new() },
        source: desired.sources.first().cloned().filter(|_| !several),
        sources: if several { desired.sources.clone() } else { Vec::new() },
        initiated_by: state.operation.initiated_by.clone(),
        ..RevisionHistory::default()
    };
    status.history.push(entry);
    let limit = usize::try_from(app.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
    let surplus = status.history.len().saturating_sub(limit);
    status.history.drain(..surplus);
    // Sources may hold whole value files; an Application that outgrows what the API takes could not be written at all.
    let bytes = |history: &[RevisionHistory]| serde_json::to_string(history).map_or(0, |text| text.len());
    while status.history.len() > 1 && bytes(&status.history) > HISTORY_BYTES {
        status.history.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use slipway_crd::{ApplicationSource, HelmSource};

    #[test]
    fn conditions_of_other_types_stay() {
        let condition = |kind: &str, message: &str| Condition {
            kind: kind.into(),
            message: message.into(),
            ..Condition::default()
        };
        let mut conditions = vec![condition("SyncError", "x"), condition("ComparisonError", "old")];
        set_conditions(&mut conditions, &COMPARED, &[condition("ComparisonError", "new")]);
        assert_eq!(conditions, [condition("ComparisonError", "new"), condition("SyncError", "x")]);
        set_conditions(&mut conditions, &COMPARED, &[]);
        assert_eq!(conditions, [condition("SyncError", "x")]);
    }

    #[test]
    fn history_counts_on_and_is_cut() {
        let mut app: Application =
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"revisionHistoryLimit": 2},
                "status": {"operationState": {"operation": {}, "phase": "Running", "startedAt": "2026-01-01T00:00:00Z"}}}))
            .expect("readable");
        let mut desired = Desired {
            sources: Vec::new(),
            revisions: Vec::new(),
            parts: Vec::new(),
            local: Vec::new(),
            kustomize: Default::default(),
            looked_up: false,
        };
        for _ in 0..4 {
            let mut status = app.status.clone();
            add_history(&app, &mut status, &desired, Timestamp::UNIX_EPOCH);
            app.status = status;
        }
        let ids: Vec<i64> = app.status.history.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [2, 3]);

        // Two of these weigh too much; the last one stays, so that one can go back to it.
        desired.sources = vec![ApplicationSource {
            helm: Some(HelmSource { values: "x".repeat(200 << 10), ..HelmSource::default() }),
            ..ApplicationSource::default()
        }];
        for _ in 0..2 {
            let mut status = app.status.clone();
            add_history(&app, &mut status, &desired, Timestamp::UNIX_EPOCH);
            app.status = status;
        }
        let ids: Vec<i64> = app.status.history.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [5]);
    }
}
