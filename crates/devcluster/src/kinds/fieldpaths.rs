//! Which fields a field selector may name.

use super::Resource;

pub(crate) fn selectable(resource: &Resource, path: &str) -> bool {
    if path == "metadata.name" || (path == "metadata.namespace" && resource.namespaced) {
        return true;
    }
    if resource.is_custom() {
        return resource.selectable.iter().any(|field| field == path);
    }
    let known: &[&str] = match resource.plural.as_str() {
        "pods" => &[
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
            "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
        ],
        "events" => &[
            "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
            "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
            "reportingComponent", "source", "type", "regarding.kind", "regarding.namespace", "regarding.name",
            "regarding.uid", "regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath",
            "reportingController",
        ],
        "secrets" => &["type"],
        "jobs" => &["status.successful"],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "replicasets" | "replicationcontrollers" => &["status.replicas"],
        "services" => &["spec.clusterIP", "spec.type"],
        "certificatesigningrequests" => &["spec.signerName"],
        _ => &[],
    };
    known.contains(&path)
}
