//! Validation: names and labels, the shape, and the rules of single kinds that clients rely on.

use serde_json::{Value, json};
use slipway_dialect::cron::{Dialect, Schedule};
use slipway_dialect::selector::is_label_word;

use super::select::match_labels;
use crate::error::{ApiError, ApiResult};
use crate::kinds::Resource;
use crate::schema::{self, ShapeError};
use crate::value::{Json as _, is_dns_label, is_dns_subdomain};

pub(super) fn object(resource: &Resource, object: &Value, live: Option<&Value>) -> ApiResult<()> {
    let mut findings = Vec::new();
    meta(resource, object, live.is_none(), &mut findings);
    schema::validate(resource.node(), object, "", &mut findings);
    if !resource.is_custom() {
        kind_rules(resource, object, &mut findings);
        if let Some(live) = live {
            immutable_rules(resource, live, object, &mut findings);
        }
    }
    findings.dedup();
    if findings.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&resource.group, &resource.kind, object.name(), &findings))
}

fn meta(resource: &Resource, object: &Value, create: bool, findings: &mut Vec<ShapeError>) {
    let name = object.name();
    if name.is_empty() {
        findings.push(ShapeError::required("metadata.name", "name or generateName is required"));
    } else if create && !name_fits(resource, name) {
        let detail = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                      and must start and end with an alphanumeric character";
        findings.push(ShapeError::invalid("metadata.name", &json!(name), detail));
    }
    for (key, value) in object.map_at("metadata.labels").into_iter().flatten() {
        if !is_label_word(key.rsplit('/').next().unwrap_or("")) || key.is_empty() {
            findings.push(ShapeError::invalid("metadata.labels", &json!(key), "is not a qualified name"));
        }
        if !value.as_str().is_some_and(is_label_word) {
            let detail = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                          and must start and end with an alphanumeric character, at most 63 of them";
            findings.push(ShapeError::invalid("metadata.labels", value, detail));
        }
    }
    for (index, owner) in object.list_at("metadata.ownerReferences").iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.str_at(field).is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                findings.push(ShapeError::invalid(&path, &json!(""), "must not be empty"));
            }
        }
    }
    let strict = !resource.is_custom() && resource.group != "apiextensions.k8s.io";
    for (index, finalizer) in object.list_at("metadata.finalizers").iter().enumerate().filter(|_| strict) {
        let text = finalizer.as_str().unwrap_or("");
        if !text.contains(['/', '.']) && !matches!(text, "foregroundDeletion" | "orphan" | "kubernetes") {
            let path = format!("metadata.finalizers[{index}]");
            findings.push(ShapeError::invalid(
                &path,
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

fn name_fits(resource: &Resource, name: &str) -> bool {
    match resource.kind.as_str() {
        "Namespace" | "Service" => is_dns_label(name),
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => !name.contains(['/', '%']),
        _ => is_dns_subdomain(name),
    }
}

/// Fields with a closed set of values.
const ENUMS: &[(&str, &str, &[&str])] = &[
    ("Service", "spec.type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
    ("Service", "spec.sessionAffinity", &["ClientIP", "None"]),
    ("Deployment", "spec.strategy.type", &["Recreate", "RollingUpdate"]),
    ("StatefulSet", "spec.podManagementPolicy", &["OrderedReady", "Parallel"]),
    ("StatefulSet", "spec.updateStrategy.type", &["OnDelete", "RollingUpdate"]),
    ("DaemonSet", "spec.updateStrategy.type", &["OnDelete", "RollingUpdate"]),
    ("CronJob", "spec.concurrencyPolicy", &["Allow", "Forbid", "Replace"]),
    ("Job", "spec.completionMode", &["Indexed", "NonIndexed"]),
];

fn kind_rules(resource: &Resource, object: &Value, findings: &mut Vec<ShapeError>) {
    let kind = resource.kind.as_str();
    for (_, path, allowed) in ENUMS.iter().filter(|(name, _, _)| *name == kind) {
        if let Some(value) = object.at(path)
            && !allowed.iter().any(|a| value == a)
        {
            let allowed: Vec<String> = allowed.iter().map(|a| (*a).to_owned()).collect();
            findings.push(ShapeError::unsupported(path, value, &allowed));
        }
    }
    if object.int_at("spec.replicas").is_some_and(|n| n < 0) {
        findings.push(ShapeError::invalid(
            "spec.replicas",
            &object["spec"]["replicas"],
            "must be greater than or equal to 0",
        ));
    }
    if let Some((path, spec)) = pod_spec_of(kind, object) {
        let claims: Vec<&str> =
            object.list_at("spec.volumeClaimTemplates").iter().map(|c| c.name()).collect();
        pod_spec(path, spec, kind, &claims, findings);
    }
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => selector(object, findings),
        "Service" => service(object, findings),
        "CronJob" if Schedule::parse(object.str_at("spec.schedule"), Dialect::Standard).is_err() => {
            let detail =
                "must be a cron schedule of five fields such as \"*/5 * * * *\", or @hourly and the like";
            findings.push(ShapeError::invalid(
                "spec.schedule",
                &json!(object.str_at("spec.schedule")),
                detail,
            ));
        }
        "ConfigMap" | "Secret" => data_keys(object, findings),
        _ => {}
    }
}

fn data_keys(object: &Value, findings: &mut Vec<ShapeError>) {
    for field in ["data", "binaryData"] {
        for (key, value) in object.map_at(field).into_iter().flatten() {
            let fits = !key.is_empty()
                && key.len() <= 253
                && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
                && key != "."
                && !key.starts_with("..");
            if !fits {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
                findings.push(ShapeError::invalid(&format!("{field}[{key}]"), &json!(key), detail));
            }
            let binary = object.str_at("kind") == "Secret" || field == "binaryData";
            if binary && value.as_str().is_some_and(|v| crate::value::base64_decode(v).is_none()) {
                findings.push(ShapeError::invalid(
                    &format!("{field}[{key}]"),
                    &json!("…"),
                    "illegal base64 data",
                ));
            }
        }
    }
}

fn pod_spec_of<'a>(kind: &str, object: &'a Value) -> Option<(&'static str, &'a Value)> {
    let path = match kind {
        "Pod" => "spec",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" => "spec.template.spec",
        "CronJob" => "spec.jobTemplate.spec.template.spec",
        _ => return None,
    };
    object.at(path).map(|spec| (path, spec))
}

fn pod_spec(path: &str, spec: &Value, kind: &str, claims: &[&str], findings: &mut Vec<ShapeError>) {
    if spec.list_at("containers").is_empty() {
        findings.push(ShapeError::required(&format!("{path}.containers"), ""));
    }
    let policy = spec.str_at("restartPolicy");
    let allowed: &[&str] = match kind {
        "Pod" => &["Always", "Never", "OnFailure"],
        "Job" | "CronJob" => &["Never", "OnFailure"],
        _ => &["Always"],
    };
    if !allowed.contains(&policy) {
        let allowed: Vec<String> = allowed.iter().map(|a| (*a).to_owned()).collect();
        findings.push(ShapeError::unsupported(&format!("{path}.restartPolicy"), &json!(policy), &allowed));
    }
    let volumes: Vec<&str> =
        spec.list_at("volumes").iter().map(|v| v.str_at("name")).chain(claims.iter().copied()).collect();
    let mut names = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec.list_at(list).iter().enumerate() {
            let here = format!("{path}.{list}[{index}]");
            container_rules(&here, container, &volumes, findings);
            let name = container.str_at("name");
            if names.contains(&name) && !name.is_empty() {
                findings.push(ShapeError {
                    path: format!("{here}.name"),
                    reason: "FieldValueDuplicate",
                    message: format!("Duplicate value: {name:?}"),
                });
            }
            names.push(name);
        }
    }
}

fn container_rules(here: &str, container: &Value, volumes: &[&str], findings: &mut Vec<ShapeError>) {
    let name = container.str_at("name");
    if !name.is_empty() && !is_dns_label(name) {
        let detail = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'";
        findings.push(ShapeError::invalid(&format!("{here}.name"), &json!(name), detail));
    }
    if container.str_at("image").is_empty() {
        findings.push(ShapeError::required(&format!("{here}.image"), ""));
    }
    let policy = container.str_at("imagePullPolicy");
    if !matches!(policy, "Always" | "IfNotPresent" | "Never") {
        let allowed = ["Always", "IfNotPresent", "Never"].map(str::to_owned);
        findings.push(ShapeError::unsupported(&format!("{here}.imagePullPolicy"), &json!(policy), &allowed));
    }
    for (index, mount) in container.list_at("volumeMounts").iter().enumerate() {
        if !volumes.contains(&mount.str_at("name")) {
            let path = format!("{here}.volumeMounts[{index}].name");
            findings.push(ShapeError {
                path,
                reason: "FieldValueNotFound",
                message: format!("Not found: {:?}", mount.str_at("name")),
            });
        }
    }
    for (index, port) in container.list_at("ports").iter().enumerate() {
        if !port.int_at("containerPort").is_some_and(|n| (1..=65535).contains(&n)) {
            let path = format!("{here}.ports[{index}].containerPort");
            findings.push(ShapeError::invalid(
                &path,
                &port["containerPort"],
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
}

fn selector(object: &Value, findings: &mut Vec<ShapeError>) {
    let Some(selector) = object.at("spec.selector") else { return };
    let empty = selector.map_at("matchLabels").is_none_or(|m| m.is_empty())
        && selector.list_at("matchExpressions").is_empty();
    if empty {
        findings.push(ShapeError::invalid("spec.selector", selector, "empty selector is invalid"));
    } else if !match_labels(selector, object.map_at("spec.template.metadata.labels")) {
        let labels = object.at("spec.template.metadata.labels").cloned().unwrap_or(json!({}));
        let finding = ShapeError {
            path: "spec.template.metadata.labels".to_owned(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {labels}: `selector` does not match template `labels`"),
        };
        findings.push(finding);
    }
}

fn service(object: &Value, findings: &mut Vec<ShapeError>) {
    let ports = object.list_at("spec.ports");
    let headless = object.str_at("spec.clusterIP") == "None";
    let external = object.str_at("spec.type") == "ExternalName";
    if ports.is_empty() && !headless && !external {
        findings.push(ShapeError::required("spec.ports", ""));
    }
    if external && object.str_at("spec.externalName").is_empty() {
        findings.push(ShapeError::required("spec.externalName", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        if !port.int_at("port").is_some_and(|n| (1..=65535).contains(&n)) {
            let path = format!("spec.ports[{index}].port");
            findings.push(ShapeError::invalid(
                &path,
                &port["port"],
                "must be between 1 and 65535, inclusive",
            ));
        }
        if port["targetPort"].as_i64().is_some_and(|n| !(1..=65535).contains(&n)) {
            let path = format!("spec.ports[{index}].targetPort");
            findings.push(ShapeError::invalid(
                &path,
                &port["targetPort"],
                "must be between 1 and 65535, inclusive",
            ));
        }
        if ports.len() > 1 && port.str_at("name").is_empty() {
            findings.push(ShapeError::required(&format!("spec.ports[{index}].name"), ""));
        }
    }
}

/// Paths that may not change after creation.
const IMMUTABLE: &[(&str, &[&str])] = &[
    ("Deployment", &["spec.selector"]),
    ("ReplicaSet", &["spec.selector"]),
    ("DaemonSet", &["spec.selector"]),
    ("Job", &["spec.selector", "spec.template", "spec.completionMode"]),
    (
        "StatefulSet",
        &["spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"],
    ),
    ("RoleBinding", &["roleRef"]),
    ("ClusterRoleBinding", &["roleRef"]),
    ("Secret", &["type"]),
    ("StorageClass", &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"]),
    ("PersistentVolumeClaim", &["spec.accessModes", "spec.storageClassName", "spec.selector"]),
];

fn immutable_rules(resource: &Resource, live: &Value, object: &Value, findings: &mut Vec<ShapeError>) {
    let kind = resource.kind.as_str();
    for path in IMMUTABLE.iter().filter(|(name, _)| *name == kind).flat_map(|(_, paths)| paths.iter()) {
        let suspended = kind == "Job" && *path == "spec.template" && live.bool_at("spec.suspend");
        if live.at(path) != object.at(path) && !suspended {
            let value = object.at(path).cloned().unwrap_or(Value::Null);
            let message = format!("Invalid value: {value}: field is immutable");
            findings.push(ShapeError { path: (*path).to_owned(), reason: "FieldValueInvalid", message });
        }
    }
    if kind == "Pod" {
        pod_update(live, object, findings);
    }
}

/// A pod's spec is fixed apart from images, deadlines, tolerations and the node it is bound to.
fn pod_update(live: &Value, object: &Value, findings: &mut Vec<ShapeError>) {
    let strip = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container.remove_at("image");
                container.remove_at("resources");
            }
        }
        for field in [
            "activeDeadlineSeconds",
            "tolerations",
            "terminationGracePeriodSeconds",
            "nodeName",
            "ephemeralContainers",
            "schedulingGates",
            "nodeSelector",
            "affinity",
        ] {
            spec.remove_at(field);
        }
        spec
    };
    if strip(live) != strip(object) {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                      `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                      `spec.terminationGracePeriodSeconds`";
        findings.push(ShapeError::forbidden("spec", detail));
    }
}
