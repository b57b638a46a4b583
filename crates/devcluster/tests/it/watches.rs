//! Watches.

use serde_json::json;

use crate::client::{MERGE, Test};

#[tokio::test]
async fn a_watch_tells_adds_changes_and_deletes() {
    let t = Test::api().await;
    let mut watch = t.watch(&t.core("secrets")).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "a"}})).await;
    t.patch(&t.core("secrets/a"), MERGE, json!({"metadata": {"labels": {"x": "y"}}})).await;
    t.delete(&t.core("secrets/a")).await;
    assert_eq!(watch.names(3).await, ["ADDED a", "MODIFIED a", "DELETED a"]);
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_is_there() {
    let t = Test::api().await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "a"}})).await;
    let mut watch = t.watch(&t.core("secrets")).await;
    assert_eq!(watch.names(1).await, ["ADDED a"]);
}

#[tokio::test]
async fn a_watch_from_a_list_misses_nothing() {
    let t = Test::api().await;
    let (_, list) = t.get(&t.core("secrets")).await;
    let version = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    t.create(&t.core("secrets"), json!({"metadata": {"name": "a"}})).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "b"}})).await;
    t.delete(&t.core("secrets/a")).await;
    let mut watch = t.watch(&t.core(&format!("secrets?resourceVersion={version}"))).await;
    assert_eq!(watch.names(3).await, ["ADDED a", "ADDED b", "DELETED a"]);
}

#[tokio::test]
async fn events_carry_rising_versions_and_whole_objects() {
    let t = Test::api().await;
    let mut watch = t.watch(&t.core("configmaps?fieldSelector=metadata.name%3Da")).await;
    let made = t.config_map("a", json!({"k": "v"})).await;
    t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {"k": "w"}})).await;
    t.delete(&t.core("configmaps/a")).await;
    let mut last = 0;
    for (kind, value) in [("ADDED", "v"), ("MODIFIED", "w"), ("DELETED", "w")] {
        let event = watch.next().await.expect("an event");
        assert_eq!(event["type"], kind);
        assert_eq!(event["object"]["data"]["k"], value);
        assert_eq!(event["object"]["metadata"]["uid"], made["metadata"]["uid"]);
        let version: u64 =
            event["object"]["metadata"]["resourceVersion"].as_str().expect("text").parse().expect("a number");
        assert!(version > last);
        last = version;
    }
}

#[tokio::test]
async fn a_watch_with_a_label_selector_tells_when_objects_enter_and_leave() {
    let t = Test::api().await;
    let mut watch = t.watch(&t.core("secrets?labelSelector=x%3Dy")).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "a"}})).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "b", "labels": {"x": "y"}}})).await;
    t.patch(&t.core("secrets/a"), MERGE, json!({"metadata": {"labels": {"x": "y"}}})).await;
    t.patch(&t.core("secrets/b"), MERGE, json!({"metadata": {"labels": {"x": "z"}}})).await;
    assert_eq!(watch.names(3).await, ["ADDED b", "ADDED a", "DELETED b"]);
}

#[tokio::test]
async fn a_watch_of_one_object_sees_only_it() {
    let t = Test::api().await;
    let mut watch = t.watch(&t.core("secrets?fieldSelector=metadata.name%3Db")).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "a"}})).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "b"}})).await;
    assert_eq!(watch.names(1).await, ["ADDED b"]);
}

#[tokio::test]
async fn a_watch_of_a_namespace_does_not_see_others() {
    let t = Test::api().await;
    let other = Test::api().await;
    let mut watch = t.watch(&t.core("secrets")).await;
    other.create(&other.core("secrets"), json!({"metadata": {"name": "elsewhere"}})).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "here"}})).await;
    assert_eq!(watch.names(1).await, ["ADDED here"]);
}

#[tokio::test]
async fn a_watch_ends_after_its_timeout() {
    let t = Test::api().await;
    let mut watch = t.watch(&t.core("secrets?timeoutSeconds=1")).await;
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let t = Test::api().await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "a"}})).await;
    let path =
        t.core("secrets?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let mut watch = t.watch(&path).await;
    assert_eq!(watch.next().await.expect("an event")["object"]["metadata"]["name"], "a");
    let end = watch.next().await.expect("a bookmark");
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    t.create(&t.core("secrets"), json!({"metadata": {"name": "b"}})).await;
    assert_eq!(watch.names(1).await, ["ADDED b"]);
}

#[tokio::test]
async fn a_watch_of_custom_resources_works_the_same() {
    let t = Test::api().await;
    let kind = crate::crd::widgets(&t, json!({})).await;
    let mut watch = t.watch(&kind.path(&t)).await;
    t.create(&kind.path(&t), kind.object("a", json!({"size": 1}))).await;
    t.delete(&format!("{}/a", kind.path(&t))).await;
    assert_eq!(watch.names(2).await, ["ADDED a", "DELETED a"]);
}

#[tokio::test]
async fn every_watcher_sees_the_same_order() {
    let t = Test::api().await;
    let mut first = t.watch(&t.core("secrets")).await;
    let mut second = t.watch(&t.core("secrets")).await;
    let writes = (0..20).map(|n| {
        let t = &t;
        async move { t.create(&t.core("secrets"), json!({"metadata": {"name": format!("s{n}")}})).await }
    });
    futures::future::join_all(writes).await;
    assert_eq!(first.names(20).await, second.names(20).await);
}
