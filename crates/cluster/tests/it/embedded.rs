use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, Propagation, WriteOptions, managed};
use tokio_util::sync::{CancellationToken, DropGuard};

async fn cluster() -> (Cluster, DropGuard, tempfile::TempDir) {
    let root = tempfile::tempdir().expect("a temporary folder");
    let stop = CancellationToken::new();
    let config = slipway_devcluster::Config {
        data: root.path().join("data"),
        listen: "127.0.0.1:0".parse().expect("an address"),
        kubeconfig: root.path().join("kubeconfig"),
        engine: None,
    };
    slipway_devcluster::start(config, stop.clone()).await.expect("a cluster");
    let config = ClusterConfig::new(Some(root.path().join("kubeconfig")));
    let config = ClusterConfig { tracking: super::by_label(), ..config };
    let cluster = Cluster::connect(config).await.expect("connected");
    cluster.start(stop.clone()).await;
    (cluster, stop.drop_guard(), root)
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default",
        "labels": {"of": "shop"}}, "data": data})
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("", "ConfigMap", "default", name)
}

async fn eventually(what: &str, question: impl Fn() -> bool) {
    for _ in 0..3000 {
        if question() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_seen_at_once_and_dry_runs_change_nothing() {
    let (cluster, _stop, _root) = cluster().await;
    let plain = WriteOptions::default();
    let dry = WriteOptions { dry_run: true, validate: true };
    cluster.create(&map("a", json!({"x": "1"})), dry).await.expect("tried");
    assert!(cluster.live(&key("a")).is_none());
    cluster.create(&map("a", json!({"x": "1"})), plain).await.expect("created");
    let live = cluster.live(&key("a")).expect("in the copy at once");
    assert_eq!(live.tracker.as_deref(), Some("shop"));
    let again = cluster.create(&map("a", json!({})), plain).await.expect_err("it is there");
    assert!(again.already_exists() && !again.is_conflict(), "{again}");

    cluster.apply(&map("a", json!({"x": "2"})), plain).await.expect("applied");
    let value =
        || cluster.live(&key("a")).and_then(|live| live.object()).map(|object| object["data"].clone());
    assert_eq!(value(), Some(json!({"x": "2"})));
    let stale = json!({"metadata": {"resourceVersion": live.resource_version}, "data": {"x": "3"}});
    let error = cluster.merge(&map("a", json!({})), &stale, plain).await.expect_err("somebody was faster");
    assert!(error.is_conflict(), "{error}");
    cluster.merge(&map("a", json!({})), &json!({"data": {"x": "3"}}), plain).await.expect("merged");
    assert_eq!(value(), Some(json!({"x": "3"})));

    assert!(
        !cluster
            .delete(&key("a"), Some("another-uid"), Propagation::Foreground, false)
            .await
            .expect("refused")
    );
    assert!(value().is_some());
    assert!(cluster.delete(&key("a"), None, Propagation::Background, true).await.expect("tried"));
    assert!(value().is_some());
    assert!(
        cluster.delete(&key("a"), Some(&live.uid), Propagation::Background, false).await.expect("deleted")
    );
    assert!(value().is_none());
    assert!(!cluster.delete(&key("a"), None, Propagation::Background, false).await.expect("nothing there"));
    let unknown = json!({"apiVersion": "example.org/v1", "kind": "Nope", "metadata": {"name": "x", "namespace": "default"}});
    let error = cluster.create(&unknown, plain).await.expect_err("no such kind");
    assert!(error.to_string().contains("install its definition first"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_come_and_go_with_their_definitions() {
    let (cluster, _stop, _root) = cluster().await;
    cluster.ensure_definitions(&slipway_crd::manifests()).await.expect("definitions");
    cluster.ensure_definitions(&slipway_crd::manifests()).await.expect("again");
    eventually("Applications are watched", || cluster.is_read("argoproj.io", "Application")).await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.org"}, "spec": {"group": "example.org", "scope": "Cluster",
        "names": {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    cluster.ensure_definitions(std::slice::from_ref(&definition)).await.expect("defined");
    let ship = json!({"apiVersion": "example.org/v1", "kind": "Ship", "metadata": {"name": "argo"}});
    cluster.create(&ship, WriteOptions::default()).await.expect("made");
    let ship = ObjectKey::new("example.org", "Ship", "", "argo");
    eventually("the kind is watched", || cluster.is_read("example.org", "Ship")).await;
    assert!(cluster.live(&ship).is_some());
    let definition =
        ObjectKey::new("apiextensions.k8s.io", "CustomResourceDefinition", "", "ships.example.org");
    cluster.delete(&definition, None, Propagation::Background, false).await.expect("deleted");
    eventually("the kind is gone", || cluster.discovery().preferred("example.org", "Ship").is_none()).await;
    eventually("its objects are gone", || cluster.live(&ship).is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_writer_owns_what_it_applies() {
    let (cluster, _stop, _root) = cluster().await;
    let rollouts = cluster.writing_as("rollouts-controller");
    cluster.apply(&map("a", json!({"x": "1"})), WriteOptions::default()).await.expect("applied");
    let both = rollouts.apply(&map("a", json!({"y": "2"})), WriteOptions::default()).await.expect("applied");
    assert_eq!(both["data"], json!({"x": "1", "y": "2"}), "neither takes the other's fields away");
    let entries = both["metadata"]["managedFields"].as_array().expect("managers");
    let mut managers: Vec<_> = entries.iter().filter_map(|entry| entry["manager"].as_str()).collect();
    managers.sort_unstable();
    assert_eq!(managers, ["argocd-controller", "rollouts-controller"]);

    let wrapped = managed("workflow-controller", async {
        cluster.apply(&map("b", json!({"x": "1"})), WriteOptions::default()).await
    });
    let entries = wrapped.await.expect("applied")["metadata"]["managedFields"].clone();
    assert_eq!(entries[0]["manager"], "workflow-controller", "{entries}");
}
