//! Conditions and health of an ApplicationSet, by the names that users' tools know.

use serde_json::{Value, json};
use slipway_crd::{ApplicationSetCondition, ApplicationSetStatus, HealthCode, SetConditionType};

pub(super) fn condition(
    kind: SetConditionType,
    status: bool,
    reason: &str,
    message: &str,
) -> ApplicationSetCondition {
    ApplicationSetCondition {
        kind,
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
    match (&found.kind, found.status.as_str()) {
        (SetConditionType::ResourcesUpToDate, "True") => {
            all.push(condition(SetConditionType::ErrorOccurred, false, &found.reason, &message))
        }
        (SetConditionType::ResourcesUpToDate, _) => {
            all.push(condition(
                SetConditionType::ErrorOccurred,
                false,
                "ApplicationSetUpToDate",
                "No error occurred",
            ));
        }
        (SetConditionType::ErrorOccurred, "True") => {
            all.push(condition(SetConditionType::ResourcesUpToDate, false, "ErrorOccurred", &message));
        }
        _ => {}
    }
    all.push(if parameters_generated {
        condition(
            SetConditionType::ParametersGenerated,
            true,
            "ParametersGenerated",
            "Successfully generated parameters for all Applications",
        )
    } else {
        condition(SetConditionType::ParametersGenerated, false, "ErrorOccurred", &message)
    });
    all.push(found);
    all
}

/// New conditions over old ones: a type that was looked at is replaced, its time stays when it says the same.
pub(super) fn set(
    status: &mut ApplicationSetStatus,
    found: Vec<ApplicationSetCondition>,
    gone: &[SetConditionType],
    now: &str,
) {
    let before = std::mem::take(&mut status.conditions);
    let evaluated =
        |kind: &SetConditionType| gone.contains(kind) || found.iter().any(|new| new.kind == *kind);
    let mut all: Vec<ApplicationSetCondition> =
        before.iter().filter(|old| !evaluated(&old.kind)).cloned().collect();
    for mut new in found {
        let same = before.iter().find(|old| {
            (&old.kind, &old.status, &old.reason, &old.message)
                == (&new.kind, &new.status, &new.reason, &new.message)
        });
        new.last_transition_time =
            same.and_then(|old| old.last_transition_time.clone()).or_else(|| Some(now.to_owned()));
        all.push(new);
    }
    all.sort_by(|a, b| (a.kind.as_str(), &a.status, &a.reason).cmp(&(b.kind.as_str(), &b.status, &b.reason)));
    status.conditions = all;
    status.health = Some(health(&status.conditions));
}

fn health(conditions: &[ApplicationSetCondition]) -> Value {
    let find = |kind: SetConditionType| conditions.iter().find(|c| c.kind == kind && c.status == "True");
    let (status, message) = if conditions.is_empty() {
        (HealthCode::Unknown, "No status conditions found for ApplicationSet")
    } else if let Some(error) = find(SetConditionType::ErrorOccurred) {
        (HealthCode::Degraded, error.message.as_str())
    } else if let Some(progressing) = find(SetConditionType::RolloutProgressing) {
        (HealthCode::Progressing, progressing.message.as_str())
    } else if let Some(healthy) = find(SetConditionType::ResourcesUpToDate) {
        (HealthCode::Healthy, healthy.message.as_str())
    } else {
        (HealthCode::Unknown, "Waiting for health status to be determined")
    };
    json!({"status": status.as_str(), "message": message})
}
