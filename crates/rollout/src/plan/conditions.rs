//! Conditions: set only where status or reason differ, so that a status which is written again is the same.

use jiff::Timestamp;
use slipway_crd::rollout::{RolloutCondition, RolloutStatus};

use super::observed::written;

pub(super) fn get<'a>(status: &'a RolloutStatus, of: &str) -> Option<&'a RolloutCondition> {
    status.conditions.iter().find(|one| one.r#type == of)
}

pub(super) fn remove(status: &mut RolloutStatus, of: &str) {
    status.conditions.retain(|one| one.r#type != of);
}

/// True when it differs from what there was.
pub(super) fn set(
    status: &mut RolloutStatus,
    of: &str,
    value: &str,
    reason: &str,
    message: impl Into<String>,
    now: Timestamp,
) -> bool {
    let now = written(now);
    let before = get(status, of);
    if before.is_some_and(|before| before.status == value && before.reason == reason) {
        return false;
    }
    let since =
        before.filter(|before| before.status == value).map(|before| before.last_transition_time.clone());
    let condition = RolloutCondition {
        r#type: of.to_owned(),
        status: value.to_owned(),
        last_transition_time: since.unwrap_or_else(|| now.clone()),
        last_update_time: now,
        reason: reason.to_owned(),
        message: message.into(),
        ..RolloutCondition::default()
    };
    remove(status, of);
    status.conditions.push(condition);
    true
}

/// True for a condition that says so.
pub(super) fn is_true(status: &RolloutStatus, of: &str) -> bool {
    get(status, of).is_some_and(|one| one.status == "True")
}
