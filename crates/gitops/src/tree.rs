//! The tree of live objects: who owns whom.

use crate::cluster::Settings;
use crate::health;
use crate::object::{self, ResourceKey};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// One live object and where it hangs.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeNode {
    pub key: ResourceKey,
    pub version: String,
    pub uid: String,
    pub resource_version: String,
    pub created_at: String,
    /// UIDs of the owners that are in the tree.
    pub parents: Vec<String>,
    pub health: Option<health::Health>,
    pub images: Vec<String>,
}

/// A node for each object, owners before what they own. Cycles, which a hostile controller can make, end.
pub fn tree(live: &[Value]) -> Vec<TreeNode> {
    tree_by(live, health::assess)
}

/// As [`tree`], with the installation's own health scripts.
pub fn tree_with(live: &[Value], settings: &Settings, now: Timestamp) -> Vec<TreeNode> {
    tree_by(live, |object| health::assess_with(object, settings, now))
}

fn tree_by(live: &[Value], assess: impl Fn(&Value) -> Option<health::Health>) -> Vec<TreeNode> {
    let mut by_uid: BTreeMap<&str, &Value> = BTreeMap::new();
    for object in live {
        by_uid.entry(object::uid(object)).or_insert(object);
    }
    let mut nodes: Vec<TreeNode> = by_uid
        .values()
        .map(|object| TreeNode { health: assess(object), ..node(object, live, &by_uid) })
        .collect();
    let depths = depths(&nodes);
    nodes.sort_by(|a, b| {
        let depth = |n: &TreeNode| depths.get(&n.uid).copied().unwrap_or(0);
        depth(a).cmp(&depth(b)).then_with(|| a.key.cmp(&b.key))
    });
    nodes
}

fn node(object: &Value, live: &[Value], by_uid: &BTreeMap<&str, &Value>) -> TreeNode {
    let mut parents: Vec<String> = object::list(object, &["metadata", "ownerReferences"])
        .iter()
        .map(|owner| object::text(owner, &["uid"]))
        .filter(|uid| by_uid.contains_key(uid))
        .map(str::to_string)
        .collect();
    if parents.is_empty() {
        parents.extend(inferred_owner(object, live).map(str::to_string));
    }
    TreeNode {
        key: ResourceKey::of(object),
        version: object::version(object).into(),
        uid: object::uid(object).into(),
        resource_version: object::text(object, &["metadata", "resourceVersion"]).into(),
        created_at: object::text(object, &["metadata", "creationTimestamp"]).into(),
        parents,
        health: None,
        images: images(object),
    }
}

/// Owners that Kubernetes does not write down: Endpoints of a Service, claims of a StatefulSet, a token's account.
fn inferred_owner<'a>(object: &Value, live: &'a [Value]) -> Option<&'a str> {
    let (kind, name, namespace) = (object::kind(object), object::name(object), object::namespace(object));
    let find = |group: &str, owner_kind: &str, fits: &dyn Fn(&Value) -> bool| {
        live.iter()
            .find(|o| {
                object::group(o) == group
                    && object::kind(o) == owner_kind
                    && object::namespace(o) == namespace
                    && fits(o)
            })
            .map(object::uid)
    };
    match (object::group(object), kind) {
        ("", "Endpoints") => find("", "Service", &|o| object::name(o) == name),
        ("", "Secret") if object::text(object, &["type"]) == "kubernetes.io/service-account-token" => {
            let account = object::annotation(object, "kubernetes.io/service-account.name")?;
            find("", "ServiceAccount", &|o| object::name(o) == account)
        }
        ("", "PersistentVolumeClaim") => find("apps", "StatefulSet", &|o| {
            object::list(o, &["spec", "volumeClaimTemplates"]).iter().any(|template| {
                let prefix = format!("{}-{}-", object::name(template), object::name(o));
                name.strip_prefix(&prefix)
                    .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
            })
        }),
        _ => None,
    }
}

fn depths(nodes: &[TreeNode]) -> BTreeMap<String, usize> {
    let parents: BTreeMap<&str, &[String]> =
        nodes.iter().map(|n| (n.uid.as_str(), n.parents.as_slice())).collect();
    nodes
        .iter()
        .map(|node| {
            let mut seen = BTreeSet::new();
            let (mut uid, mut depth) = (node.uid.as_str(), 0);
            while let Some(parent) = parents.get(uid).and_then(|list| list.first()) {
                if !seen.insert(parent.as_str()) {
                    break;
                }
                (uid, depth) = (parent, depth + 1);
            }
            (node.uid.clone(), depth)
        })
        .collect()
}

/// The images that an object's pods run, sorted, each once.
pub fn images(object: &Value) -> Vec<String> {
    let spec = match object::kind(object) {
        "Pod" => object::at(object, &["spec"]),
        "CronJob" => object::at(object, &["spec", "jobTemplate", "spec", "template", "spec"]),
        _ => object::at(object, &["spec", "template", "spec"]),
    };
    let mut images = BTreeSet::new();
    for field in ["initContainers", "containers"] {
        for container in spec.map(|s| object::list(s, &[field])).unwrap_or_default() {
            let image = object::text(container, &["image"]);
            if !image.is_empty() {
                images.insert(image.to_string());
            }
        }
    }
    images.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &str, name: &str, uid: &str, owner: Option<&str>) -> Value {
        let owners: Vec<Value> = owner
            .map(|uid| json!({"uid": uid, "kind": "x", "name": "x", "apiVersion": "v1"}))
            .into_iter()
            .collect();
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "n", "uid": uid, "ownerReferences": owners}})
    }

    #[test]
    fn owners_come_first_and_cycles_end() {
        let nodes = tree(&[
            object("Pod", "p", "3", Some("2")),
            object("ReplicaSet", "r", "2", Some("1")),
            object("Deployment", "d", "1", None),
            object("Odd", "a", "8", Some("9")),
            object("Odd", "b", "9", Some("8")),
            object("Orphan", "o", "7", Some("gone")),
        ]);
        let names: Vec<_> = nodes.iter().map(|n| n.key.name.as_str()).collect();
        assert_eq!(names.len(), 6);
        let place = |name| names.iter().position(|n| *n == name).expect("in the tree");
        assert!(place("d") < place("r") && place("r") < place("p"));
        assert!(nodes[place("o")].parents.is_empty());
    }

    #[test]
    fn a_claim_hangs_under_its_stateful_set() {
        let mut set = object("StatefulSet", "db", "1", None);
        set["apiVersion"] = json!("apps/v1");
        set["spec"] = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]});
        let nodes = tree(&[
            set,
            object("PersistentVolumeClaim", "data-db-0", "2", None),
            object("PersistentVolumeClaim", "data-db-backup", "3", None),
        ]);
        let of = |name: &str| nodes.iter().find(|n| n.key.name == name).expect("in the tree").parents.clone();
        assert_eq!(of("data-db-0"), ["1"]);
        assert!(of("data-db-backup").is_empty());
    }
}
