//! Phase and message of a Rollout, in the words that `kubectl argo rollouts` and Argo CD read.
//!
//! In: spec and status. Out: two words. [`of`] is for readers: it knows that a status may be older than the spec.

use slipway_crd::rollout::{Rollout, RolloutSpec, RolloutStatus};

use crate::names::{condition, reason};

pub(crate) const PROGRESSING: &str = "Progressing";
const PAUSED: &str = "Paused";
const DEGRADED: &str = "Degraded";
pub(crate) const HEALTHY: &str = "Healthy";

/// What a reader says of a Rollout.
pub fn of(rollout: &Rollout) -> (&str, String) {
    let status = &rollout.status;
    let observed = status.observed_generation.parse::<i64>().ok();
    if observed.is_some_and(|observed| observed < rollout.metadata.generation) {
        return (PROGRESSING, "waiting for rollout spec update to be observed".into());
    }
    if status.controller_pause && status.pause_conditions.is_empty() {
        return (PROGRESSING, "waiting for rollout to unpause".into());
    }
    if status.phase.is_empty() {
        return computed(&rollout.spec, status);
    }
    (&status.phase, status.message.clone())
}

/// What the engine writes down.
pub fn computed(spec: &RolloutSpec, status: &RolloutStatus) -> (&'static str, String) {
    for one in &status.conditions {
        if one.r#type == condition::INVALID_SPEC {
            return (DEGRADED, format!("InvalidSpec: {}", one.message));
        }
        if one.reason == reason::ABORTED || one.reason == reason::TIMED_OUT {
            return (DEGRADED, format!("{}: {}", one.reason, one.message));
        }
    }
    if spec.paused {
        return (PAUSED, "manually paused".into());
    }
    if let Some(pause) = status.pause_conditions.first() {
        return (PAUSED, pause.reason.clone());
    }
    match unfinished(spec, status) {
        Some(what) => (PROGRESSING, what.into()),
        None => (HEALTHY, String::new()),
    }
}

fn unfinished(spec: &RolloutSpec, status: &RolloutStatus) -> Option<&'static str> {
    let replicas = spec.replicas.unwrap_or(1);
    let promoted = !status.stable_rs.is_empty() && status.stable_rs == status.current_pod_hash;
    if spec.restart_at.is_some() && spec.restart_at != status.restarted_at {
        return Some("rollout is restarting");
    }
    if status.updated_replicas < replicas {
        return Some("more replicas need to be updated");
    }
    if status.available_replicas < status.updated_replicas {
        return Some("updated replicas are still becoming available");
    }
    if let Some(blue_green) = &spec.strategy.blue_green {
        let active = &status.blue_green.active_selector;
        if active.is_empty() || *active != status.current_pod_hash {
            return Some("active service cutover pending");
        }
        let after = &status.blue_green.post_promotion_analysis_run_status;
        let ended = |phase: &str| matches!(phase, "Successful" | "Failed" | "Error" | "Inconclusive");
        if !promoted
            && blue_green.post_promotion_analysis.is_some()
            && !after.as_ref().is_some_and(|run| ended(&run.status))
        {
            return Some("waiting for analysis to complete");
        }
        return (!promoted).then_some("waiting for post-promotion verification to complete");
    }
    if let Some(canary) = &spec.strategy.canary {
        // With a router old pods stay for a while, and get no requests.
        if canary.traffic_routing.is_none() && status.replicas > status.updated_replicas {
            return Some("old replicas are pending termination");
        }
        return (!promoted).then_some("waiting for all steps to complete");
    }
    None
}
