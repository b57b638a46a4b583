//! Defaults of built-in kinds, as a table of paths.
//!
//! Kubernetes has these in code per kind (pkg/apis/*/v1/defaults.go); here they are data. A segment that ends in `[]`
//! goes through a list, one that ends in `!` is made when missing; otherwise a missing parent means no default.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::value::Json as _;

const POD_SPEC: &str = "
dnsPolicy=\"ClusterFirst\"
restartPolicy=\"Always\"
schedulerName=\"default-scheduler\"
securityContext={}
terminationGracePeriodSeconds=30
@containers[]
@initContainers[]
volumes[].configMap.defaultMode=420
volumes[].secret.defaultMode=420
volumes[].projected.defaultMode=420
volumes[].downwardAPI.defaultMode=420
volumes[].hostPath.type=\"\"
volumes[].projected.sources[].serviceAccountToken.expirationSeconds=3600
";

const CONTAINER: &str = "
terminationMessagePath=\"/dev/termination-log\"
terminationMessagePolicy=\"File\"
resources={}
ports[].protocol=\"TCP\"
env[].valueFrom.fieldRef.apiVersion=\"v1\"
~livenessProbe
~readinessProbe
~startupProbe
lifecycle.postStart.httpGet.path=\"/\"
lifecycle.preStop.httpGet.path=\"/\"
lifecycle.postStart.httpGet.scheme=\"HTTP\"
lifecycle.preStop.httpGet.scheme=\"HTTP\"
";

const PROBE: &str = "
timeoutSeconds=1
periodSeconds=10
successThreshold=1
failureThreshold=3
httpGet.path=\"/\"
httpGet.scheme=\"HTTP\"
grpc.service=\"\"
";

const KINDS: &[(&str, &str)] = &[
    ("Pod", "#spec\nspec.enableServiceLinks=true"),
    ("PodTemplate", "#template.spec"),
    ("ReplicationController", "spec!.replicas=1\n#spec.template.spec"),
    (
        "Deployment",
        "spec!.replicas=1\nspec.revisionHistoryLimit=10\nspec.progressDeadlineSeconds=600\n\
         spec.strategy!.type=\"RollingUpdate\"\n#spec.template.spec",
    ),
    ("ReplicaSet", "spec!.replicas=1\n#spec.template.spec"),
    (
        "StatefulSet",
        "spec!.replicas=1\nspec.revisionHistoryLimit=10\nspec.podManagementPolicy=\"OrderedReady\"\n\
         spec.updateStrategy!.type=\"RollingUpdate\"\n#spec.template.spec\n\
         spec.persistentVolumeClaimRetentionPolicy!.whenDeleted=\"Retain\"\n\
         spec.persistentVolumeClaimRetentionPolicy!.whenScaled=\"Retain\"\n\
         spec.volumeClaimTemplates[].apiVersion=\"v1\"\nspec.volumeClaimTemplates[].kind=\"PersistentVolumeClaim\"\n\
         spec.volumeClaimTemplates[].spec.volumeMode=\"Filesystem\"\n\
         spec.volumeClaimTemplates[].status={\"phase\":\"Pending\"}",
    ),
    (
        "DaemonSet",
        "spec!.revisionHistoryLimit=10\nspec.updateStrategy!.type=\"RollingUpdate\"\n#spec.template.spec",
    ),
    (
        "Job",
        "spec!.completionMode=\"NonIndexed\"\nspec.backoffLimit=6\nspec.parallelism=1\nspec.suspend=false\n\
         spec.podReplacementPolicy=\"TerminatingOrFailed\"\nspec.manualSelector=false\n#spec.template.spec",
    ),
    (
        "CronJob",
        "spec!.concurrencyPolicy=\"Allow\"\nspec.suspend=false\nspec.successfulJobsHistoryLimit=3\n\
         spec.failedJobsHistoryLimit=1\n#spec.jobTemplate.spec.template.spec",
    ),
    (
        "Service",
        "spec!.type=\"ClusterIP\"\nspec.sessionAffinity=\"None\"\nspec.ports[].protocol=\"TCP\"\n\
         spec.internalTrafficPolicy=\"Cluster\"",
    ),
    ("Secret", "type=\"Opaque\""),
    ("PersistentVolumeClaim", "spec!.volumeMode=\"Filesystem\"\nstatus!.phase=\"Pending\""),
    (
        "PersistentVolume",
        "spec!.volumeMode=\"Filesystem\"\nspec.persistentVolumeReclaimPolicy=\"Retain\"\nstatus!.phase=\"Pending\"",
    ),
    ("Namespace", "spec!.finalizers=[\"kubernetes\"]\nstatus!.phase=\"Active\""),
    (
        "StorageClass",
        "reclaimPolicy=\"Delete\"\nvolumeBindingMode=\"Immediate\"",
    ),
    ("Endpoints", "subsets[].ports[].protocol=\"TCP\""),
    ("EndpointSlice", "ports[].protocol=\"TCP\"\nports[].name=\"\""),
    ("Ingress", ""),
    ("NetworkPolicy", "spec!.ingress[].ports[].protocol=\"TCP\"\nspec.egress[].ports[].protocol=\"TCP\""),
    ("HorizontalPodAutoscaler", "spec!.minReplicas=1"),
    ("ClusterRoleBinding", "roleRef.apiGroup=\"rbac.authorization.k8s.io\""),
    ("RoleBinding", "roleRef.apiGroup=\"rbac.authorization.k8s.io\""),
    ("PriorityClass", "preemptionPolicy=\"PreemptLowerPriority\""),
    ("CustomResourceDefinition", "spec!.conversion!.strategy=\"None\""),
];

type Rule = (Vec<&'static str>, Value);

static RULES: LazyLock<Vec<(&'static str, Vec<Rule>)>> = LazyLock::new(|| {
    KINDS
        .iter()
        .map(|(kind, text)| {
            let mut rules = Vec::new();
            compile(text, &[], &mut rules);
            (*kind, rules)
        })
        .collect()
});

fn compile(text: &'static str, prefix: &[&'static str], rules: &mut Vec<Rule>) {
    for line in text.lines().filter(|line| !line.is_empty()) {
        let under = |path: &'static str| -> Vec<&'static str> {
            prefix.iter().copied().chain(path.split('.')).collect()
        };
        match line.split_at(1) {
            ("#", path) => compile(POD_SPEC, &under(path), rules),
            ("@", path) => compile(CONTAINER, &under(path), rules),
            ("~", path) => compile(PROBE, &under(path), rules),
            _ => {
                let (path, value) = line.split_once('=').expect("default lines are path=value");
                rules.push((under(path), serde_json::from_str(value).expect("default values are JSON")));
            }
        }
    }
}

fn fill(value: &mut Value, path: &[&str], default: &Value) {
    let Some((head, tail)) = path.split_first() else { return };
    let Some(map) = value.as_object_mut() else { return };
    if tail.is_empty() {
        map.entry(*head).or_insert_with(|| default.clone());
    } else if let Some(name) = head.strip_suffix("[]") {
        for item in map.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
            fill(item, tail, default);
        }
    } else if let Some(name) = head.strip_suffix('!') {
        fill(map.entry(name).or_insert_with(|| Value::Object(Map::new())), tail, default);
    } else if let Some(inner) = map.get_mut(*head) {
        fill(inner, tail, default);
    }
}

/// Fills in what Kubernetes would fill in when it decodes an object of this kind.
pub(crate) fn apply_builtin_defaults(kind: &str, object: &mut Value) {
    for (_, rules) in RULES.iter().filter(|(name, _)| *name == kind) {
        for (path, default) in rules {
            fill(object, path, default);
        }
    }
    match kind {
        "Deployment" if object.str_at("spec.strategy.type") == "RollingUpdate" => {
            object.default_at("spec.strategy.rollingUpdate.maxSurge", json!("25%"));
            object.default_at("spec.strategy.rollingUpdate.maxUnavailable", json!("25%"));
        }
        "StatefulSet" if object.str_at("spec.updateStrategy.type") == "RollingUpdate" => {
            object.default_at("spec.updateStrategy.rollingUpdate.partition", json!(0));
        }
        "DaemonSet" if object.str_at("spec.updateStrategy.type") == "RollingUpdate" => {
            object.default_at("spec.updateStrategy.rollingUpdate.maxUnavailable", json!(1));
            object.default_at("spec.updateStrategy.rollingUpdate.maxSurge", json!(0));
        }
        "Job" => default_job(object),
        "ReplicaSet" | "ReplicationController" => default_selector(object, kind == "ReplicationController"),
        "Service" => default_service(object),
        "Secret" => merge_string_data(object),
        _ => {}
    }
    for path in pod_spec_paths(kind) {
        if let Some(spec) = object.at_mut(path) {
            default_pod_spec(spec);
        }
    }
}

/// Where a kind keeps its pod spec.
pub(crate) fn pod_spec_paths(kind: &str) -> &'static [&'static str] {
    match kind {
        "Pod" => &["spec"],
        "PodTemplate" => &["template.spec"],
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            &["spec.template.spec"]
        }
        "CronJob" => &["spec.jobTemplate.spec.template.spec"],
        _ => &[],
    }
}

fn default_pod_spec(spec: &mut Value) {
    // The old and the new name of one field mirror each other.
    let account = match spec.str_at("serviceAccountName") {
        "" => spec.str_at("serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !account.is_empty() {
        spec.set_at("serviceAccountName", json!(account));
        spec.set_at("serviceAccount", json!(account));
    }
    let host_network = spec.bool_at("hostNetwork");
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let image = container.str_at("image");
            let latest = image.ends_with(":latest") || !image.rsplit('/').next().unwrap_or("").contains([':', '@']);
            let policy = if latest && !image.is_empty() { "Always" } else { "IfNotPresent" };
            container.default_at("imagePullPolicy", json!(policy));
            for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                if host_network && let Some(number) = port.get("containerPort").cloned() {
                    port.default_at("hostPort", number);
                }
            }
            default_requests(container);
        }
    }
}

/// Limits without requests mean requests of the same size.
fn default_requests(container: &mut Value) {
    let limits = container.map_at("resources.limits").cloned().unwrap_or_default();
    for (name, amount) in limits {
        if container.at("resources.requests").and_then(|r| r.get(&name)).is_none() {
            container.default_at("resources.requests", json!({}));
            if let Some(requests) = container.at_mut("resources.requests").and_then(Value::as_object_mut) {
                requests.insert(name, amount);
            }
        }
    }
}

fn default_job(object: &mut Value) {
    if object.at("spec.completions").is_none() && object.int_at("spec.parallelism") == Some(1) {
        object.set_at("spec.completions", json!(1));
    }
    if let Some(labels) = object.at("spec.template.metadata.labels").filter(|l| l.is_object()).cloned() {
        object.default_at("metadata.labels", labels);
    }
}

fn default_selector(object: &mut Value, plain: bool) {
    if let Some(labels) = object.at("spec.template.metadata.labels").cloned() {
        if plain {
            object.default_at("spec.selector", labels.clone());
        }
        object.default_at("metadata.labels", labels);
    }
}

fn default_service(object: &mut Value) {
    if object.str_at("spec.type") == "ExternalName" {
        object.remove_at("spec.internalTrafficPolicy");
        return;
    }
    if matches!(object.str_at("spec.type"), "NodePort" | "LoadBalancer") {
        object.default_at("spec.externalTrafficPolicy", json!("Cluster"));
    }
    if object.str_at("spec.type") == "LoadBalancer" {
        object.default_at("spec.allocateLoadBalancerNodePorts", json!(true));
    }
    for port in object.at_mut("spec.ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(number) = port.get("port").cloned() {
            port.default_at("targetPort", number);
        }
    }
}

fn merge_string_data(object: &mut Value) {
    let Some(Value::Object(plain)) = object.remove_at("stringData") else { return };
    for (name, value) in plain {
        let encoded = crate::value::base64_encode(value.as_str().unwrap_or("").as_bytes());
        object.default_at("data", json!({}));
        object["data"][name] = json!(encoded);
    }
}
