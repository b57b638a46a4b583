//! Garbage collection: what depends on something that is gone goes too, by the policy of the deletion.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::MANAGER;
use crate::api::{Caller, Cluster, DeleteOptions};
use crate::error::ApiResult;
use crate::store::{Change, EVERYTHING, Key};
use crate::value::Json as _;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

pub(super) async fn run(cluster: Arc<Cluster>, shutdown: CancellationToken) {
    loop {
        let version = cluster.store.version();
        let mut queue: VecDeque<Key> = VecDeque::new();
        for kind in cluster.store.kinds() {
            let objects = cluster.store.list(&kind, None).1;
            queue
                .extend(objects.iter().filter(|o| !o.owners.is_empty() || o.deleting).map(|o| o.key.clone()));
        }
        drain(&cluster, &mut queue).await;
        let Some(mut watcher) = cluster.store.watch(EVERYTHING, version) else { continue };
        loop {
            let events = tokio::select! {
                () = shutdown.cancelled() => return,
                events = watcher.next() => events,
            };
            let Some(events) = events else { break };
            for event in events {
                let object = &event.object;
                if event.change == Change::Deleted {
                    queue.extend(cluster.store.dependents(&object.uid));
                    queue.extend(object.owners.iter().filter_map(|uid| cluster.store.find_uid(uid)));
                } else if !object.owners.is_empty() || object.deleting {
                    queue.push_back(object.key.clone());
                }
            }
            drain(&cluster, &mut queue).await;
        }
    }
}

async fn drain(cluster: &Cluster, queue: &mut VecDeque<Key>) {
    while let Some(key) = queue.pop_front() {
        if let Err(error) = collect(cluster, &key, queue).await
            && !error.is_not_found()
            && !error.is_conflict()
        {
            tracing::warn!(kind = %key.kind, name = %key.name, %error, "Garbage collection failed for an object.");
        }
    }
}

async fn collect(cluster: &Cluster, key: &Key, queue: &mut VecDeque<Key>) -> ApiResult<()> {
    let Some(object) = cluster.get(&key.kind, &key.namespace, &key.name) else { return Ok(()) };
    let finalizers = object.list_at("metadata.finalizers");
    if object.at("metadata.deletionTimestamp").is_some() {
        if finalizers.contains(&json!(ORPHAN)) {
            return orphan(cluster, key, &object).await;
        }
        if finalizers.contains(&json!(FOREGROUND)) {
            return foreground(cluster, key, &object, queue).await;
        }
    }
    dependent(cluster, key, &object).await
}

/// Lets the dependents go, then the object.
async fn orphan(cluster: &Cluster, key: &Key, object: &Value) -> ApiResult<()> {
    for dependent in cluster.store.dependents(object.uid()) {
        drop_owners(cluster, &dependent, &[object.uid().to_owned()]).await?;
    }
    remove_finalizer(cluster, key, ORPHAN).await
}

/// Deletes the dependents and waits for those that block, then the object.
async fn foreground(
    cluster: &Cluster,
    key: &Key,
    object: &Value,
    queue: &mut VecDeque<Key>,
) -> ApiResult<()> {
    let mut blocked = false;
    for dependent in cluster.store.dependents(object.uid()) {
        let Some(value) = cluster.get(&dependent.kind, &dependent.namespace, &dependent.name) else {
            continue;
        };
        let blocks = value
            .list_at("metadata.ownerReferences")
            .iter()
            .any(|o| o.str_at("uid") == object.uid() && o.bool_at("blockOwnerDeletion"));
        blocked |= blocks;
        if value.at("metadata.deletionTimestamp").is_none() {
            queue.push_back(dependent);
        }
    }
    if blocked { Ok(()) } else { remove_finalizer(cluster, key, FOREGROUND).await }
}

/// An object with owners: it lives as long as one of them does.
async fn dependent(cluster: &Cluster, key: &Key, object: &Value) -> ApiResult<()> {
    let owners = object.list_at("metadata.ownerReferences");
    if owners.is_empty() || object.at("metadata.deletionTimestamp").is_some() {
        return Ok(());
    }
    let (mut solid, mut waiting, mut absent) = (0, 0, Vec::new());
    for owner in owners {
        match find_owner(cluster, key, owner) {
            None => absent.push(owner.str_at("uid").to_owned()),
            Some(value) => {
                let leaving = value.at("metadata.deletionTimestamp").is_some()
                    && value.list_at("metadata.finalizers").contains(&json!(FOREGROUND));
                if leaving { waiting += 1 } else { solid += 1 }
            }
        }
    }
    if solid > 0 {
        return if absent.is_empty() { Ok(()) } else { drop_owners(cluster, key, &absent).await };
    }
    let Some(resource) = cluster.kinds().by_storage(&key.kind).cloned() else { return Ok(()) };
    let has_own = !cluster.store.dependents(object.uid()).is_empty();
    let policy = if waiting > 0 && has_own { "Foreground" } else { "Background" };
    let options = DeleteOptions {
        propagation: Some(policy.to_owned()),
        uid: Some(object.uid().to_owned()),
        ..DeleteOptions::default()
    };
    let mut caller = Caller::internal(MANAGER);
    cluster.delete(&resource, &key.namespace, &key.name, &options, &mut caller).await?;
    Ok(())
}

/// Owners are cluster-scoped or live in the same namespace; anything else counts as absent.
fn find_owner(cluster: &Cluster, key: &Key, owner: &Value) -> Option<Value> {
    let found = cluster.store.find_uid(owner.str_at("uid"))?;
    if !found.namespace.is_empty() && found.namespace != key.namespace {
        return None;
    }
    cluster.get(&found.kind, &found.namespace, &found.name)
}

async fn drop_owners(cluster: &Cluster, key: &Key, uids: &[String]) -> ApiResult<()> {
    cluster
        .modify(&key.kind, &key.namespace, &key.name, "", MANAGER, |object| {
            let mut owners = object.list_at("metadata.ownerReferences").to_vec();
            owners.retain(|o| !uids.iter().any(|uid| uid == o.str_at("uid")));
            if owners.is_empty() {
                object.remove_at("metadata.ownerReferences");
            } else {
                object.set_at("metadata.ownerReferences", Value::Array(owners));
            }
        })
        .await?;
    Ok(())
}

async fn remove_finalizer(cluster: &Cluster, key: &Key, name: &str) -> ApiResult<()> {
    cluster
        .modify(&key.kind, &key.namespace, &key.name, "", MANAGER, |object| {
            let mut finalizers = object.list_at("metadata.finalizers").to_vec();
            finalizers.retain(|f| f != name);
            object.set_at("metadata.finalizers", Value::Array(finalizers));
        })
        .await?;
    Ok(())
}
