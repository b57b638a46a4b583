//! Writing an object's state down: only what differs, only if it is still the object that was looked at, and in a way
//! that the change which comes back is known for our own.

use serde_json::{Map, Value, json};
use slipway_cluster::{Cluster, Live, WriteOptions};

use crate::{Key, Stop, Wake};

/// The version of an object that we wrote ourselves last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written(String);

impl Written {
    pub fn record(&mut self, resource_version: &str) {
        resource_version.clone_into(&mut self.0);
    }

    /// True when the object is as we left it.
    pub fn is(&self, live: &Live) -> bool {
        live.resource_version == self.0
    }

    /// True when nothing but our own write can be the reason of this wake. With [`Wake::state`] something around the
    /// object changed too, which the engine has to compare with what it saw.
    pub fn is_echo(&self, live: &Live, wake: Wake) -> bool {
        self.is(live) && wake.since.is_none() && !wake.timer
    }
}

/// Patches the object if it still has this version. Gives what the cluster has now.
pub async fn save(
    cluster: &Cluster,
    key: &Key,
    api_version: &str,
    patch: Value,
    resource_version: &str,
) -> Result<Value, Stop> {
    write(cluster, key, api_version, patch, resource_version, None).await
}

async fn write(
    cluster: &Cluster,
    key: &Key,
    api_version: &str,
    mut patch: Value,
    resource_version: &str,
    subresource: Option<&str>,
) -> Result<Value, Stop> {
    patch["metadata"]["resourceVersion"] = resource_version.into();
    let target = json!({"apiVersion": api_version, "kind": key.kind.kind,
        "metadata": {"namespace": key.namespace, "name": key.name}});
    let answer = match subresource {
        Some(part) => cluster.merge_subresource(&target, part, &patch).await,
        None => cluster.merge(&target, &patch, WriteOptions::default()).await,
    };
    match answer {
        Ok(answer) => Ok(answer),
        Err(error) if error.is_conflict() => {
            // The copy is behind; the next reconcile must not see the same again.
            let _ = cluster.read(&key.object()).await;
            Err(Stop::Changed)
        }
        Err(error) if error.is_not_found() => Err(Stop::Gone),
        Err(error) => Err(error.into()),
    }
}

/// Where the status of a kind is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusAt {
    /// In the object, as everything else.
    Object,
    /// In a part of its own (`subresources: {status: {}}`).
    Subresource,
}

/// A status that was, the one that is to be, and the version of the object that both are about.
#[derive(Debug, Clone, Copy)]
pub struct StatusChange<'a> {
    pub before: &'a Value,
    pub after: &'a Value,
    pub version: &'a str,
}

/// Writes what differs onto the version that was looked at: whoever changed the object meanwhile is heard first. Nothing is written where
/// nothing differs.
pub async fn save_status(
    cluster: &Cluster,
    key: &Key,
    api_version: &str,
    at: StatusAt,
    change: StatusChange<'_>,
) -> Result<(), Stop> {
    let Some(status) = merge_patch(change.before, change.after) else { return Ok(()) };
    let patch = json!({"status": status});
    if at == StatusAt::Object {
        return save(cluster, key, api_version, patch, change.version).await.map(drop);
    }
    write(cluster, key, api_version, patch, change.version, Some("status")).await.map(drop)
}

/// The JSON merge patch that makes `old` into `new`; `None` when they are equal.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        match before.get(key) {
            Some(known) => {
                if let Some(inner) = merge_patch(known, value) {
                    patch.insert(key.clone(), inner);
                }
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_says_only_what_differs() {
        for (old, new, expected) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (
                json!({"a": 1, "b": {"c": 1, "d": 2}}),
                json!({"b": {"c": 1, "d": 3}}),
                Some(json!({"a": null, "b": {"d": 3}})),
            ),
            (json!({"l": [1]}), json!({"l": [1, 2]}), Some(json!({"l": [1, 2]}))),
            (json!({"a": {"x": 1}}), json!({"a": 5}), Some(json!({"a": 5}))),
        ] {
            assert_eq!(merge_patch(&old, &new), expected);
        }
    }
}
