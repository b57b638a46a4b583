//! StatefulSet: pods with names that stay, started and replaced in order.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Again, MANAGER, owner_reference, pods};
use crate::api::{Caller, Cluster, DeleteOptions};
use crate::error::{ApiError, ApiResult};
use crate::value::{Json as _, hash, safe_encode};

const REVISIONS: &str = "apps/controllerrevisions";
const HASH: &str = "controller-revision-hash";

pub(super) async fn reconcile(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(set) = cluster.get("apps/statefulsets", namespace, name) else { return Ok(None) };
    let mut all = cluster.controlled_by("pods", namespace, set.uid());
    let update = revision_of(cluster, &set).await?;
    let current = match set.str_at("status.currentRevision") {
        "" => update.clone(),
        name => name.to_owned(),
    };
    let mut again = None;
    if !pods::is_deleting(&set) {
        again = step(cluster, &set, &mut all, &current, &update).await?;
    }
    write(cluster, &set, &current, &update).await?;
    trim_revisions(cluster, &set, &current, &update).await?;
    Ok(again)
}

/// The ControllerRevision for the present template, made when missing.
pub(super) async fn revision_of(cluster: &Cluster, set: &Value) -> ApiResult<String> {
    let data = json!({"spec": {"template": set["spec"]["template"]}});
    let existing = cluster.controlled_by(REVISIONS, set.namespace(), set.uid());
    let newest = existing.iter().filter_map(|r| r.int_at("revision")).max().unwrap_or(0);
    if let Some(same) = existing.iter().find(|r| r["data"]["spec"]["template"] == set["spec"]["template"]) {
        if same.int_at("revision").unwrap_or(0) < newest {
            cluster
                .modify(REVISIONS, set.namespace(), same.name(), "", MANAGER, |r| r.set_at("revision", json!(newest + 1)))
                .await?;
        }
        return Ok(same.name().to_owned());
    }
    let word = safe_encode(hash(&set["spec"]["template"], set.int_at("status.collisionCount").unwrap_or(0)));
    let name = format!("{}-{word}", set.name());
    let mut labels = set.at("spec.template.metadata.labels").cloned().unwrap_or(json!({}));
    labels[HASH] = json!(word);
    let object = json!({"metadata": {"name": name, "labels": labels, "ownerReferences": [owner_reference(set)]},
        "data": data, "revision": newest + 1});
    let mut caller = Caller::internal(MANAGER);
    match cluster.create(&cluster.resource(REVISIONS), set.namespace(), object, &mut caller).await {
        Ok(_) | Err(ApiError { reason: "AlreadyExists", .. }) => Ok(name),
        Err(error) => Err(error),
    }
}

async fn trim_revisions(cluster: &Cluster, set: &Value, current: &str, update: &str) -> ApiResult<()> {
    let limit = set.int_at("spec.revisionHistoryLimit").unwrap_or(10).max(0) as usize;
    let mut old = cluster.controlled_by(REVISIONS, set.namespace(), set.uid());
    old.retain(|r| r.name() != current && r.name() != update);
    old.sort_by_key(|r| r.int_at("revision"));
    let surplus = old.len().saturating_sub(limit);
    for revision in old.iter().take(surplus) {
        let mut caller = Caller::internal(MANAGER);
        let _ = cluster.delete(&cluster.resource(REVISIONS), set.namespace(), revision.name(), &DeleteOptions::default(), &mut caller).await;
    }
    Ok(())
}

fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    pod.name().strip_prefix(set.name())?.strip_prefix('-')?.parse().ok()
}

fn revision(pod: &Value) -> &str {
    pod.map_at("metadata.labels").and_then(|l| l.get(HASH)).and_then(Value::as_str).unwrap_or("")
}

fn pod_hash(set: &Value, revision: &str) -> String {
    // Pods carry the whole name of their revision, as in Kubernetes.
    let _ = set;
    revision.to_owned()
}

/// One step: create or delete at most what the ordering allows.
async fn step(cluster: &Cluster, set: &Value, all: &mut Vec<Value>, current: &str, update: &str) -> ApiResult<Again> {
    let replicas = set.int_at("spec.replicas").unwrap_or(1).max(0);
    let start = set.int_at("spec.ordinals.start").unwrap_or(0);
    let parallel = set.str_at("spec.podManagementPolicy") == "Parallel";
    let partition = set.int_at("spec.updateStrategy.rollingUpdate.partition").unwrap_or(0);
    let min_ready = set.int_at("spec.minReadySeconds").unwrap_or(0);
    let mut wait = None;
    for index in start..start + replicas {
        let pod = all.iter().find(|pod| ordinal(set, pod) == Some(index)).cloned();
        match pod {
            None => {
                let revision = if index < start + partition && current != update { current } else { update };
                make_claims(cluster, set, index).await?;
                let pod = new_pod(cluster, set, index, revision)?;
                all.push(pods::create(cluster, set, pod).await?);
                if !parallel {
                    return Ok(None);
                }
            }
            Some(pod) if pods::is_finished(&pod) && !pods::is_deleting(&pod) => {
                pods::delete(cluster, set, &pod).await?;
                return Ok(None);
            }
            Some(pod) => match pods::available_in(&pod, min_ready) {
                Some(0) if !pods::is_deleting(&pod) => {}
                Some(seconds) if seconds > 0 && !parallel => return Ok(Some(Duration::from_secs(seconds as u64))),
                other => {
                    if !parallel {
                        // A pod that never becomes ready must not block the update that would repair it.
                        if revision(&pod) == pod_hash(set, update) || pods::is_deleting(&pod) || index < start + partition {
                            wait = other;
                            break;
                        }
                    }
                }
            },
        }
    }
    let mut surplus: Vec<&Value> = all.iter().filter(|pod| ordinal(set, pod).is_none_or(|n| n < start || n >= start + replicas)).collect();
    surplus.sort_by_key(|pod| std::cmp::Reverse(ordinal(set, pod)));
    for pod in surplus {
        if !pods::is_deleting(pod) {
            pods::delete(cluster, set, pod).await?;
        }
        if !parallel {
            return Ok(None);
        }
    }
    roll(cluster, set, all, update, start + partition, min_ready, wait).await
}

/// Replaces outdated pods from the highest ordinal down, one at a time.
async fn roll(cluster: &Cluster, set: &Value, all: &[Value], update: &str, from: i64, min_ready: i64, _wait: Option<i64>) -> ApiResult<Again> {
    if set.str_at("spec.updateStrategy.type") == "OnDelete" {
        return Ok(None);
    }
    let mut sorted: Vec<&Value> = all.iter().filter(|pod| ordinal(set, pod).is_some_and(|n| n >= from)).collect();
    sorted.sort_by_key(|pod| std::cmp::Reverse(ordinal(set, pod)));
    for pod in sorted {
        if revision(pod) != pod_hash(set, update) {
            if !pods::is_deleting(pod) {
                pods::delete(cluster, set, pod).await?;
            }
            return Ok(None);
        }
        match pods::available_in(pod, min_ready) {
            Some(0) if !pods::is_deleting(pod) => {}
            Some(seconds) if seconds > 0 => return Ok(Some(Duration::from_secs(seconds as u64))),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn claim_name(set: &Value, claim: &Value, index: i64) -> String {
    format!("{}-{}-{index}", claim.name(), set.name())
}

async fn make_claims(cluster: &Cluster, set: &Value, index: i64) -> ApiResult<()> {
    for claim in set.list_at("spec.volumeClaimTemplates") {
        let name = claim_name(set, claim, index);
        if cluster.get("persistentvolumeclaims", set.namespace(), &name).is_some() {
            continue;
        }
        let mut labels = claim.at("metadata.labels").cloned().unwrap_or(json!({}));
        for (key, value) in set.map_at("spec.selector.matchLabels").into_iter().flatten() {
            labels[key] = value.clone();
        }
        let mut object = json!({"metadata": {"name": name, "labels": labels}, "spec": claim["spec"]});
        if set.str_at("spec.persistentVolumeClaimRetentionPolicy.whenDeleted") == "Delete" {
            object.set_at("metadata.ownerReferences", json!([owner_reference(set)]));
        }
        let mut caller = Caller::internal(MANAGER);
        cluster.create(&cluster.resource("persistentvolumeclaims"), set.namespace(), object, &mut caller).await?;
    }
    Ok(())
}

fn new_pod(cluster: &Cluster, set: &Value, index: i64, revision: &str) -> ApiResult<Value> {
    let template = cluster
        .get(REVISIONS, set.namespace(), revision)
        .map(|r| r["data"]["spec"]["template"].clone())
        .unwrap_or_else(|| set["spec"]["template"].clone());
    let name = format!("{}-{index}", set.name());
    let mut pod = pods::from_template(set, &template, &name);
    if !pod["metadata"]["labels"].is_object() {
        pod.set_at("metadata.labels", json!({}));
    }
    for (key, value) in [
        ("statefulset.kubernetes.io/pod-name", name.clone()),
        ("apps.kubernetes.io/pod-index", index.to_string()),
        (HASH, pod_hash(set, revision)),
    ] {
        pod["metadata"]["labels"][key] = json!(value);
    }
    pod.set_at("spec.hostname", json!(name));
    if !set.str_at("spec.serviceName").is_empty() {
        pod.set_at("spec.subdomain", set["spec"]["serviceName"].clone());
    }
    let mut volumes = pod.list_at("spec.volumes").to_vec();
    for claim in set.list_at("spec.volumeClaimTemplates") {
        volumes.retain(|v| v.str_at("name") != claim.name());
        volumes.push(json!({"name": claim.name(), "persistentVolumeClaim": {"claimName": claim_name(set, claim, index)}}));
    }
    if !volumes.is_empty() {
        pod.set_at("spec.volumes", Value::Array(volumes));
    }
    Ok(pod)
}

async fn write(cluster: &Cluster, set: &Value, current: &str, update: &str) -> ApiResult<()> {
    let Some(set) = cluster.get("apps/statefulsets", set.namespace(), set.name()) else { return Ok(()) };
    let all = cluster.controlled_by("pods", set.namespace(), set.uid());
    let min_ready = set.int_at("spec.minReadySeconds").unwrap_or(0);
    let live: Vec<&Value> = all.iter().filter(|pod| !pods::is_finished(pod)).collect();
    let ready = live.iter().filter(|p| pods::is_ready(p)).count();
    let available = live.iter().filter(|p| pods::available_in(p, min_ready) == Some(0)).count();
    let on = |revision_name: &str| live.iter().filter(|p| !pods::is_deleting(p) && revision(p) == pod_hash(&set, revision_name)).count();
    let (on_current, on_update) = (on(current), on(update));
    let replicas = set.int_at("spec.replicas").unwrap_or(1).max(0) as usize;
    // When every pod runs the new revision, it becomes the current one.
    let done = on_update == replicas && ready == replicas && live.len() == replicas;
    let (current, on_current) = if done { (update, on_update) } else { (current, on_current) };
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"], "replicas": live.len(), "availableReplicas": available,
        "currentRevision": current, "updateRevision": update, "collisionCount": set.int_at("status.collisionCount").unwrap_or(0),
    });
    for (field, count) in [("readyReplicas", ready), ("currentReplicas", on_current), ("updatedReplicas", on_update)] {
        if count > 0 {
            status[field] = json!(count);
        }
    }
    pods::write_status(cluster, "apps/statefulsets", &set, status).await
}
