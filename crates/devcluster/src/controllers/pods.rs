//! What all workload controllers share about pods.

use serde_json::{Value, json};

use super::{MANAGER, owner_reference, record};
use crate::api::{Caller, Cluster, DeleteOptions, controller_of, match_labels};
use crate::error::ApiResult;
use crate::value::{Json as _, parse_time};

/// Objects of `storage` in the pod's namespace whose selector matches it.
pub(super) fn selecting(cluster: &Cluster, storage: &str, pod: &Value) -> Vec<(String, String)> {
    cluster
        .list(storage, Some(pod.namespace()))
        .iter()
        .filter(|set| set.at("spec.selector").is_some_and(|s| match_labels(s, pod.map_at("metadata.labels"))))
        .map(|set| (set.namespace().to_owned(), set.name().to_owned()))
        .collect()
}

pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(pod.str_at("status.phase"), "Succeeded" | "Failed")
}

pub(super) fn is_deleting(object: &Value) -> bool {
    object.at("metadata.deletionTimestamp").is_some()
}

pub(super) fn is_active(pod: &Value) -> bool {
    !is_finished(pod) && !is_deleting(pod)
}

pub(super) fn is_ready(pod: &Value) -> bool {
    super::is_true(pod, "Ready")
}

/// Ready for at least `min_ready` seconds; otherwise how long it still takes.
pub(super) fn available_in(pod: &Value, min_ready: i64) -> Option<i64> {
    if !is_ready(pod) {
        return None;
    }
    if min_ready == 0 {
        return Some(0);
    }
    let since = super::condition(pod, "Ready").and_then(|c| parse_time(c.str_at("lastTransitionTime")))?;
    Some((min_ready - (jiff::Timestamp::now().as_second() - since.as_second())).max(0))
}

/// The pods of a set: those it controls, and matching ones without a controller, which it adopts.
pub(super) async fn claim(cluster: &Cluster, owner: &Value) -> ApiResult<Vec<Value>> {
    let namespace = owner.namespace();
    let mut pods = cluster.controlled_by("pods", namespace, owner.uid());
    let Some(selector) = owner.at("spec.selector") else { return Ok(pods) };
    if is_deleting(owner) {
        return Ok(pods);
    }
    for stored in cluster.store.list("pods", Some(namespace)).1 {
        if !stored.owners.is_empty() {
            continue;
        }
        let pod = stored.value();
        if controller_of(&pod).is_none() && is_active(&pod) && match_labels(selector, pod.map_at("metadata.labels")) {
            let reference = owner_reference(owner);
            let adopted = cluster
                .modify("pods", namespace, pod.name(), "", MANAGER, |pod| {
                    let mut owners = pod.list_at("metadata.ownerReferences").to_vec();
                    owners.push(reference);
                    pod.set_at("metadata.ownerReferences", Value::Array(owners));
                })
                .await?;
            pods.push(adopted);
        }
    }
    // A pod whose labels no longer match is let go.
    let mut kept = Vec::new();
    for pod in pods {
        if match_labels(selector, pod.map_at("metadata.labels")) || is_deleting(&pod) {
            kept.push(pod);
            continue;
        }
        let uid = owner.uid().to_owned();
        cluster
            .modify("pods", namespace, pod.name(), "", MANAGER, move |pod| {
                let mut owners = pod.list_at("metadata.ownerReferences").to_vec();
                owners.retain(|o| o.str_at("uid") != uid);
                pod.set_at("metadata.ownerReferences", Value::Array(owners));
            })
            .await?;
    }
    Ok(kept)
}

/// A pod from a template. `name` ends in a dash when the rest is to be generated.
pub(super) fn from_template(owner: &Value, template: &Value, name: &str) -> Value {
    let mut pod = json!({"metadata": {}, "spec": template["spec"]});
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field) {
            pod["metadata"][field] = value.clone();
        }
    }
    let key = if name.ends_with('-') { "metadata.generateName" } else { "metadata.name" };
    pod.set_at(key, json!(name));
    pod.set_at("metadata.ownerReferences", json!([owner_reference(owner)]));
    pod
}

pub(super) async fn create(cluster: &Cluster, owner: &Value, pod: Value) -> ApiResult<Value> {
    let component = component(owner);
    let mut caller = Caller::internal(MANAGER);
    match cluster.create(&cluster.resource("pods"), owner.namespace(), pod, &mut caller).await {
        Ok(pod) => {
            record(cluster, owner, "Normal", "SuccessfulCreate", &format!("Created pod: {}", pod.name()), &component).await;
            Ok(pod)
        }
        Err(error) => {
            record(cluster, owner, "Warning", "FailedCreate", &format!("Error creating: {error}"), &component).await;
            Err(error)
        }
    }
}

pub(super) async fn delete(cluster: &Cluster, owner: &Value, pod: &Value) -> ApiResult<()> {
    let mut caller = Caller::internal(MANAGER);
    let options = DeleteOptions { uid: Some(pod.uid().to_owned()), ..DeleteOptions::default() };
    match cluster.delete(&cluster.resource("pods"), pod.namespace(), pod.name(), &options, &mut caller).await {
        Ok(_) => {
            let text = format!("Deleted pod: {}", pod.name());
            record(cluster, owner, "Normal", "SuccessfulDelete", &text, &component(owner)).await;
            Ok(())
        }
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

fn component(owner: &Value) -> String {
    format!("{}-controller", owner.str_at("kind").to_lowercase())
}

/// Writes a status if it differs from the one that was read.
pub(super) async fn write_status(cluster: &Cluster, storage: &str, object: &Value, status: Value) -> ApiResult<()> {
    if object.get("status") == Some(&status) {
        return Ok(());
    }
    cluster
        .modify(storage, object.namespace(), object.name(), "status", MANAGER, |live| live.set_at("status", status))
        .await?;
    Ok(())
}

/// A number or a percentage of `total`; percentages round up or down.
pub(super) fn scaled(value: Option<&Value>, total: i64, up: bool) -> i64 {
    match value {
        Some(Value::Number(n)) => n.as_i64().unwrap_or(0),
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            if up { (percent * total + 99) / 100 } else { percent * total / 100 }
        }
        _ => 0,
    }
}
