//! What Kubernetes and the engines noted about an Application and its live objects: asked for when it is looked at, kept nowhere.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::{Query, State};
use serde_json::Value;
use slipway_api::application::{ApplicationEvents, EventsRequest, ObjectEvent};
use slipway_cluster::{Cluster, ObjectKey};
use slipway_gitops::object;

use super::tree::Tree;
use super::{AppPath, Proxy, Refusal};

/// Of a namespace; Kubernetes forgets them after an hour.
const ASKED_MAX: usize = 2000;
const SHOWN_MAX: usize = 500;

pub(super) async fn events(
    State(proxy): State<Proxy>,
    path: AppPath,
    Query(of): Query<EventsRequest>,
) -> Result<Json<ApplicationEvents>, Refusal> {
    let tree = Tree::of(&proxy, path)?;
    let mut found = Vec::new();
    if of.resource_name.is_empty() {
        let home = &proxy.running()?.cluster;
        let metadata = &tree.app.metadata;
        let own = BTreeSet::from([metadata.uid.clone()]);
        found.extend(noted(home, &metadata.namespace, &own).await?);
        let mut by_namespace: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (key, uid) in tree.uids() {
            // What has no namespace is noted in this one.
            let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
            by_namespace.entry(namespace.to_owned()).or_default().insert(uid.to_owned());
        }
        for (namespace, uids) in &by_namespace {
            found.extend(noted(&tree.to.cluster, namespace, uids).await?);
        }
    } else {
        let key = ObjectKey::new(&of.group, &of.kind, &of.namespace, &of.resource_name);
        let uid = tree.find(&key)?.uid.clone();
        let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
        found.extend(noted(&tree.to.cluster, namespace, &BTreeSet::from([uid])).await?);
    }
    found.sort_by(|a, b| b.last_seen.cmp(&a.last_seen).then_with(|| a.name.cmp(&b.name)));
    found.truncate(SHOWN_MAX);
    Ok(Json(ApplicationEvents { events: found }))
}

/// About these objects and about nothing else that is there.
async fn noted(
    cluster: &Cluster,
    namespace: &str,
    uids: &BTreeSet<String>,
) -> Result<Vec<ObjectEvent>, Refusal> {
    let one = uids.iter().next().filter(|_| uids.len() == 1);
    let all = cluster.events(namespace, one.map(String::as_str), ASKED_MAX).await?;
    let about =
        |event: &&Value| event["involvedObject"]["uid"].as_str().is_some_and(|uid| uids.contains(uid));
    Ok(all.iter().filter(about).map(shown).collect())
}

fn shown(event: &Value) -> ObjectEvent {
    let text = |path: &[&str]| object::text(event, path).to_owned();
    let first_of = |paths: &[&[&str]]| {
        paths.iter().map(|path| text(path)).find(|text| !text.is_empty()).unwrap_or_default()
    };
    let (first, last, made): (&[&str], &[&str], &[&str]) =
        (&["firstTimestamp"], &["lastTimestamp"], &["metadata", "creationTimestamp"]);
    let (series, noted): (&[&str], &[&str]) = (&["series", "lastObservedTime"], &["eventTime"]);
    let times = |path: &[&str]| object::integer(event, path);
    ObjectEvent {
        kind: text(&["involvedObject", "kind"]),
        namespace: text(&["involvedObject", "namespace"]),
        name: text(&["involvedObject", "name"]),
        severity: text(&["type"]),
        reason: text(&["reason"]),
        message: text(&["message"]),
        count: times(&["series", "count"]).or_else(|| times(&["count"])).unwrap_or(1),
        first_seen: first_of(&[first, noted, made]),
        last_seen: first_of(&[series, last, noted, made]),
        source: first_of(&[&["reportingComponent"], &["source", "component"]]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn either_form_of_an_event_says_when_and_how_often() {
        let old = shown(&json!({"firstTimestamp": "a", "lastTimestamp": "b", "count": 7, "type": "Warning",
            "involvedObject": {"kind": "Pod", "name": "x"}, "source": {"component": "kubelet"}}));
        assert_eq!((&*old.first_seen, &*old.last_seen, old.count), ("a", "b", 7));
        assert_eq!((&*old.source, &*old.severity, &*old.kind), ("kubelet", "Warning", "Pod"));
        let new = shown(&json!({"eventTime": "a", "lastTimestamp": null, "reportingComponent": "engine",
            "series": {"count": 3, "lastObservedTime": "c"}}));
        assert_eq!((&*new.first_seen, &*new.last_seen, new.count, &*new.source), ("a", "c", 3, "engine"));
        let bare = shown(&json!({"metadata": {"creationTimestamp": "m"}}));
        assert_eq!((&*bare.first_seen, &*bare.last_seen, bare.count), ("m", "m", 1));
    }
}
