//! An Application and a cluster in the words of Argo CD's cache. Secret values are masked before they get in.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_gitops::diff::masked_pair;
use slipway_gitops::{ResourceKey, TreeNode, object, tree_with};

use super::Core;
use crate::report::tree::info;

/// Every object of an Application with its owners.
pub(super) async fn tree(core: &Core, instance: &str) -> Option<Value> {
    let (key, app) = core.inventory.by_instance(instance)?;
    let observed = core.view.observe(&key, &app).await;
    let family = core.view.family(&app, &observed.comparison);
    let live: BTreeMap<&str, &Value> = family.iter().map(|live| (object::uid(live), live)).collect();
    let nodes = tree_with(&family, &core.settings.get(), Timestamp::now());
    let by_uid: BTreeMap<&str, &TreeNode> = nodes.iter().map(|node| (node.uid.as_str(), node)).collect();
    let mut out: Vec<Value> = Vec::new();
    for node in &nodes {
        let parents: Vec<Value> = node
            .parents
            .iter()
            .filter_map(|uid| by_uid.get(uid.as_str()))
            .map(|parent| named(&parent.key, &parent.version, &parent.uid))
            .collect();
        let mut value = named(&node.key, &node.version, &node.uid);
        value["parentRefs"] = json!(parents);
        value["resourceVersion"] = node.resource_version.clone().into();
        value["images"] = json!(node.images);
        if !node.created_at.is_empty() {
            value["createdAt"] = node.created_at.clone().into();
        }
        if let Some(health) = &node.health {
            value["health"] = json!({"status": health.status.as_str(), "message": health.message});
        }
        if let Some(text) = live.get(node.uid.as_str()).and_then(|live| info(live)) {
            value["info"] = json!([{"name": "Status", "value": text}]);
        }
        out.push(value);
    }
    // What is wanted and not there yet hangs in the tree too.
    for resource in &observed.comparison.resources {
        if resource.live.is_none() && !resource.hook {
            let mut value = named(&resource.key, &resource.version, "");
            if let Some(health) = &resource.health {
                value["health"] = json!({"status": health.status.as_str(), "message": health.message});
            }
            out.push(value);
        }
    }
    let orphans = core.view.orphans(&app, &observed);
    let orphaned: Vec<Value> = orphans.iter().map(|key| named(key, "", "")).collect();
    Some(json!({"nodes": out, "orphanedNodes": orphaned}))
}

fn named(key: &ResourceKey, version: &str, uid: &str) -> Value {
    json!({"group": key.group, "version": version, "kind": key.kind, "namespace": key.namespace,
        "name": key.name, "uid": uid})
}

/// What is wanted beside what is there, for each object.
pub(super) async fn managed(core: &Core, instance: &str) -> Option<Value> {
    let (key, app) = core.inventory.by_instance(instance)?;
    let observed = core.view.observe(&key, &app).await;
    if observed.comparison.context.error.is_some() {
        return None;
    }
    let sensitive = core.settings.get().sensitive_annotations.clone();
    let text = |value: &Value| value.to_string();
    let resources = observed.comparison.resources.iter().map(|resource| {
        let whole = |side: &Option<slipway_gitops::Manifest>| {
            side.as_ref().map_or(Value::Null, |manifest| Value::clone(manifest))
        };
        let (live, target) = masked_pair(whole(&resource.live), whole(&resource.target), &sensitive);
        let (normalised, predicted) = match &resource.diff {
            // Two masks of one value would look like a difference.
            Some(_) if resource.key.kind == "Secret" => (live.clone(), target.clone()),
            Some(diff) => (diff.live.clone(), diff.predicted.clone()),
            None => (live.clone(), target.clone()),
        };
        json!({
            "group": resource.key.group, "kind": resource.key.kind, "namespace": resource.key.namespace,
            "name": resource.key.name, "hook": resource.hook,
            "targetState": text(&target), "liveState": text(&live),
            "normalizedLiveState": text(&normalised), "predictedLiveState": text(&predicted),
            "resourceVersion": object::text(&live, &["metadata", "resourceVersion"]),
            "modified": resource.diff.as_ref().is_some_and(|diff| diff.modified),
        })
    });
    Some(resources.collect())
}

/// How a cluster is reached and what is known of it.
pub(super) fn cluster(core: &Core, server: &str) -> Option<Value> {
    let destination = core.clusters.all().into_iter().find(|to| to.server == server)?;
    let facts = destination.facts();
    let applications = core.inventory.applications();
    let here = applications
        .iter()
        .filter_map(|key| core.inventory.application(key))
        .filter(|(app, _)| core.clusters.destination(app).is_ok_and(|to| to.server == server))
        .count();
    Some(json!({
        "connectionState": {"status": "Successful", "message": "", "attemptedAt": Timestamp::now()},
        "serverVersion": facts.kube_version,
        "apiVersions": facts.api_versions,
        "applicationsCount": here,
        "cacheInfo": {
            "resourcesCount": destination.cluster.cached_objects(),
            "apisCount": destination.cluster.discovery().all().count(),
            "lastCacheSyncTime": Timestamp::now(),
        },
    }))
}
