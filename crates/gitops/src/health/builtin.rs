//! Health of the kinds that every cluster has.

use super::{Health, HealthCode};
use crate::hooks;
use crate::object::{self, at, integer, list, text};
use HealthCode::{Degraded, Healthy, Progressing, Suspended, Unknown};
use serde_json::Value;
use slipway_crd::names;

/// The health of a built-in kind; None for kinds without a rule here.
pub(super) fn assess(object: &Value) -> Option<Health> {
    let (group, version, kind) = (object::group(object), object::version(object), object::kind(object));
    Some(match (group, kind) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") if version != "v1" => {
            unsupported(object)
        }
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") => replica_set(object),
        ("batch", "Job") if version == "v1" => job(object),
        ("batch", "Job") => unsupported(object),
        ("", "Pod") => pod(object),
        ("", "Service") => service(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("extensions" | "networking.k8s.io", "Ingress") => ingress(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(object),
        ("apiregistration.k8s.io", "APIService") => api_service(object),
        ("argoproj.io", "Workflow") => workflow(object),
        _ => return None,
    })
}

fn health(status: HealthCode, message: impl Into<String>) -> Health {
    Health::new(status, message)
}

fn unsupported(object: &Value) -> Health {
    let (group, version, kind) = (object::group(object), object::version(object), object::kind(object));
    health(Unknown, format!("unsupported {kind} GVK: {group}/{version}, Kind={kind}"))
}

/// A condition of `status.conditions` by its type.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|c| text(c, &["type"]) == kind)
}

fn is_true(condition: &Value) -> bool {
    text(condition, &["status"]) == "True"
}

fn count(object: &Value, field: &str) -> i64 {
    integer(object, &["status", field]).unwrap_or(0)
}

/// The controller has not looked at the newest spec yet.
fn is_unobserved(object: &Value) -> bool {
    let generation = integer(object, &["metadata", "generation"]).unwrap_or(0);
    generation > count(object, "observedGeneration")
}

fn deployment(object: &Value) -> Health {
    if at(object, &["spec", "paused"]).and_then(Value::as_bool) == Some(true) {
        return health(Suspended, "Deployment is paused");
    }
    if is_unobserved(object) {
        return health(
            Progressing,
            "Waiting for rollout to finish: observed deployment generation less than desired generation",
        );
    }
    if condition(object, "Progressing").is_some_and(|c| text(c, &["reason"]) == "ProgressDeadlineExceeded") {
        let name = object::name(object);
        return health(Degraded, format!("Deployment \"{name}\" exceeded its progress deadline"));
    }
    let (updated, replicas, available) =
        (count(object, "updatedReplicas"), count(object, "replicas"), count(object, "availableReplicas"));
    if let Some(wanted) = integer(object, &["spec", "replicas"])
        && updated < wanted
    {
        return health(
            Progressing,
            format!(
                "Waiting for rollout to finish: {updated} out of {wanted} new replicas have been updated..."
            ),
        );
    }
    if replicas > updated {
        let old = replicas - updated;
        return health(
            Progressing,
            format!("Waiting for rollout to finish: {old} old replicas are pending termination..."),
        );
    }
    if available < updated {
        return health(
            Progressing,
            format!(
                "Waiting for rollout to finish: {available} of {updated} updated replicas are available..."
            ),
        );
    }
    health(Healthy, "")
}

fn stateful_set(object: &Value) -> Health {
    if count(object, "observedGeneration") == 0 || is_unobserved(object) {
        return health(Progressing, "Waiting for statefulset spec update to be observed...");
    }
    let (ready, updated) = (count(object, "readyReplicas"), count(object, "updatedReplicas"));
    let wanted = integer(object, &["spec", "replicas"]);
    if let Some(wanted) = wanted
        && ready < wanted
    {
        return health(Progressing, format!("Waiting for {} pods to be ready...", wanted - ready));
    }
    let strategy = text(object, &["spec", "updateStrategy", "type"]);
    if strategy == "RollingUpdate"
        && let Some(rolling) =
            at(object, &["spec", "updateStrategy", "rollingUpdate"]).filter(|r| !r.is_null())
    {
        let partition = integer(rolling, &["partition"]).unwrap_or(0);
        if let (Some(wanted), true) = (wanted, partition != 0 || rolling.get("partition").is_some())
            && updated < wanted - partition
        {
            return health(
                Progressing,
                format!(
                    "Waiting for partitioned roll out to finish: {updated} out of {} new pods have been updated...",
                    wanted - partition
                ),
            );
        }
        return health(
            Healthy,
            format!("partitioned roll out complete: {updated} new pods have been updated..."),
        );
    }
    if strategy == "OnDelete" {
        return health(Healthy, format!("statefulset has {ready} ready pods"));
    }
    let (current, update) =
        (text(object, &["status", "currentRevision"]), text(object, &["status", "updateRevision"]));
    if current != update {
        return health(
            Progressing,
            format!(
                "waiting for statefulset rolling update to complete {updated} pods at revision {update}..."
            ),
        );
    }
    health(
        Healthy,
        format!(
            "statefulset rolling update complete {} pods at revision {current}...",
            count(object, "currentReplicas")
        ),
    )
}

fn daemon_set(object: &Value) -> Health {
    if is_unobserved(object) {
        return health(
            Progressing,
            "Waiting for rollout to finish: observed daemon set generation less than desired generation",
        );
    }
    let (wanted, updated, available) = (
        count(object, "desiredNumberScheduled"),
        count(object, "updatedNumberScheduled"),
        count(object, "numberAvailable"),
    );
    if text(object, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return health(Healthy, format!("daemon set {updated} out of {wanted} new pods have been updated"));
    }
    let name = object::name(object);
    if updated < wanted {
        return health(
            Progressing,
            format!(
                "Waiting for daemon set \"{name}\" rollout to finish: {updated} out of {wanted} new pods have been updated..."
            ),
        );
    }
    if available < wanted {
        return health(
            Progressing,
            format!(
                "Waiting for daemon set \"{name}\" rollout to finish: {available} of {wanted} updated pods are available..."
            ),
        );
    }
    health(Healthy, "")
}

fn replica_set(object: &Value) -> Health {
    if is_unobserved(object) {
        return health(
            Progressing,
            "Waiting for rollout to finish: observed replica set generation less than desired generation",
        );
    }
    if let Some(failure) = condition(object, "ReplicaFailure").filter(|c| is_true(c)) {
        return health(Degraded, text(failure, &["message"]));
    }
    let available = count(object, "availableReplicas");
    match integer(object, &["spec", "replicas"]) {
        Some(wanted) if available < wanted => health(
            Progressing,
            format!(
                "Waiting for rollout to finish: {available} out of {wanted} new replicas are available..."
            ),
        ),
        _ => health(Healthy, ""),
    }
}

/// A condition counts only when its status is True. Upstream also takes `Suspended=False` for an end, so there a
/// resumed Job reads Healthy while it runs; that would be a wrong "Healthy".
fn job(object: &Value) -> Health {
    let (mut failed, mut complete, mut suspended) = (None, None, None);
    for one in list(object, &["status", "conditions"]).iter().filter(|c| is_true(c)) {
        match text(one, &["type"]) {
            "Failed" => failed = Some(text(one, &["message"])),
            "Complete" => complete = Some(text(one, &["message"])),
            "Suspended" => suspended = Some(text(one, &["message"])),
            _ => {}
        }
    }
    match (failed, complete, suspended) {
        (Some(message), _, _) => health(Degraded, message),
        (_, Some(message), _) => health(Healthy, message),
        (_, _, Some(message)) => health(Suspended, message),
        _ => health(Progressing, ""),
    }
}

fn containers(object: &Value) -> impl Iterator<Item = &Value> {
    let of = |field: &str| list(object, &["status", field]).iter();
    of("initContainerStatuses").chain(of("containerStatuses"))
}

fn pod(object: &Value) -> Health {
    let policy = text(object, &["spec", "restartPolicy"]);
    let restarts = policy == "Always"
        || object::annotation(object, names::IGNORE_RESTART_POLICY) == Some("true")
            && !hooks::is_hook(object);
    if restarts {
        let stuck: Vec<&str> = containers(object)
            .filter_map(|container| at(container, &["state", "waiting"]))
            .filter(|waiting| {
                let reason = text(waiting, &["reason"]);
                reason.starts_with("Err") || reason.ends_with("Error") || reason.ends_with("BackOff")
            })
            .map(|waiting| text(waiting, &["message"]))
            .collect();
        if !stuck.is_empty() {
            return health(Degraded, stuck.join(", "));
        }
    }
    let message = text(object, &["status", "message"]);
    match text(object, &["status", "phase"]) {
        "Pending" => health(Progressing, message),
        "Succeeded" => health(Healthy, message),
        "Failed" => health(Degraded, pod_failure(object)),
        "Running" if restarts => {
            if condition(object, "Ready").is_some_and(is_true) {
                return health(Healthy, message);
            }
            let restarted = containers(object).any(|c| at(c, &["lastState", "terminated"]).is_some());
            health(if restarted { Degraded } else { Progressing }, message)
        }
        "Running" => health(Progressing, message),
        _ => health(Unknown, message),
    }
}

fn pod_failure(object: &Value) -> String {
    let message = text(object, &["status", "message"]);
    if !message.is_empty() {
        return message.to_string();
    }
    containers(object)
        .filter_map(|container| Some((container, at(container, &["state", "terminated"])?)))
        .find_map(|(container, end)| {
            let message = text(end, &["message"]);
            let code = integer(end, &["exitCode"]).unwrap_or(0);
            if !message.is_empty() {
                Some(message.to_string())
            } else if text(end, &["reason"]) == "OOMKilled" {
                Some("OOMKilled".to_string())
            } else if code != 0 {
                Some(format!("container \"{}\" failed with exit code {code}", text(container, &["name"])))
            } else {
                None
            }
        })
        .unwrap_or_default()
}

fn service(object: &Value) -> Health {
    if text(object, &["spec", "type"]) == "LoadBalancer"
        && list(object, &["status", "loadBalancer", "ingress"]).is_empty()
    {
        return health(Progressing, "");
    }
    health(Healthy, "")
}

fn ingress(object: &Value) -> Health {
    let ready = !list(object, &["status", "loadBalancer", "ingress"]).is_empty();
    health(if ready { Healthy } else { Progressing }, "")
}

fn claim(object: &Value) -> Health {
    let status = match text(object, &["status", "phase"]) {
        "Lost" => Degraded,
        "Pending" => Progressing,
        "Bound" => Healthy,
        _ => Unknown,
    };
    health(status, "")
}

fn autoscaler(object: &Value) -> Health {
    // autoscaling/v1 has no conditions of its own: the server keeps them in an annotation.
    let from_annotation: Option<Value> = (object::version(object) == "v1")
        .then(|| object::annotation(object, "autoscaling.alpha.kubernetes.io/conditions"))
        .flatten()
        .map(|text| serde_json::from_str(text).unwrap_or_default());
    let conditions = match &from_annotation {
        Some(parsed) => parsed.as_array().map(Vec::as_slice).unwrap_or_default(),
        None => list(object, &["status", "conditions"]),
    };
    for one in conditions {
        let (kind, reason, message) = (text(one, &["type"]), text(one, &["reason"]), text(one, &["message"]));
        let broken = match kind {
            "AbleToScale" => matches!(reason, "FailedGetScale" | "FailedUpdateScale"),
            "ScalingActive" => matches!(
                reason,
                "FailedGetResourceMetric"
                    | "FailedGetObjectMetric"
                    | "FailedGetPodsMetric"
                    | "FailedGetExternalMetric"
                    | "FailedComputeMetricsReplicas"
                    | "InvalidSelector"
            ),
            _ => false,
        };
        if broken {
            return health(Degraded, message);
        }
    }
    conditions
        .iter()
        .find(|c| matches!(text(c, &["type"]), "AbleToScale" | "ScalingLimited") && is_true(c))
        .map_or_else(
            || health(Progressing, "Waiting to Autoscale"),
            |c| health(Healthy, text(c, &["message"])),
        )
}

fn api_service(object: &Value) -> Health {
    match condition(object, "Available") {
        Some(available) => {
            let message = format!("{}: {}", text(available, &["reason"]), text(available, &["message"]));
            health(if is_true(available) { Healthy } else { Progressing }, message)
        }
        None => health(Progressing, "Waiting to be processed"),
    }
}

fn workflow(object: &Value) -> Health {
    let message = text(object, &["status", "message"]);
    let status = match text(object, &["status", "phase"]) {
        "" | "Pending" | "Running" => Progressing,
        "Succeeded" => Healthy,
        "Failed" | "Error" => Degraded,
        _ => Unknown,
    };
    health(status, message)
}
