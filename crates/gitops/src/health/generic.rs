//! Health of kinds that nobody wrote a rule for, from what Kubernetes conventions say about conditions.
//!
//! Only custom resources are judged, only when they have a status to judge, and only on words whose meaning is
//! settled. "Healthy" needs a condition that says so and speaks of the newest spec.

use super::{Health, HealthCode};
use crate::object::{self, integer, list, text};
use HealthCode::{Degraded, Healthy, Progressing, Suspended};
use serde_json::Value;

/// Conditions that mean "all is well" when True, in the order they are believed.
const GOOD: &[&str] = &[
    "Ready",
    "Available",
    "Healthy",
    "Succeeded",
    "Synced",
    "Established",
    "Deployed",
    "Accepted",
    "Programmed",
];
/// Conditions that mean "something is wrong" when True.
const BAD: &[&str] = &["Stalled", "Failed", "Degraded", "Error", "Failure", "NotReady", "Invalid"];
/// Conditions that mean "not there yet" when True.
const BUSY: &[&str] = &["Reconciling", "Progressing", "Updating", "Pending", "Initializing"];
/// Words in a reason that tell a failure from work in progress.
const FAILURE_WORDS: &[&str] = &[
    "fail",
    "error",
    "invalid",
    "denied",
    "notfound",
    "missing",
    "unauthorized",
    "unreachable",
    "rejected",
    "conflict",
];

/// A guess from conditions, or from a phase where there are none.
pub(super) fn assess(object: &Value) -> Option<Health> {
    let group = object::group(object);
    // Kinds of Kubernetes itself without a rule have no health, as their users know it.
    if !group.contains('.') || group.ends_with(".k8s.io") {
        return None;
    }
    let conditions = list(object, &["status", "conditions"]);
    let known = conditions.iter().filter(|c| !text(c, &["type"]).is_empty()).count() > 0;
    if !known {
        return by_phase(object);
    }
    let generation = integer(object, &["metadata", "generation"]).unwrap_or(0);
    let behind = |value: Option<i64>| value.is_some_and(|observed| observed < generation);
    if behind(integer(object, &["status", "observedGeneration"])) {
        return Some(Health::new(Progressing, "waiting for the newest spec to be observed"));
    }
    if let Some(by) = paused_by(object) {
        return Some(Health::new(Suspended, format!("paused by the annotation {by}")));
    }
    let with = |kinds: &[&str], status: &str| {
        kinds.iter().find_map(|kind| {
            conditions.iter().find(|c| text(c, &["type"]) == *kind && text(c, &["status"]) == status)
        })
    };
    // A condition may say itself that it is not a failure.
    let harmless = |condition: &Value| matches!(text(condition, &["severity"]), "Info" | "Warning");
    if let Some(bad) = with(BAD, "True").filter(|bad| !harmless(bad)) {
        return Some(Health::new(Degraded, message(bad)));
    }
    if let Some(paused) = with(&["Paused", "Suspended"], "True") {
        return Some(Health::new(Suspended, message(paused)));
    }
    let main = GOOD.iter().find_map(|kind| conditions.iter().find(|c| text(c, &["type"]) == *kind));
    if let Some(main) = main.filter(|c| text(c, &["status"]) == "False") {
        let reason = text(main, &["reason"]).to_lowercase();
        let failed = !harmless(main) && FAILURE_WORDS.iter().any(|word| reason.contains(word));
        return Some(Health::new(if failed { Degraded } else { Progressing }, message(main)));
    }
    if let Some(busy) = with(BUSY, "True") {
        return Some(Health::new(Progressing, message(busy)));
    }
    match main {
        Some(main)
            if text(main, &["status"]) == "True" && !behind(integer(main, &["observedGeneration"])) =>
        {
            Some(Health::new(Healthy, message(main)))
        }
        Some(main) => Some(Health::new(Progressing, message(main))),
        None => None,
    }
}

/// The annotation by which a person told the operator to leave the object alone: what its status says is from before.
fn paused_by(object: &Value) -> Option<&str> {
    let annotations = object::at(object, &["metadata", "annotations"])?.as_object()?;
    annotations.iter().find_map(|(key, value)| {
        let (_, name) = key.split_once('/')?;
        let value = value.as_str()?.to_ascii_lowercase();
        let paused = match name.to_ascii_lowercase().as_str() {
            "paused"
            | "pause"
            | "pause-reconciliation"
            | "pause-reconcile"
            | "reconcile-paused"
            | "reconciliation-paused"
            | "suspend"
            | "suspended" => matches!(value.as_str(), "true" | "" | "yes"),
            "managed" => value == "false",
            "reconcile" | "reconciliation" | "reconciliationloop" => {
                matches!(value.as_str(), "disabled" | "false" | "paused")
            }
            _ => false,
        };
        paused.then_some(key.as_str())
    })
}

fn by_phase(object: &Value) -> Option<Health> {
    let phase = [["status", "phase"], ["status", "state"]]
        .iter()
        .map(|path| text(object, path))
        .find(|phase| !phase.is_empty())?;
    if let Some(by) = paused_by(object) {
        return Some(Health::new(Suspended, format!("paused by the annotation {by}")));
    }
    let status = match phase.to_lowercase().as_str() {
        "failed" | "error" | "failure" | "degraded" | "invalid" | "rejected" => Degraded,
        "pending" | "creating" | "provisioning" | "progressing" | "updating" | "initializing"
        | "deleting" | "terminating" | "reconciling" => Progressing,
        "paused" | "suspended" => Suspended,
        "ready" | "running" | "active" | "bound" | "succeeded" | "healthy" | "available" | "completed" => {
            Healthy
        }
        _ => return None,
    };
    let generation = integer(object, &["metadata", "generation"]).unwrap_or(0);
    let stale =
        integer(object, &["status", "observedGeneration"]).is_some_and(|observed| observed < generation);
    Some(Health::new(if stale && status == Healthy { Progressing } else { status }, phase))
}

fn message(condition: &Value) -> String {
    match text(condition, &["message"]) {
        "" => text(condition, &["reason"]).to_string(),
        message => message.to_string(),
    }
}
