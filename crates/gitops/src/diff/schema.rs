//! What the merge must know of built-in kinds: which lists are keyed and where quantities stand.
//!
//! Custom resources have none of it: their lists are replaced whole, as a JSON merge does.

use crate::object;
use serde_json::Value;

/// What is known of the object being merged.
pub(super) struct Context {
    built_in: bool,
    kind: String,
}

/// Groups whose kinds the API server merges strategically.
const BUILT_IN_GROUPS: &[&str] = &[
    "",
    "apps",
    "batch",
    "autoscaling",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "node.k8s.io",
    "certificates.k8s.io",
    "extensions",
    "apiregistration.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

pub(super) fn is_built_in(object: &Value) -> bool {
    BUILT_IN_GROUPS.contains(&object::group(object))
}

impl Context {
    pub(super) fn of(object: &Value) -> Self {
        // A Rollout's pod template is a pod template, and users expect it to be compared as one.
        let rollout = object::group(object) == "argoproj.io" && object::kind(object) == "Rollout";
        Self { built_in: is_built_in(object) || rollout, kind: object::kind(object).to_string() }
    }

    pub(super) fn is_built_in(&self) -> bool {
        self.built_in
    }

    /// The fields that identify an entry of the list called `field`; None for lists that are replaced whole.
    pub(super) fn merge_keys(&self, field: &str) -> Option<&'static [&'static str]> {
        if !self.built_in {
            return None;
        }
        Some(match field {
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "volumes"
            | "env"
            | "imagePullSecrets"
            | "secrets"
            | "webhooks"
            | "validations"
            | "resourceClaims"
            | "schedulingGates"
            | "claims" => &["name"],
            "volumeMounts" => &["mountPath"],
            "volumeDevices" => &["devicePath"],
            "hostAliases" => &["ip"],
            "ports" if self.kind == "Service" => &["port", "protocol"],
            "ports" if self.kind == "Endpoints" || self.kind == "NetworkPolicy" => return None,
            "ports" => &["containerPort", "protocol"],
            "topologySpreadConstraints" => &["topologyKey", "whenUnsatisfiable"],
            "conditions" => &["type"],
            "ownerReferences" => &["uid"],
            _ => return None,
        })
    }

    /// Lists that are sets: entries are added, and only taken out when they were ours.
    pub(super) fn is_set(&self, field: &str) -> bool {
        field == "finalizers"
    }

    /// Maps of which only one member may be set; a new one drops the others (`retainKeys`).
    pub(super) fn retains_keys(&self, field: &str, parent: &str) -> bool {
        self.built_in && (field == "strategy" || parent == "volumes")
    }
}

/// A default of a merge key that manifests leave out.
pub(super) fn key_default(field: &str) -> Option<&'static str> {
    match field {
        "protocol" => Some("TCP"),
        "whenUnsatisfiable" => Some("DoNotSchedule"),
        _ => None,
    }
}

/// What the API server fills in inside lists that it replaces whole, where a merge cannot keep it.
pub(super) fn is_server_default(field: &str, value: &Value) -> bool {
    let text = value.as_str();
    match field {
        "protocol" => text == Some("TCP"),
        "apiVersion" => text == Some("v1"),
        "kind" => text == Some("PersistentVolumeClaim"),
        "volumeMode" => text == Some("Filesystem"),
        "status" => value.get("phase").and_then(Value::as_str) == Some("Pending"),
        "creationTimestamp" => value.is_null(),
        "defaultMode" => value.as_i64() == Some(420),
        "divisor" => matches!(value.as_str(), Some("0")) || value.as_i64() == Some(0),
        "expirationSeconds" => value.as_i64() == Some(3600),
        "scope" => text == Some("*"),
        "pathType" => text == Some("ImplementationSpecific"),
        "stabilizationWindowSeconds" => value.as_i64() == Some(0),
        _ => value.is_null(),
    }
}

/// Fields of built-in kinds that hold quantities: the value itself or each value of the map.
pub(super) fn holds_quantities(field: &str) -> bool {
    matches!(
        field,
        "limits"
            | "requests"
            | "hard"
            | "capacity"
            | "default"
            | "defaultRequest"
            | "maxLimitRequestRatio"
            | "overhead"
    )
}

/// Fields of built-in kinds that are a quantity.
pub(super) fn is_quantity(field: &str) -> bool {
    matches!(field, "sizeLimit" | "divisor" | "averageValue")
}
