//! Which fields a field selector may name.

use super::Resource;

pub(crate) fn selectable(resource: &Resource, path: &str) -> bool {
    if path == "metadata.name" || (path == "metadata.namespace" && resource.namespaced) {
        return true;
    }
    if resource.is_custom() {
        return resource.selectable.iter().any(|field| field == path);
    }
    of_builtin(resource).contains(&path)
}

/// What is said about a path that may not be named. Kinds with fields of their own have words of their own.
pub(crate) fn not_selectable(resource: &Resource, path: &str) -> String {
    match resource.plural.as_str() {
        "jobs" if !resource.is_custom() => format!("field label {path:?} not supported for Job"),
        _ if resource.is_custom() || !of_builtin(resource).is_empty() => {
            format!("field label not supported: {path}")
        }
        _ => {
            format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    }
}

fn of_builtin(resource: &Resource) -> &'static [&'static str] {
    match resource.plural.as_str() {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
        ],
        "secrets" => &["type"],
        "jobs" => &["status.successful"],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "replicationcontrollers" => &["status.replicas"],
        "services" => &["spec.clusterIP", "spec.type"],
        "certificatesigningrequests" => &["spec.signerName"],
        _ => &[],
    }
}
