//! What single kinds need on create and update beyond the generic road: allocation, admission and immutability.

use serde_json::{Map, Value, json};

use super::Cluster;
use crate::error::{ApiError, ApiResult};
use crate::kinds::{Resource, crd_findings, established_status};
use crate::schema::ShapeError;
use crate::store::{Key, Tx};
use crate::value::{Json as _, random_bytes, random_suffix};

const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(super) fn prepare_create(
    cluster: &Cluster,
    tx: &Tx<'_>,
    resource: &Resource,
    object: &mut Value,
) -> ApiResult<()> {
    if resource.is_custom() {
        return Ok(());
    }
    match resource.kind.as_str() {
        "Namespace" => prepare_namespace(object),
        "Service" => return prepare_service(cluster, tx, None, object),
        "Pod" => return prepare_pod(tx, object),
        "Job" => prepare_job(object),
        "CustomResourceDefinition" => return prepare_crd(None, object),
        "PersistentVolumeClaim" => {
            object.default_at("status.phase", json!("Pending"));
            default_storage_class(cluster, object);
        }
        "PersistentVolume" => object.default_at("status.phase", json!("Pending")),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController" | "CronJob" => {
            object.default_at("status", json!({}));
        }
        "CertificateSigningRequest" => object.default_at("spec.username", json!("kubernetes-admin")),
        "APIService" => object.default_at("status", json!({})),
        _ => {}
    }
    Ok(())
}

pub(super) fn prepare_update(
    cluster: &Cluster,
    tx: &Tx<'_>,
    resource: &Resource,
    subresource: &str,
    live: &Value,
    object: &mut Value,
) -> ApiResult<()> {
    if resource.is_custom() || subresource == "status" {
        return Ok(());
    }
    match resource.kind.as_str() {
        "Service" => prepare_service(cluster, tx, Some(live), object),
        // Only the finalize subresource may take the namespace's own finalizer away.
        "Namespace" if subresource != "finalize" => {
            if let Some(own) = live.at("spec.finalizers") {
                object.set_at("spec.finalizers", own.clone());
            }
            name_label(object);
            Ok(())
        }
        "CustomResourceDefinition" => prepare_crd(Some(live), object),
        "Secret" | "ConfigMap" if live.bool_at("immutable") => check_immutable(resource, live, object),
        _ => Ok(()),
    }
}

fn check_immutable(resource: &Resource, live: &Value, object: &Value) -> ApiResult<()> {
    for field in ["data", "binaryData", "immutable"] {
        if live.get(field) != object.get(field) {
            let finding = ShapeError::forbidden(field, "field is immutable when `immutable` is set");
            return Err(ApiError::invalid(&resource.group, &resource.kind, live.name(), &[finding]));
        }
    }
    Ok(())
}

fn prepare_namespace(object: &mut Value) {
    object.default_at("status.phase", json!("Active"));
    name_label(object);
}

fn name_label(object: &mut Value) {
    let name = object.name().to_owned();
    if !object["metadata"]["labels"].is_object() {
        object.set_at("metadata.labels", json!({}));
    }
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
}

fn prepare_crd(live: Option<&Value>, object: &mut Value) -> ApiResult<()> {
    let kind = object.str_at("spec.names.kind").to_owned();
    object.default_at("spec.names.listKind", json!(format!("{kind}List")));
    object.default_at("spec.names.singular", json!(kind.to_lowercase()));
    let findings = crd_findings(object);
    if !findings.is_empty() {
        return Err(ApiError::invalid(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            object.name(),
            &findings,
        ));
    }
    if live.is_none() {
        let mut finalizers = object.list_at("metadata.finalizers").to_vec();
        if !finalizers.contains(&json!(CRD_CLEANUP)) {
            finalizers.push(json!(CRD_CLEANUP));
            object.set_at("metadata.finalizers", Value::Array(finalizers));
        }
    }
    let status = established_status(object);
    object.set_at("status", status);
    Ok(())
}

fn default_storage_class(cluster: &Cluster, object: &mut Value) {
    if object.at("spec.storageClassName").is_some() {
        return;
    }
    let classes = cluster.list("storage.k8s.io/storageclasses", None);
    let default = classes.iter().find(|class| {
        class
            .map_at("metadata.annotations")
            .and_then(|a| a.get("storageclass.kubernetes.io/is-default-class"))
            == Some(&json!("true"))
    });
    if let Some(class) = default {
        object.set_at("spec.storageClassName", json!(class.name()));
    }
}

fn prepare_job(object: &mut Value) {
    object.default_at("status", json!({}));
    if object.bool_at("spec.manualSelector") {
        return;
    }
    let (uid, name) = (object.uid().to_owned(), object.name().to_owned());
    if !object["spec"]["template"]["metadata"]["labels"].is_object() {
        object.set_at("spec.template.metadata.labels", json!({}));
    }
    if let Some(labels) = object.at_mut("spec.template.metadata.labels").and_then(Value::as_object_mut) {
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            labels.insert(key.to_owned(), json!(value));
        }
    }
    object.set_at("spec.selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
}

fn prepare_pod(tx: &Tx<'_>, object: &mut Value) -> ApiResult<()> {
    object.set_at("status", json!({"phase": "Pending", "qosClass": qos_class(object)}));
    let namespace = object.namespace().to_owned();
    if object.str_at("spec.serviceAccountName").is_empty() {
        object.set_at("spec.serviceAccountName", json!("default"));
        object.set_at("spec.serviceAccount", json!("default"));
    }
    let account = object.str_at("spec.serviceAccountName").to_owned();
    let key = Key { kind: "serviceaccounts".into(), namespace: namespace.clone(), name: account.clone() };
    let Some(account_object) = tx.get(&key).map(|stored| stored.value()) else {
        let why = format!(
            "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
        );
        return Err(ApiError::forbidden("", "pods", object.name(), &why));
    };
    let secrets = account_object.list_at("imagePullSecrets");
    if !secrets.is_empty() && object.at("spec.imagePullSecrets").is_none() {
        object.set_at("spec.imagePullSecrets", Value::Array(secrets.to_vec()));
    }
    let wanted = object
        .at("spec.automountServiceAccountToken")
        .or_else(|| account_object.at("automountServiceAccountToken"))
        .and_then(Value::as_bool)
        .unwrap_or(true);
    if wanted {
        mount_token(object);
    }
    object.default_at("spec.priority", json!(0));
    object.default_at("spec.preemptionPolicy", json!("PreemptLowerPriority"));
    default_tolerations(object);
    Ok(())
}

fn default_tolerations(object: &mut Value) {
    let mut tolerations = object.list_at("spec.tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if !tolerations.iter().any(|t| {
            t.str_at("key") == key || (t.str_at("key").is_empty() && t.str_at("operator") == "Exists")
        }) {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
    object.set_at("spec.tolerations", Value::Array(tolerations));
}

/// The volume with the service account's token, as every pod has it.
fn mount_token(object: &mut Value) {
    const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    let name = format!("kube-api-access-{}", random_suffix());
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in object["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut mounts = container.list_at("volumeMounts").to_vec();
            if mounts.iter().any(|m| m.str_at("mountPath") == PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": PATH}));
            container.set_at("volumeMounts", Value::Array(mounts));
            mounted = true;
        }
    }
    if !mounted {
        return;
    }
    let mut volumes = object.list_at("spec.volumes").to_vec();
    volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}}));
    object.set_at("spec.volumes", Value::Array(volumes));
}

fn qos_class(pod: &Value) -> &'static str {
    let containers = pod.list_at("spec.containers").iter().chain(pod.list_at("spec.initContainers"));
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        let empty = Map::new();
        let limits = container.map_at("resources.limits").unwrap_or(&empty);
        let requests = container.map_at("resources.requests").unwrap_or(&empty);
        any |= !limits.is_empty() || !requests.is_empty();
        guaranteed &=
            ["cpu", "memory"].iter().all(|r| limits.get(*r).is_some() && limits.get(*r) == requests.get(*r));
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (_, true) => "Guaranteed",
        _ => "Burstable",
    }
}

fn prepare_service(
    cluster: &Cluster,
    tx: &Tx<'_>,
    live: Option<&Value>,
    object: &mut Value,
) -> ApiResult<()> {
    if live.is_none() {
        object.default_at("status", json!({"loadBalancer": {}}));
    }
    if object.str_at("spec.type") == "ExternalName" {
        return Ok(());
    }
    if let Some(live) = live {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if let Some(value) = live["spec"].get(field) {
                object.default_at(&format!("spec.{field}"), value.clone());
            }
        }
        let (old, new) = (live.str_at("spec.clusterIP"), object.str_at("spec.clusterIP"));
        if !old.is_empty() && new != old {
            let finding = ShapeError::invalid("spec.clusterIPs[0]", &json!([new]), "may not change once set");
            return Err(ApiError::invalid("", "Service", object.name(), &[finding]));
        }
        keep_node_ports(live, object);
    }
    if object.str_at("spec.clusterIP").is_empty() {
        let address = allocate_cluster_ip(cluster, tx)?;
        object.set_at("spec.clusterIP", json!(address));
    }
    check_cluster_ip(cluster, tx, live, object)?;
    let address = object["spec"]["clusterIP"].clone();
    object.set_at("spec.clusterIPs", json!([address]));
    object.default_at("spec.ipFamilies", json!(["IPv4"]));
    object.default_at("spec.ipFamilyPolicy", json!("SingleStack"));
    check_node_ports(object)?;
    if matches!(object.str_at("spec.type"), "NodePort" | "LoadBalancer") {
        allocate_node_ports(cluster, object);
    }
    Ok(())
}

/// An address that somebody asks for is one of the cluster's: the node listens on it, and on nothing else of the machine.
fn check_cluster_ip(cluster: &Cluster, tx: &Tx<'_>, live: Option<&Value>, object: &Value) -> ApiResult<()> {
    let wanted = object.str_at("spec.clusterIP");
    if wanted == "None" || live.is_some_and(|live| live.str_at("spec.clusterIP") == wanted) {
        return Ok(());
    }
    let refuse = |detail: &str| {
        let finding = ShapeError::invalid("spec.clusterIPs", &json!([wanted]), detail);
        Err(ApiError::invalid("", "Service", object.name(), &[finding]))
    };
    if !crate::node::is_service_address(cluster.service_net, wanted) {
        let [a, b] = cluster.service_net;
        return refuse(&format!(
            "failed to allocate IP {wanted}: the provided IP is not in the valid range. The range of valid IPs is {a}.{b}.0.0/16"
        ));
    }
    let used = cluster.list("services", None).iter().any(|other| {
        other.str_at("spec.clusterIP") == wanted
            && (other.name(), other.namespace()) != (object.name(), object.namespace())
    });
    if used || pending_has(tx, wanted) {
        return refuse(&format!("failed to allocate IP {wanted}: provided IP is already allocated"));
    }
    Ok(())
}

fn check_node_ports(object: &Value) -> ApiResult<()> {
    let mut findings = Vec::new();
    for (index, port) in object.list_at("spec.ports").iter().enumerate() {
        let number = port.int_at("nodePort").unwrap_or(0);
        if number != 0 && !crate::node::NODE_PORTS.contains(&number) {
            findings.push(ShapeError::invalid(
                &format!("spec.ports[{index}].nodePort"),
                &port["nodePort"],
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            ));
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(ApiError::invalid("", "Service", object.name(), &findings)) }
}

fn keep_node_ports(live: &Value, object: &mut Value) {
    let old: Vec<Value> = live.list_at("spec.ports").to_vec();
    for port in object.at_mut("spec.ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = old
            .iter()
            .find(|o| o.get("port") == port.get("port") && o.str_at("protocol") == port.str_at("protocol"));
        if let Some(number) = same.and_then(|o| o.get("nodePort")) {
            port.default_at("nodePort", number.clone());
        }
    }
}

fn allocate_node_ports(cluster: &Cluster, object: &mut Value) {
    let mut used: Vec<i64> = cluster
        .list("services", None)
        .iter()
        .flat_map(|s| s.list_at("spec.ports").iter().filter_map(|p| p.int_at("nodePort")).collect::<Vec<_>>())
        .collect();
    for port in object.at_mut("spec.ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if port.int_at("nodePort").is_none_or(|p| p == 0) {
            let number = crate::node::NODE_PORTS.clone().find(|n| !used.contains(n)).unwrap_or(30000);
            used.push(number);
            port.set_at("nodePort", json!(number));
        }
    }
}

/// A free address of the service range.
fn allocate_cluster_ip(cluster: &Cluster, tx: &Tx<'_>) -> ApiResult<String> {
    let [a, b] = cluster.service_net;
    let used: Vec<String> =
        cluster.list("services", None).iter().map(|s| s.str_at("spec.clusterIP").to_owned()).collect();
    // Random, so that an address is not handed on at once to another service while someone still remembers it.
    for _ in 0..10_000 {
        let [c, d] = random_bytes::<2>();
        let address = format!("{a}.{b}.{c}.{d}");
        let reserved = c == 0 && d < 32;
        if !reserved && d != 0 && d != 255 && !used.contains(&address) && !pending_has(tx, &address) {
            return Ok(address);
        }
    }
    Err(ApiError::new(500, "InternalError", "no free ClusterIP is left; delete services that nobody uses"))
}

/// Two services that are created at the same moment cannot see each other in the store yet.
fn pending_has(tx: &Tx<'_>, address: &str) -> bool {
    tx.uncommitted("services").any(|service| service.value().str_at("spec.clusterIP") == address)
}
