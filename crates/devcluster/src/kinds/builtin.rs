//! The table of built-in kinds.

use std::sync::Arc;

use super::{Resource, Scale, Shape};
use crate::schema::builtin;

/// type · plural · short names · scope and traits.
/// Traits: `n` namespaced, `s` status, `r` scale, `a` category all, `v` virtual.
const BUILTIN: &[(&str, &str, &str, &str, &str)] = &[
    ("", "core.v1.Binding", "bindings", "", "nv"),
    ("", "core.v1.ConfigMap", "configmaps", "cm", "n"),
    ("", "core.v1.Endpoints", "endpoints", "ep", "n"),
    ("", "core.v1.Event", "events", "ev", "n"),
    ("", "core.v1.LimitRange", "limitranges", "limits", "n"),
    ("", "core.v1.Namespace", "namespaces", "ns", "s"),
    ("", "core.v1.Node", "nodes", "no", "s"),
    ("", "core.v1.PersistentVolume", "persistentvolumes", "pv", "s"),
    ("", "core.v1.PersistentVolumeClaim", "persistentvolumeclaims", "pvc", "ns"),
    ("", "core.v1.Pod", "pods", "po", "nsa"),
    ("", "core.v1.PodTemplate", "podtemplates", "", "n"),
    ("", "core.v1.ReplicationController", "replicationcontrollers", "rc", "nsra"),
    ("", "core.v1.ResourceQuota", "resourcequotas", "quota", "ns"),
    ("", "core.v1.Secret", "secrets", "", "n"),
    ("", "core.v1.Service", "services", "svc", "nsa"),
    ("", "core.v1.ServiceAccount", "serviceaccounts", "sa", "n"),
    ("admissionregistration.k8s.io", "admissionregistration.v1.MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "", ""),
    ("admissionregistration.k8s.io", "admissionregistration.v1.ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "", ""),
    ("admissionregistration.k8s.io", "admissionregistration.v1.ValidatingAdmissionPolicy", "validatingadmissionpolicies", "", "s"),
    ("admissionregistration.k8s.io", "admissionregistration.v1.ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "", ""),
    ("apiextensions.k8s.io", "apiextensions.v1.CustomResourceDefinition", "customresourcedefinitions", "crd,crds", "s"),
    ("apiregistration.k8s.io", "apiregistration.v1.APIService", "apiservices", "", "s"),
    ("apps", "apps.v1.ControllerRevision", "controllerrevisions", "", "n"),
    ("apps", "apps.v1.DaemonSet", "daemonsets", "ds", "nsa"),
    ("apps", "apps.v1.Deployment", "deployments", "deploy", "nsra"),
    ("apps", "apps.v1.ReplicaSet", "replicasets", "rs", "nsra"),
    ("apps", "apps.v1.StatefulSet", "statefulsets", "sts", "nsra"),
    ("authentication.k8s.io", "authentication.v1.SelfSubjectReview", "selfsubjectreviews", "", "v"),
    ("authentication.k8s.io", "authentication.v1.TokenReview", "tokenreviews", "", "v"),
    ("authorization.k8s.io", "authorization.v1.LocalSubjectAccessReview", "localsubjectaccessreviews", "", "nv"),
    ("authorization.k8s.io", "authorization.v1.SelfSubjectAccessReview", "selfsubjectaccessreviews", "", "v"),
    ("authorization.k8s.io", "authorization.v1.SelfSubjectRulesReview", "selfsubjectrulesreviews", "", "v"),
    ("authorization.k8s.io", "authorization.v1.SubjectAccessReview", "subjectaccessreviews", "", "v"),
    ("autoscaling", "autoscaling.v1.HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", "nsa"),
    ("autoscaling", "autoscaling.v2.HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", "nsa"),
    ("batch", "batch.v1.CronJob", "cronjobs", "cj", "nsa"),
    ("batch", "batch.v1.Job", "jobs", "", "nsa"),
    ("certificates.k8s.io", "certificates.v1.CertificateSigningRequest", "certificatesigningrequests", "csr", "s"),
    ("coordination.k8s.io", "coordination.v1.Lease", "leases", "", "n"),
    ("discovery.k8s.io", "discovery.v1.EndpointSlice", "endpointslices", "", "n"),
    ("events.k8s.io", "events.v1.Event", "events", "ev", "n"),
    ("networking.k8s.io", "networking.v1.Ingress", "ingresses", "ing", "ns"),
    ("networking.k8s.io", "networking.v1.IngressClass", "ingressclasses", "", ""),
    ("networking.k8s.io", "networking.v1.NetworkPolicy", "networkpolicies", "netpol", "n"),
    ("node.k8s.io", "node.v1.RuntimeClass", "runtimeclasses", "", ""),
    ("policy", "policy.v1.PodDisruptionBudget", "poddisruptionbudgets", "pdb", "ns"),
    ("rbac.authorization.k8s.io", "rbac.v1.ClusterRole", "clusterroles", "", ""),
    ("rbac.authorization.k8s.io", "rbac.v1.ClusterRoleBinding", "clusterrolebindings", "", ""),
    ("rbac.authorization.k8s.io", "rbac.v1.Role", "roles", "", "n"),
    ("rbac.authorization.k8s.io", "rbac.v1.RoleBinding", "rolebindings", "", "n"),
    ("scheduling.k8s.io", "scheduling.v1.PriorityClass", "priorityclasses", "pc", ""),
    ("storage.k8s.io", "storage.v1.CSIDriver", "csidrivers", "", ""),
    ("storage.k8s.io", "storage.v1.CSINode", "csinodes", "", ""),
    ("storage.k8s.io", "storage.v1.CSIStorageCapacity", "csistoragecapacities", "", "n"),
    ("storage.k8s.io", "storage.v1.StorageClass", "storageclasses", "sc", ""),
    ("storage.k8s.io", "storage.v1.VolumeAttachment", "volumeattachments", "", "s"),
];

/// The type that a built-in apiVersion and kind name, also those that only subresources take.
pub(crate) fn type_name(api_version: &str, kind: &str) -> Option<&'static str> {
    const OTHERS: &[(&str, &str)] = &[
        ("authentication.k8s.io", "authentication.v1.TokenRequest"),
        ("autoscaling", "autoscaling.v1.Scale"),
        ("policy", "policy.v1.Eviction"),
    ];
    // Options come under the version of whatever they are about.
    if kind == "DeleteOptions" {
        return Some("meta.v1.DeleteOptions");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let all = BUILTIN.iter().map(|(group, ty, ..)| (*group, *ty)).chain(OTHERS.iter().copied());
    let wanted = format!(".{version}.{kind}");
    all.into_iter().find(|(g, ty)| *g == group && ty.ends_with(&wanted)).map(|(_, ty)| ty)
}

pub(super) fn resources() -> Vec<Resource> {
    BUILTIN.iter().map(|row| resource(row)).collect()
}

fn resource((group, ty, plural, short, traits): &(&str, &'static str, &str, &str, &str)) -> Resource {
    let mut words = ty.rsplit('.');
    let (kind, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let has = |letter: char| traits.contains(letter);
    let (storage, stored_as) = storage(group, version, plural);
    Resource {
        group: (*group).to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: (*plural).to_owned(),
        singular: kind.to_lowercase(),
        short: short.split(',').filter(|s| !s.is_empty()).map(str::to_owned).collect(),
        categories: if has('a') { vec!["all".to_owned()] } else { Vec::new() },
        namespaced: has('n'),
        storage: Arc::from(storage),
        stored_as,
        shape: Shape::Builtin(builtin(ty).expect("the table names types of builtin.txt"), ty),
        status: has('s'),
        scale: has('r').then(|| Scale {
            replicas: "spec.replicas".to_owned(),
            status_replicas: "status.replicas".to_owned(),
            selector: String::new(),
        }),
        columns: Vec::new(),
        selectable: Vec::new(),
        subresources: match *plural {
            "pods" => vec!["attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy"],
            "serviceaccounts" => vec!["token"],
            "services" => vec!["proxy"],
            "namespaces" => vec!["finalize"],
            _ => Vec::new(),
        },
        virtual_only: has('v'),
        deprecation: (*plural == "endpoints").then(|| "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()),
    }
}

/// Events are one shelf under two groups, autoscalers one under two versions.
fn storage(group: &str, version: &str, plural: &str) -> (String, String) {
    match (group, plural) {
        (_, "events") => ("events".to_owned(), "v1".to_owned()),
        (_, "horizontalpodautoscalers") => (format!("{group}/{plural}"), "autoscaling/v2".to_owned()),
        ("", _) => (plural.to_owned(), version.to_owned()),
        _ => (format!("{group}/{plural}"), format!("{group}/{version}")),
    }
}
