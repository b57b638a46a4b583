//! Kinds whose health needs arithmetic or several looks at the object.

use super::{Health, HealthCode};
use crate::object::{self, at, integer, list, text};
use HealthCode::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
use serde_json::Value;

/// The health of one of these kinds; None for all others.
pub(super) fn assess(object: &Value) -> Option<Health> {
    Some(match (object::group(object), object::kind(object)) {
        ("argoproj.io", "Rollout") => rollout(object),
        ("elasticsearch.k8s.elastic.co", "Elasticsearch") => elasticsearch(object),
        ("opentelemetry.io", "OpenTelemetryCollector") => collector(object),
        ("sparkoperator.k8s.io", "SparkApplication") => spark(object),
        _ => return None,
    })
}

fn health(status: HealthCode, message: impl Into<String>) -> Health {
    Health::new(status, message)
}

/// A Rollout says its own phase; older ones are judged as a Deployment is.
fn rollout(object: &Value) -> Health {
    // `observedGeneration` is a text, and for very old controllers a hash, which says nothing.
    let observed = match at(object, &["status", "observedGeneration"]) {
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_i64(),
        None => None,
    };
    let generation = integer(object, &["metadata", "generation"]).unwrap_or(0);
    let workload = object::annotation(object, "rollout.argoproj.io/workload-generation");
    let workload_seen = at(object, &["spec", "workloadRef"]).is_none()
        || workload
            .is_none_or(|wanted| text_or_number(object, &["status", "workloadObservedGeneration"]) == wanted);
    if at(object, &["status"]).is_none()
        || observed.is_some_and(|seen: i64| seen < generation)
        || !workload_seen
    {
        return health(Progressing, "waiting for the newest spec to be observed");
    }
    if let Some(phase) = at(object, &["status", "phase"]).and_then(Value::as_str) {
        let status = if phase == "Paused" { Some(Suspended) } else { HealthCode::parse(phase) };
        return health(status.unwrap_or(Unknown), text(object, &["status", "message"]));
    }
    let conditions = list(object, &["status", "conditions"]);
    let broken = conditions.iter().find(|c| {
        let (kind, reason) = (text(c, &["type"]), text(c, &["reason"]));
        kind == "InvalidSpec"
            || kind == "Progressing" && matches!(reason, "RolloutAborted" | "ProgressDeadlineExceeded")
    });
    if let Some(condition) = broken {
        return health(Degraded, text(condition, &["message"]));
    }
    let paused = at(object, &["spec", "paused"]).and_then(Value::as_bool) == Some(true);
    if paused || !list(object, &["status", "pauseConditions"]).is_empty() {
        return health(Suspended, "the rollout is paused");
    }
    rollout_by_replicas(object)
}

fn rollout_by_replicas(object: &Value) -> Health {
    let current = text(object, &["status", "currentPodHash"]);
    if current.is_empty() {
        return health(Progressing, "waiting for the status");
    }
    let count = |field: &str| integer(object, &["status", field]).unwrap_or(0);
    let (replicas, updated, available) =
        (count("replicas"), count("updatedReplicas"), count("availableReplicas"));
    if updated < integer(object, &["spec", "replicas"]).unwrap_or(1) {
        return health(Progressing, "more replicas have to be updated");
    }
    if available < updated {
        return health(Progressing, "updated replicas are becoming available");
    }
    let stable = match text(object, &["status", "stableRS"]) {
        "" => text(object, &["status", "canary", "stableRS"]),
        stable => stable,
    };
    if at(object, &["spec", "strategy", "blueGreen"]).is_some() {
        if text(object, &["status", "blueGreen", "activeSelector"]) != current {
            return health(Progressing, "the active service still has to be switched");
        }
        if !stable.is_empty() && stable != current {
            return health(Progressing, "waiting for the analysis");
        }
    } else if at(object, &["spec", "strategy", "canary"]).is_some() {
        if replicas > updated {
            return health(Progressing, "old replicas are being removed");
        }
        if stable != current {
            return health(Progressing, "waiting for the steps to finish");
        }
    }
    health(Healthy, "")
}

fn text_or_number(object: &Value, path: &[&str]) -> String {
    match at(object, path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn elasticsearch(object: &Value) -> Health {
    let Some(available) = integer(object, &["status", "availableNodes"]) else {
        return health(Unknown, "the cluster does not say how many nodes it has");
    };
    let wanted: i64 =
        list(object, &["spec", "nodeSets"]).iter().map(|set| integer(set, &["count"]).unwrap_or(0)).sum();
    if available < wanted {
        return health(Progressing, format!("{available} of {wanted} nodes are available"));
    }
    let (phase, colour) = (text(object, &["status", "phase"]), text(object, &["status", "health"]));
    let status = match (available == wanted, phase, colour) {
        (false, _, _) | (_, "", _) | (_, _, "") => Unknown,
        (_, "Ready", "green") => Healthy,
        (_, "Ready", "yellow") | (_, "ApplyingChanges" | "MigratingData", _) => Progressing,
        (_, "Ready", "red") | (_, "Invalid", _) => Degraded,
        _ => Unknown,
    };
    health(status, format!("phase {phase}, health {colour}"))
}

fn collector(object: &Value) -> Health {
    let replicas = text(object, &["status", "scale", "statusReplicas"]);
    let counts = replicas.split_once('/').and_then(|(ready, total)| {
        Some((ready.trim().parse::<u64>().ok()?, total.trim().parse::<u64>().ok()?))
    });
    let mode = text(object, &["spec", "mode"]);
    match counts {
        Some((0, 0)) if mode == "daemonset" => health(Healthy, "no node is eligible"),
        Some((0, _)) => health(Degraded, "no replica is ready"),
        Some((ready, total)) if ready == total => health(Healthy, "all replicas are ready"),
        Some((ready, total)) => health(Progressing, format!("{ready} of {total} replicas are ready")),
        None if mode == "sidecar" && at(object, &["status"]).is_some() => {
            health(Healthy, "runs as a sidecar")
        }
        None => health(Progressing, "waiting for the status"),
    }
}

fn spark(object: &Value) -> Health {
    let state = text(object, &["status", "applicationState", "state"]);
    let error = text(object, &["status", "applicationState", "errorMessage"]);
    match state {
        "RUNNING" if executors_are_enough(object) => health(Healthy, "running"),
        "COMPLETED" => health(Healthy, "completed"),
        "FAILED" | "SUBMISSION_FAILED" | "FAILING" => health(Degraded, error),
        "INVALIDATING" => health(Missing, "being invalidated"),
        "RUNNING" | "" => health(Progressing, "waiting for executor pods"),
        other => health(Progressing, other),
    }
}

/// As many executors run as the spec asks for, be that a number or a range.
fn executors_are_enough(object: &Value) -> bool {
    let Some(executors) = at(object, &["status", "executorState"]).and_then(Value::as_object) else {
        return false;
    };
    let running = executors.values().filter(|state| state.as_str() == Some("RUNNING")).count() as i64;
    let wanted = integer(object, &["spec", "executor", "instances"]);
    if wanted == Some(running) {
        return true;
    }
    match executor_range(object) {
        Some((least, most)) => (least..=most).contains(&running),
        None => at(object, &["spec", "dynamicAllocation"]).is_none() && wanted.is_none() && running >= 1,
    }
}

fn executor_range(object: &Value) -> Option<(i64, i64)> {
    let dynamic = at(object, &["spec", "dynamicAllocation"]);
    if let Some(dynamic) = dynamic.filter(|d| d.get("enabled").and_then(Value::as_bool) == Some(true)) {
        let bound = |field: &str| integer(dynamic, &[field]);
        return Some((bound("minExecutors").unwrap_or(0), bound("maxExecutors").unwrap_or(i64::MAX)));
    }
    let settings = at(object, &["spec", "sparkConf"])?;
    ["spark.streaming.dynamicAllocation", "spark.dynamicAllocation"].iter().find_map(|prefix| {
        let setting = |name: &str| settings.get(format!("{prefix}.{name}")).and_then(Value::as_str);
        (setting("enabled") == Some("true")).then(|| {
            let bound = |name: &str| setting(name).and_then(|text| text.parse().ok());
            (bound("minExecutors").unwrap_or(0), bound("maxExecutors").unwrap_or(i64::MAX))
        })
    })
}
