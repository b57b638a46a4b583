//! The few kinds that are served under more than one version.

use serde_json::{Value, json};

use crate::kinds::Resource;
use crate::value::Json as _;

/// Event fields: core/v1 name, events.k8s.io/v1 name.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The object under another apiVersion. Custom resources only change their apiVersion (strategy None).
pub(crate) fn to_version(resource: &Resource, mut object: Value, version: &str) -> Value {
    let from = object.str_at("apiVersion").to_owned();
    if from == version {
        return object;
    }
    if !resource.is_custom() {
        match (from.as_str(), version) {
            ("v1", "events.k8s.io/v1") => rename(&mut object, EVENT_FIELDS.iter().copied()),
            ("events.k8s.io/v1", "v1") => rename(&mut object, EVENT_FIELDS.iter().map(|(core, new)| (*new, *core))),
            ("autoscaling/v1", "autoscaling/v2") => hpa_to_v2(&mut object),
            ("autoscaling/v2", "autoscaling/v1") => hpa_to_v1(&mut object),
            _ => {}
        }
    }
    object.set_at("apiVersion", json!(version));
    object
}

fn rename<'a>(object: &mut Value, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in pairs {
        if let Some(value) = object.remove_at(from) {
            object.set_at(to, value);
        }
    }
}

fn hpa_to_v2(object: &mut Value) {
    if let Some(percent) = object.remove_at("spec.targetCPUUtilizationPercentage") {
        let metric = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent}}});
        object.set_at("spec.metrics", json!([metric]));
    }
    object.remove_at("status.currentCPUUtilizationPercentage");
}

fn hpa_to_v1(object: &mut Value) {
    let percent = object
        .list_at("spec.metrics")
        .iter()
        .find(|m| m.str_at("resource.name") == "cpu")
        .and_then(|m| m.at("resource.target.averageUtilization"))
        .cloned();
    for path in ["spec.metrics", "spec.behavior", "status.currentMetrics", "status.conditions"] {
        object.remove_at(path);
    }
    if let Some(percent) = percent {
        object.set_at("spec.targetCPUUtilizationPercentage", percent);
    }
}
