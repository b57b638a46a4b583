//! Deployment: one replica set per template, rolled over within the surge and unavailability bounds.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::rollout::{self, Counts};
use super::{Again, MANAGER, condition, owner_reference, pods, record};
use crate::api::{Caller, Cluster, DeleteOptions, controller_of};
use crate::error::{ApiError, ApiResult};
use crate::value::{Json as _, hash, now, safe_encode, seconds_since};

const SETS: &str = "apps/replicasets";
const REVISION: &str = "deployment.kubernetes.io/revision";
const HASH: &str = "pod-template-hash";
const COMPONENT: &str = "deployment-controller";

/// Pods wake their deployment too, because Recreate waits for the last one to go.
pub(super) fn of_pod(cluster: &Cluster, pod: &Value) -> Vec<(String, String)> {
    let Some(set) = controller_of(pod).filter(|o| o.str_at("kind") == "ReplicaSet") else { return Vec::new() };
    let set = cluster.get(SETS, pod.namespace(), set.str_at("name"));
    let owner = set.as_ref().and_then(controller_of).filter(|o| o.str_at("kind") == "Deployment");
    owner.map(|o| (pod.namespace().to_owned(), o.str_at("name").to_owned())).into_iter().collect()
}

pub(super) async fn reconcile(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(deployment) = cluster.get("apps/deployments", namespace, name) else { return Ok(None) };
    let mut sets = claim(cluster, &deployment).await?;
    if pods::is_deleting(&deployment) {
        return finish(cluster, &deployment, &sets, None).await;
    }
    sets.sort_by(|a, b| (a.str_at("metadata.creationTimestamp"), a.name()).cmp(&(b.str_at("metadata.creationTimestamp"), b.name())));
    let paused = deployment.bool_at("spec.paused");
    let current = sets.iter().find(|set| same_template(set, &deployment)).map(|set| set.name().to_owned());
    let mut created = false;
    let current = match current {
        Some(name) => {
            adopt_revision(cluster, &deployment, &mut sets, &name).await?;
            Some(name)
        }
        None if paused => None,
        None => {
            let set = new_set(cluster, &deployment, &sets).await?;
            let name = set.name().to_owned();
            if !sets.iter().any(|s| s.uid() == set.uid()) {
                sets.push(set);
            }
            created = true;
            Some(name)
        }
    };
    if created {
        // The creation is a step of the rollout by itself, and shows in the conditions.
        return finish(cluster, &deployment, &sets, current.as_deref()).await.map(|_| Some(Duration::ZERO));
    }
    let changed = scale_sets(cluster, &deployment, &mut sets, current.as_deref(), paused).await?;
    if !paused && !changed {
        cleanup(cluster, &deployment, &sets, current.as_deref()).await?;
    }
    finish(cluster, &deployment, &sets, current.as_deref()).await
}

async fn claim(cluster: &Cluster, deployment: &Value) -> ApiResult<Vec<Value>> {
    let mut sets = cluster.controlled_by(SETS, deployment.namespace(), deployment.uid());
    for set in cluster.list(SETS, Some(deployment.namespace())) {
        let free = controller_of(&set).is_none() && !pods::is_deleting(&set) && !pods::is_deleting(deployment);
        let matches = deployment.at("spec.selector").is_some_and(|s| crate::api::match_labels(s, set.map_at("metadata.labels")));
        if free && matches {
            let reference = owner_reference(deployment);
            let set = cluster
                .modify(SETS, set.namespace(), set.name(), "", MANAGER, |set| set.set_at("metadata.ownerReferences", json!([reference])))
                .await?;
            sets.push(set);
        }
    }
    Ok(sets)
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.at_mut("metadata.labels").and_then(Value::as_object_mut) {
        labels.remove(HASH);
    }
    template
}

fn same_template(set: &Value, deployment: &Value) -> bool {
    without_hash(&set["spec"]["template"]) == without_hash(&deployment["spec"]["template"])
}

fn revision(object: &Value) -> i64 {
    object.map_at("metadata.annotations").and_then(|a| a.get(REVISION)).and_then(Value::as_str).and_then(|t| t.parse().ok()).unwrap_or(0)
}

/// Annotations that a replica set takes over from its deployment.
fn inherited(deployment: &Value) -> Map<String, Value> {
    let own = deployment.map_at("metadata.annotations").cloned().unwrap_or_default();
    own.into_iter()
        .filter(|(k, _)| {
            !matches!(k.as_str(), "kubectl.kubernetes.io/last-applied-configuration" | REVISION | "deprecated.deployment.rollback.to")
                && !k.starts_with("deployment.kubernetes.io/")
        })
        .collect()
}

fn bounds(deployment: &Value) -> (i64, i64) {
    let replicas = deployment.int_at("spec.replicas").unwrap_or(1);
    rollout::bounds(replicas, deployment.at("spec.strategy.rollingUpdate.maxSurge"), deployment.at("spec.strategy.rollingUpdate.maxUnavailable"))
}

fn is_recreate(deployment: &Value) -> bool {
    deployment.str_at("spec.strategy.type") == "Recreate"
}

async fn new_set(cluster: &Cluster, deployment: &Value, sets: &[Value]) -> ApiResult<Value> {
    let collisions = deployment.int_at("status.collisionCount").unwrap_or(0);
    let word = safe_encode(hash(&deployment["spec"]["template"], collisions));
    let mut template = deployment["spec"]["template"].clone();
    template.default_at("metadata.labels", json!({}));
    template["metadata"]["labels"][HASH] = json!(word);
    let mut selector = deployment["spec"]["selector"].clone();
    selector.default_at("matchLabels", json!({}));
    selector["matchLabels"][HASH] = json!(word);
    let mut annotations = inherited(deployment);
    let next = sets.iter().map(revision).max().unwrap_or(0) + 1;
    annotations.insert(REVISION.to_owned(), json!(next.to_string()));
    size_annotations(deployment, &mut annotations);
    let name = format!("{}-{word}", deployment.name());
    let object = json!({
        "metadata": {"name": name, "labels": template["metadata"]["labels"], "annotations": annotations,
            "ownerReferences": [owner_reference(deployment)]},
        "spec": {"replicas": 0, "selector": selector, "template": template, "minReadySeconds": deployment.int_at("spec.minReadySeconds").unwrap_or(0)},
    });
    let mut caller = Caller::internal(MANAGER);
    match cluster.create(&cluster.resource(SETS), deployment.namespace(), object, &mut caller).await {
        Ok(set) => {
            set_own_revision(cluster, deployment, next).await?;
            Ok(set)
        }
        Err(ApiError { reason: "AlreadyExists", .. }) => {
            // Another template has the same digest: count the collision, and the next round takes another name.
            cluster
                .modify("apps/deployments", deployment.namespace(), deployment.name(), "status", MANAGER, |live| {
                    live.set_at("status.collisionCount", json!(collisions + 1));
                })
                .await?;
            Err(ApiError::conflict("apps", "replicasets", &name, "the template's digest is taken by another one"))
        }
        Err(error) => Err(error),
    }
}

fn size_annotations(deployment: &Value, annotations: &mut Map<String, Value>) {
    let replicas = deployment.int_at("spec.replicas").unwrap_or(1);
    let surge = if is_recreate(deployment) { 0 } else { bounds(deployment).0 };
    annotations.insert("deployment.kubernetes.io/desired-replicas".to_owned(), json!(replicas.to_string()));
    annotations.insert("deployment.kubernetes.io/max-replicas".to_owned(), json!((replicas + surge).to_string()));
}

async fn set_own_revision(cluster: &Cluster, deployment: &Value, number: i64) -> ApiResult<()> {
    cluster
        .modify("apps/deployments", deployment.namespace(), deployment.name(), "", MANAGER, |live| {
            live.default_at("metadata.annotations", json!({}));
            live["metadata"]["annotations"][REVISION] = json!(number.to_string());
        })
        .await?;
    Ok(())
}

/// A set that is current again (rollback) gets the newest revision.
async fn adopt_revision(cluster: &Cluster, deployment: &Value, sets: &mut [Value], name: &str) -> ApiResult<()> {
    let newest_other = sets.iter().filter(|s| s.name() != name).map(revision).max().unwrap_or(0);
    let Some(set) = sets.iter_mut().find(|s| s.name() == name) else { return Ok(()) };
    let number = if revision(set) > newest_other { revision(set) } else { newest_other + 1 };
    let mut annotations = inherited(deployment);
    size_annotations(deployment, &mut annotations);
    annotations.insert(REVISION.to_owned(), json!(number.to_string()));
    let min_ready = deployment.int_at("spec.minReadySeconds").unwrap_or(0);
    let stale = annotations.iter().any(|(k, v)| set["metadata"]["annotations"].get(k) != Some(v))
        || set.int_at("spec.minReadySeconds").unwrap_or(0) != min_ready;
    if stale {
        *set = cluster
            .modify(SETS, set.namespace(), name, "", MANAGER, |live| {
                live.default_at("metadata.annotations", json!({}));
                if let Some(map) = live.at_mut("metadata.annotations").and_then(Value::as_object_mut) {
                    map.extend(annotations);
                }
                live.set_at("spec.minReadySeconds", json!(min_ready));
            })
            .await?;
    }
    if revision(deployment) != number {
        set_own_revision(cluster, deployment, number).await?;
    }
    Ok(())
}

fn counts(set: &Value) -> Counts {
    Counts {
        wanted: set.int_at("spec.replicas").unwrap_or(0),
        have: set.int_at("status.replicas").unwrap_or(0),
        available: if set.int_at("status.observedGeneration") >= set.int_at("metadata.generation") || set.int_at("status.availableReplicas").is_some() {
            set.int_at("status.availableReplicas").unwrap_or(0)
        } else {
            0
        },
    }
}

/// Moves replicas between the sets, one step. True when something was scaled.
async fn scale_sets(cluster: &Cluster, deployment: &Value, sets: &mut [Value], current: Option<&str>, paused: bool) -> ApiResult<bool> {
    let replicas = deployment.int_at("spec.replicas").unwrap_or(1);
    let (surge, unavailable) = if is_recreate(deployment) { (0, 0) } else { bounds(deployment) };
    let index = sets.iter().position(|set| Some(set.name()) == current);
    let all: Vec<Counts> = sets.iter().map(counts).collect();
    let targets = if paused {
        rollout::plan_paused(&all, replicas)
    } else if is_recreate(deployment) {
        let old_pods = old_pods_remain(cluster, sets, index);
        rollout::plan_recreate(&all, index, replicas, old_pods)
    } else {
        rollout::plan_rolling(&all, index, replicas, surge, unavailable)
    };
    let mut changed = false;
    for (set, target) in sets.iter_mut().zip(targets) {
        let from = set.int_at("spec.replicas").unwrap_or(0);
        if from == target {
            continue;
        }
        changed = true;
        *set = cluster
            .modify(SETS, set.namespace(), set.name(), "", MANAGER, |live| live.set_at("spec.replicas", json!(target)))
            .await?;
        let direction = if target > from { "up" } else { "down" };
        let text = format!("Scaled {direction} replica set {} from {from} to {target}", set.name());
        record(cluster, deployment, "Normal", "ScalingReplicaSet", &text, COMPONENT).await;
    }
    Ok(changed)
}

fn old_pods_remain(cluster: &Cluster, sets: &[Value], current: Option<usize>) -> bool {
    sets.iter().enumerate().filter(|(index, _)| Some(*index) != current).any(|(_, set)| {
        cluster.controlled_by("pods", set.namespace(), set.uid()).iter().any(|pod| !pods::is_finished(pod))
    })
}

async fn cleanup(cluster: &Cluster, deployment: &Value, sets: &[Value], current: Option<&str>) -> ApiResult<()> {
    let limit = deployment.int_at("spec.revisionHistoryLimit").unwrap_or(10).max(0) as usize;
    let mut old: Vec<&Value> = sets.iter().filter(|set| Some(set.name()) != current).collect();
    old.sort_by_key(|set| revision(set));
    let surplus = old.len().saturating_sub(limit);
    for set in old.into_iter().take(surplus) {
        let counts = counts(set);
        if counts.wanted != 0 || counts.have != 0 || pods::is_deleting(set) {
            continue;
        }
        let mut caller = Caller::internal(MANAGER);
        let result = cluster.delete(&cluster.resource(SETS), set.namespace(), set.name(), &DeleteOptions::default(), &mut caller).await;
        if let Err(error) = result
            && !error.is_not_found()
        {
            return Err(error);
        }
    }
    Ok(())
}

/// Computes and writes the status; tells when to look again because of the progress deadline.
async fn finish(cluster: &Cluster, deployment: &Value, sets: &[Value], current: Option<&str>) -> ApiResult<Again> {
    let Some(deployment) = cluster.get("apps/deployments", deployment.namespace(), deployment.name()) else { return Ok(None) };
    let sum = |path: &str| -> i64 { sets.iter().map(|s| s.int_at(path).unwrap_or(0)).sum() };
    let updated = sets.iter().find(|s| Some(s.name()) == current).map_or(0, |s| s.int_at("status.replicas").unwrap_or(0));
    let (have, ready, available) = (sum("status.replicas"), sum("status.readyReplicas"), sum("status.availableReplicas"));
    let replicas = deployment.int_at("spec.replicas").unwrap_or(1);
    let wanted: i64 = sum("spec.replicas");
    let mut status = json!({"observedGeneration": deployment["metadata"]["generation"]});
    for (field, count) in [
        ("replicas", have),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("unavailableReplicas", (wanted.max(replicas) - available).max(0)),
    ] {
        if count > 0 {
            status[field] = json!(count);
        }
    }
    if let Some(collisions) = deployment.int_at("status.collisionCount") {
        status["collisionCount"] = json!(collisions);
    }
    let mut conditions = deployment.list_at("status.conditions").to_vec();
    let unavailable = if is_recreate(&deployment) { 0 } else { bounds(&deployment).1 };
    let (state, reason, message) = if available >= replicas - unavailable {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    rollout::set_deployment_condition(&mut conditions, "Available", state, reason, message, false, &now());
    let seen = rollout::Seen { have, updated, ready, available };
    progress(&deployment, sets, current, &seen, &mut conditions);
    replica_failure(sets, &mut conditions);
    status["conditions"] = Value::Array(conditions);
    pods::write_status(cluster, "apps/deployments", &deployment, status).await?;
    Ok(deadline(&deployment))
}

fn progress(deployment: &Value, sets: &[Value], current: Option<&str>, seen: &rollout::Seen, conditions: &mut Vec<Value>) {
    let Some(limit) = deployment.int_at("spec.progressDeadlineSeconds") else {
        conditions.retain(|c| c.str_at("type") != "Progressing");
        return;
    };
    let time = now();
    let old = condition(deployment, "Progressing").cloned();
    let mut set = |state: &str, reason: &str, message: String, touch: bool| {
        rollout::set_deployment_condition(conditions, "Progressing", state, reason, &message, touch, &time);
    };
    if deployment.bool_at("spec.paused") {
        return set("Unknown", "DeploymentPaused", "Deployment is paused".to_owned(), false);
    }
    if old.as_ref().is_some_and(|c| c.str_at("reason") == "DeploymentPaused") {
        return set("Unknown", "DeploymentResumed", "Deployment is resumed".to_owned(), false);
    }
    let Some(name) = current else { return };
    let before = rollout::Seen {
        have: deployment.int_at("status.replicas").unwrap_or(0),
        updated: deployment.int_at("status.updatedReplicas").unwrap_or(0),
        ready: deployment.int_at("status.readyReplicas").unwrap_or(0),
        available: deployment.int_at("status.availableReplicas").unwrap_or(0),
    };
    let replicas = deployment.int_at("spec.replicas").unwrap_or(1);
    let reason = old.as_ref().map(|c| c.str_at("reason").to_owned()).unwrap_or_default();
    let fresh = sets.iter().any(|s| s.name() == name && s.int_at("spec.replicas") == Some(0) && s.int_at("status.replicas").is_none_or(|n| n == 0));
    let names_it = old.as_ref().is_some_and(|c| c.str_at("message").contains(&format!("\"{name}\"")));
    if reason == "NewReplicaSetAvailable" && names_it && seen.have == seen.updated {
        return;
    }
    if seen.complete(replicas) {
        set("True", "NewReplicaSetAvailable", format!("ReplicaSet \"{name}\" has successfully progressed."), true);
    } else if !names_it && fresh && replicas > 0 {
        set("True", "NewReplicaSetCreated", format!("Created new replica set \"{name}\""), true);
    } else if !names_it || seen.progressed(&before) {
        set("True", "ReplicaSetUpdated", format!("ReplicaSet \"{name}\" is progressing."), true);
    } else if let Some(old) = old
        && old.str_at("status") == "True"
        && reason != "NewReplicaSetAvailable"
        && seconds_since(old.str_at("lastUpdateTime")) >= limit
    {
        set("False", "ProgressDeadlineExceeded", format!("ReplicaSet \"{name}\" has timed out progressing."), false);
    } else if reason == "NewReplicaSetAvailable" && seen.have != seen.updated {
        set("True", "ReplicaSetUpdated", format!("ReplicaSet \"{name}\" is progressing."), true);
    }
}

fn replica_failure(sets: &[Value], conditions: &mut Vec<Value>) {
    match sets.iter().find_map(|set| condition(set, "ReplicaFailure")) {
        Some(failure) => rollout::set_deployment_condition(
            conditions,
            "ReplicaFailure",
            "True",
            failure.str_at("reason"),
            failure.str_at("message"),
            false,
            &now(),
        ),
        None => conditions.retain(|c| c.str_at("type") != "ReplicaFailure"),
    }
}

fn deadline(deployment: &Value) -> Again {
    let progressing = condition(deployment, "Progressing")?;
    if progressing.str_at("status") != "True" || progressing.str_at("reason") == "NewReplicaSetAvailable" {
        return None;
    }
    let limit = deployment.int_at("spec.progressDeadlineSeconds")?;
    let left = limit - seconds_since(progressing.str_at("lastUpdateTime"));
    Some(Duration::from_secs(left.clamp(1, 600) as u64))
}
