//! Conditions and health of an ApplicationSet, by the names that users' tools know.

use serde_json::{Value, json};
use slipway_crd::{ApplicationSetCondition, ApplicationSetStatus};

pub(super) const ERROR_OCCURRED: &str = "ErrorOccurred";
pub(super) const PARAMETERS_GENERATED: &str = "ParametersGenerated";
pub(super) const RESOURCES_UP_TO_DATE: &str = "ResourcesUpToDate";
pub(super) const ROLLOUT_PROGRESSING: &str = "RolloutProgressing";

pub(super) fn condition(kind: &str, status: bool, reason: &str, message: &str) -> ApplicationSetCondition {
    ApplicationSetCondition {
        kind: kind.into(),
        status: if status { "True" } else { "False" }.into(),
        reason: reason.into(),
        message: message.into(),
        ..ApplicationSetCondition::default()
    }
}

/// What a look found, in conditions: one says it, the others follow from it.
pub(super) fn after(
    found: ApplicationSetCondition,
    parameters_generated: bool,
) -> Vec<ApplicationSetCondition> {
    let mut all = Vec::new();
    let message = found.message.clone();
    match (found.kind.as_str(), found.status.as_str()) {
        (RESOURCES_UP_TO_DATE, "True") => all.push(condition(ERROR_OCCURRED, false, &found.reason, &message)),
        (RESOURCES_UP_TO_DATE, _) => {
            all.push(condition(ERROR_OCCURRED, false, "ApplicationSetUpToDate", "No error occurred"));
        }
        (ERROR_OCCURRED, "True") => {
            all.push(condition(RESOURCES_UP_TO_DATE, false, "ErrorOccurred", &message));
        }
        _ => {}
    }
    all.push(if parameters_generated {
        condition(
            PARAMETERS_GENERATED,
            true,
            "ParametersGenerated",
            "Successfully generated parameters for all Applications",
        )
    } else {
        condition(PARAMETERS_GENERATED, false, "ErrorOccurred", &message)
    });
    all.push(found);
    all
}

/// New conditions over old ones: a type that was looked at is replaced, its time stays when it says the same.
pub(super) fn set(
    status: &mut ApplicationSetStatus,
    found: Vec<ApplicationSetCondition>,
    gone: &[&str],
    now: &str,
) {
    let before = std::mem::take(&mut status.conditions);
    let looked_at = |kind: &str| gone.contains(&kind) || found.iter().any(|new| new.kind == kind);
    let mut all: Vec<ApplicationSetCondition> =
        before.iter().filter(|old| !looked_at(&old.kind)).cloned().collect();
    for mut new in found {
        let same = before.iter().find(|old| {
            (&old.kind, &old.status, &old.reason, &old.message)
                == (&new.kind, &new.status, &new.reason, &new.message)
        });
        new.last_transition_time =
            same.and_then(|old| old.last_transition_time.clone()).or_else(|| Some(now.to_owned()));
        all.push(new);
    }
    all.sort_by(|a, b| (&a.kind, &a.status, &a.reason).cmp(&(&b.kind, &b.status, &b.reason)));
    status.conditions = all;
    status.health = Some(health(&status.conditions));
}

fn health(conditions: &[ApplicationSetCondition]) -> Value {
    let find = |kind: &str| conditions.iter().find(|c| c.kind == kind && c.status == "True");
    let (status, message) = if conditions.is_empty() {
        ("Unknown", "No status conditions found for ApplicationSet")
    } else if let Some(error) = find(ERROR_OCCURRED) {
        ("Degraded", error.message.as_str())
    } else if let Some(progressing) = find(ROLLOUT_PROGRESSING) {
        ("Progressing", progressing.message.as_str())
    } else if let Some(healthy) = find(RESOURCES_UP_TO_DATE) {
        ("Healthy", healthy.message.as_str())
    } else {
        ("Unknown", "Waiting for health status to be determined")
    };
    json!({"status": status, "message": message})
}
