//! What a fresh cluster has: namespaces, the node, the `kubernetes` service, default classes and roles.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::api::{Caller, Cluster};
use crate::error::{ApiError, ApiResult};
use crate::value::{Json as _, random_bytes};

pub(crate) const NODE: &str = "slipway";

/// The range of ClusterIPs, 10.x.0.0/16. Chosen once per data folder, so that several clusters on a machine differ.
pub(crate) fn service_net(data: &Path) -> io::Result<[u8; 2]> {
    let text = crate::tls::keep(&data.join("service-net"), || {
        // 10.96 to 10.111 is what other local clusters like to take.
        format!("10.{}", 112 + random_bytes::<1>()[0] % 100)
    })?;
    let mut parts = text.trim().split('.').filter_map(|p| p.parse().ok());
    Ok([parts.next().unwrap_or(10), parts.next().unwrap_or(112)])
}

/// By which containers of this cluster are told from those of another.
pub(crate) fn cluster_id(data: &Path) -> io::Result<String> {
    let text = crate::tls::keep(&data.join("cluster-id"), || hex::encode(random_bytes::<4>()))?;
    Ok(text.trim().to_owned())
}

/// Creates what is missing; a later start finds it and leaves it alone.
pub(crate) async fn first_objects(cluster: &Cluster) -> ApiResult<()> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure(cluster, "namespaces", "", name, json!({})).await?;
    }
    let [a, b] = cluster.service_net;
    ensure(
        cluster,
        "services",
        "default",
        "kubernetes",
        json!({"metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"clusterIP": format!("{a}.{b}.0.1"), "ports": [{"name": "https", "port": 443, "targetPort": 6443, "protocol": "TCP"}]}}),
    )
    .await?;
    ensure(
        cluster,
        "storage.k8s.io/storageclasses",
        "",
        "local-folder",
        json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "slipway.io/local-folder", "volumeBindingMode": "Immediate"}),
    )
    .await?;
    for (name, rules) in [
        ("cluster-admin", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}])),
        ("admin", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])),
        ("edit", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]}])),
        ("view", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}])),
    ] {
        ensure(cluster, "rbac.authorization.k8s.io/clusterroles", "", name, json!({"rules": rules})).await?;
    }
    ensure(
        cluster,
        "rbac.authorization.k8s.io/clusterrolebindings",
        "",
        "cluster-admin",
        json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:masters"}]}),
    )
    .await?;
    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)] {
        ensure(cluster, "scheduling.k8s.io/priorityclasses", "", name, json!({"value": value})).await?;
    }
    Ok(())
}

pub(crate) async fn ensure(cluster: &Cluster, storage: &str, namespace: &str, name: &str, mut object: Value) -> ApiResult<()> {
    if cluster.store.get(storage, namespace, name).is_some() {
        return Ok(());
    }
    object.set_at("metadata.name", json!(name));
    let mut caller = Caller::internal("kube-apiserver");
    match cluster.create(&cluster.resource(storage), namespace, object, &mut caller).await {
        Ok(_) => Ok(()),
        Err(ApiError { reason: "AlreadyExists", .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
