//! What is there: the live objects of an Application, from the copy of the cluster where that is enough.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use slipway_cluster::{Cluster, Live, ObjectKey};
use slipway_crd::{Application, ConditionType};
use slipway_gitops::{ClusterInfo, Comparison, ResourceKey, Settings, object};

use super::manifests::{Failure, RETRY};
use super::memory::Memory;
use crate::clusters::Destination;

/// Live objects that the application tracks or that its manifests name, and its namespace.
pub(super) async fn live_objects(
    app: &Application,
    destination: &Destination,
    desired: &[Value],
    info: &ClusterInfo,
    settings: &Settings,
    memory: &mut Memory,
) -> Result<Vec<Value>, Failure> {
    let instance = app.instance_name(&settings.control_plane_namespace);
    let cluster = &destination.cluster;
    let namespace = &app.spec.destination.namespace;
    let wanted: Vec<(ObjectKey, &str)> = desired
        .iter()
        .map(|target| (placed_key(target, namespace, info), object::api_version(target)))
        .collect();
    let mut keys: HashSet<ObjectKey> =
        wanted.iter().map(|(key, _)| key.clone()).filter(|key| !key.name.is_empty()).collect();
    if let Some(message) = keys.iter().find_map(|key| cluster.out_of_sight(key)) {
        return Err(Failure { condition: ConditionType::ComparisonError, message, again_at: None });
    }
    if !namespace.is_empty() && !cluster.is_confined() {
        keys.insert(ObjectKey::new("", "Namespace", "", namespace));
    }
    if !memory.read_only {
        let told = match memory.looked_up.is_empty() {
            true => Cow::Borrowed(&keys),
            false => Cow::Owned(keys.iter().chain(memory.looked_up.keys()).cloned().collect()),
        };
        if memory.interest != *told {
            let told = told.into_owned();
            let telling = cluster.set_interest(&instance, told.clone()).await;
            telling.map_err(|error| unreadable(&error))?;
            memory.interest = told;
        }
    }
    let mut found: Vec<Arc<Live>> = cluster.tracked(&instance);
    let tracked: HashSet<String> = found.iter().map(|live| live.uid.clone()).collect();
    let mut objects = Vec::new();
    for key in &keys {
        match cluster.live(key) {
            Some(live) => {
                if !tracked.contains(&live.uid) {
                    found.push(live);
                }
            }
            // Not in the copy is not absent, unless the copy has all objects of the kind.
            None if cluster.is_read(&key.group, &key.kind) => {}
            None if cluster.discovery().preferred(&key.group, &key.kind).is_none() => {}
            None => objects.extend(cluster.read(key).await.map_err(|error| unreadable(&error))?),
        }
    }
    for live in found {
        let version = wanted
            .iter()
            .find(|(key, _)| *key == live.key)
            .map(|(_, api_version)| *api_version)
            .filter(|wanted| wanted.rsplit('/').next() != Some(live.version.as_str()));
        let object = match (version, live.object()) {
            // The manifest is written in another version than the one that is watched.
            (Some(api_version), known) => match cluster.read_version(api_version, &live.key).await {
                Ok(found) => found,
                Err(_) => known,
            },
            (None, Some(object)) => Some(object),
            (None, None) => cluster.read(&live.key).await.map_err(|error| unreadable(&error))?,
        };
        objects.extend(object);
    }
    Ok(objects)
}

/// The live objects of an application and everything they own, for trees.
pub(crate) fn family(cluster: &Cluster, instance: &str, comparison: &Comparison) -> Vec<Value> {
    let mut roots = cluster.tracked(instance);
    let known: HashSet<String> = roots.iter().map(|live| live.uid.clone()).collect();
    for resource in comparison.resources.iter().filter(|r| r.live.is_some()) {
        if let Some(live) = cluster.live(&cluster_key(&resource.key))
            && !known.contains(&live.uid)
        {
            roots.push(live);
        }
    }
    let children = cluster.descendants(&roots);
    roots.iter().chain(&children).filter_map(|live| live.object()).collect()
}

fn unreadable(error: &slipway_cluster::ClusterError) -> Failure {
    Failure {
        condition: ConditionType::ComparisonError,
        message: format!("live objects cannot be read: {error}"),
        again_at: Some(Instant::now() + RETRY),
    }
}

/// The key a manifest will have in the cluster.
fn placed_key(target: &Value, namespace: &str, info: &ClusterInfo) -> ObjectKey {
    let mut key = ObjectKey::of(target);
    match info.is_namespaced(&key.group, &key.kind) {
        Some(false) => key.namespace.clear(),
        _ if key.namespace.is_empty() => namespace.clone_into(&mut key.namespace),
        _ => {}
    }
    key
}

pub(crate) fn cluster_key(key: &ResourceKey) -> ObjectKey {
    ObjectKey::new(&key.group, &key.kind, &key.namespace, &key.name)
}
