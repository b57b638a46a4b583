//! Namespaces: what each one has from the start, and how it goes; also definitions and old events.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Again, MANAGER};
use crate::api::{Caller, Cluster, DeleteOptions};
use crate::bootstrap::ensure;
use crate::error::ApiResult;
use crate::value::{Json as _, seconds_since};

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
const EVENT_SECONDS_MAX: i64 = 3600;

/// The default service account and the CA's ConfigMap come back when somebody deletes them.
pub(super) fn of_member(_: &Cluster, object: &Value) -> Vec<(String, String)> {
    let ours = matches!(object.name(), "default" | "kube-root-ca.crt");
    if ours { vec![(String::new(), object.namespace().to_owned())] } else { Vec::new() }
}

pub(super) async fn reconcile(cluster: &Cluster, _: &str, name: &str) -> ApiResult<Again> {
    let Some(namespace) = cluster.get("namespaces", "", name) else { return Ok(None) };
    if namespace.at("metadata.deletionTimestamp").is_some() {
        return empty(cluster, &namespace).await;
    }
    ensure(cluster, "serviceaccounts", name, "default", json!({})).await?;
    let data = json!({"data": {"ca.crt": cluster.ca_pem}, "metadata": {"annotations":
        {"kubernetes.io/description": "The certificate authority by which pods know the API server."}}});
    ensure(cluster, "configmaps", name, "kube-root-ca.crt", data).await?;
    Ok(None)
}

/// Deletes everything inside, and the namespace when nothing is left.
async fn empty(cluster: &Cluster, namespace: &Value) -> ApiResult<Again> {
    let name = namespace.name();
    let (mut left, mut waiting) = (0, Vec::new());
    for kind in cluster.store.kinds() {
        let Some(resource) = cluster.kinds().by_storage(&kind).cloned().filter(|r| r.namespaced) else { continue };
        for stored in cluster.store.list(&kind, Some(name)).1 {
            let value = stored.value();
            left += 1;
            if value.at("metadata.deletionTimestamp").is_none() {
                let options = DeleteOptions { propagation: Some("Background".to_owned()), ..DeleteOptions::default() };
                let mut caller = Caller::internal(MANAGER);
                match cluster.delete(&resource, name, value.name(), &options, &mut caller).await {
                    Ok((_, true)) => left -= 1,
                    Ok((_, false)) => {}
                    Err(error) if error.is_not_found() => left -= 1,
                    Err(error) => return Err(error),
                }
            }
            for finalizer in value.list_at("metadata.finalizers").iter().filter_map(Value::as_str) {
                waiting.push(format!("{finalizer} in {}", resource.plural));
            }
        }
    }
    if left > 0 {
        waiting.sort();
        waiting.dedup();
        let (state, reason, message) = if waiting.is_empty() {
            ("True", "SomeResourcesRemain", format!("{left} objects are still being deleted"))
        } else {
            ("True", "SomeFinalizersRemain", format!("some content in the namespace has finalizers remaining: {}", waiting.join(", ")))
        };
        let ty = if waiting.is_empty() { "NamespaceContentRemaining" } else { "NamespaceFinalizersRemaining" };
        cluster
            .modify("namespaces", "", name, "status", MANAGER, |live| {
                let mut conditions = live.list_at("status.conditions").to_vec();
                super::set_condition(&mut conditions, json!({"type": ty, "status": state, "reason": reason, "message": message}));
                live.set_at("status.conditions", Value::Array(conditions));
            })
            .await?;
        return Ok(Some(Duration::from_millis(200)));
    }
    cluster
        .modify("namespaces", "", name, "finalize", MANAGER, |live| live.set_at("spec.finalizers", json!([])))
        .await?;
    Ok(None)
}

/// A definition goes after its objects have gone.
pub(super) async fn reconcile_definition(cluster: &Cluster, _: &str, name: &str) -> ApiResult<Again> {
    const CRDS: &str = "apiextensions.k8s.io/customresourcedefinitions";
    let Some(crd) = cluster.get(CRDS, "", name) else { return Ok(None) };
    if crd.at("metadata.deletionTimestamp").is_none() || !crd.list_at("metadata.finalizers").contains(&json!(CLEANUP)) {
        return Ok(None);
    }
    let storage = format!("{}/{}", crd.str_at("spec.group"), crd.str_at("spec.names.plural"));
    let mut left = 0;
    if let Some(resource) = cluster.kinds().by_storage(&storage).cloned() {
        for stored in cluster.store.list(&storage, None).1 {
            let mut caller = Caller::internal(MANAGER);
            let options = DeleteOptions::default();
            match cluster.delete(&resource, &stored.key.namespace, &stored.key.name, &options, &mut caller).await {
                Ok((_, true)) => {}
                Ok((_, false)) => left += 1,
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
    }
    if left > 0 {
        return Ok(Some(Duration::from_millis(200)));
    }
    cluster
        .modify(CRDS, "", name, "", MANAGER, |live| {
            let mut finalizers = live.list_at("metadata.finalizers").to_vec();
            finalizers.retain(|f| f != CLEANUP);
            live.set_at("metadata.finalizers", Value::Array(finalizers));
        })
        .await?;
    cluster.reload_kinds();
    Ok(None)
}

/// Events live for an hour.
pub(super) async fn expire_event(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(event) = cluster.get("events", namespace, name) else { return Ok(None) };
    let last = ["lastTimestamp", "eventTime", "metadata.creationTimestamp"].iter().map(|p| event.str_at(p)).find(|t| !t.is_empty());
    let left = EVENT_SECONDS_MAX - seconds_since(last.unwrap_or_default());
    if left > 0 {
        return Ok(Some(Duration::from_secs(left as u64)));
    }
    let mut caller = Caller::internal(MANAGER);
    match cluster.delete(&cluster.resource("events"), namespace, name, &DeleteOptions::default(), &mut caller).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(None),
    }
}
