//! ReplicaSet and ReplicationController: keep that many pods.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Again, pods};
use crate::api::Cluster;
use crate::error::ApiResult;
use crate::value::Json as _;

pub(super) async fn reconcile(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    keep(cluster, "apps/replicasets", namespace, name).await
}

pub(super) async fn reconcile_controller(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    keep(cluster, "replicationcontrollers", namespace, name).await
}

async fn keep(cluster: &Cluster, storage: &str, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(set) = cluster.get(storage, namespace, name) else { return Ok(None) };
    let mut all = pods::claim(cluster, &set).await?;
    all.retain(pods::is_active);
    let wanted = set.int_at("spec.replicas").unwrap_or(1).max(0) as usize;
    let mut failure = None;
    if !pods::is_deleting(&set) {
        if all.len() < wanted {
            let template = set["spec"]["template"].clone();
            for _ in all.len()..wanted {
                let pod = pods::from_template(&set, &template, &format!("{name}-"));
                match pods::create(cluster, &set, pod).await {
                    Ok(pod) => all.push(pod),
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
        } else if all.len() > wanted {
            all.sort_by_key(deletion_rank);
            let surplus: Vec<Value> = all.drain(..all.len() - wanted).collect();
            for pod in &surplus {
                pods::delete(cluster, &set, pod).await?;
            }
        }
    }
    let min_ready = set.int_at("spec.minReadySeconds").unwrap_or(0);
    let waits: Vec<i64> = all.iter().filter_map(|pod| pods::available_in(pod, min_ready)).collect();
    let labels = set.map_at("spec.template.metadata.labels");
    let labeled = all.iter().filter(|pod| labels.into_iter().flatten().all(|(k, v)| pod["metadata"]["labels"].get(k) == Some(v)));
    let mut status = json!({"replicas": all.len(), "observedGeneration": set["metadata"]["generation"]});
    for (field, count) in [
        ("fullyLabeledReplicas", labeled.count()),
        ("readyReplicas", all.iter().filter(|pod| pods::is_ready(pod)).count()),
        ("availableReplicas", waits.iter().filter(|wait| **wait == 0).count()),
    ] {
        if count > 0 {
            status[field] = json!(count);
        }
    }
    if let Some(error) = &failure {
        let mut conditions = Vec::new();
        let message = error.to_string();
        let old = super::condition(&set, "ReplicaFailure").filter(|c| c.str_at("message") == message).cloned();
        super::set_condition(&mut conditions, json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}));
        status["conditions"] = json!([old.unwrap_or_else(|| conditions.remove(0))]);
    }
    pods::write_status(cluster, storage, &set, status).await?;
    if let Some(error) = failure {
        return Err(error);
    }
    Ok(waits.into_iter().filter(|wait| *wait > 0).min().map(|s| Duration::from_secs(s as u64)))
}

/// Who goes first: not running, not ready, restarted often, youngest.
fn deletion_rank(pod: &Value) -> (bool, bool, bool, std::cmp::Reverse<i64>, std::cmp::Reverse<String>) {
    let restarts: i64 = pod.list_at("status.containerStatuses").iter().filter_map(|s| s.int_at("restartCount")).max().unwrap_or(0);
    (
        !pod.str_at("spec.nodeName").is_empty(),
        pod.str_at("status.phase") == "Running",
        pods::is_ready(pod),
        std::cmp::Reverse(restarts),
        std::cmp::Reverse(format!("{}{}", pod.str_at("metadata.creationTimestamp"), pod.name())),
    )
}
