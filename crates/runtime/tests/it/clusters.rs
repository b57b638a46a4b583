//! Applications that go to another cluster, which a Secret describes, and what becomes of them when it is away.

use std::path::Path;

use base64::Engine as _;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, WriteOptions};
use tokio_util::sync::CancellationToken;

use crate::crash::Wire;
use crate::world::{World, automated, config_map};

/// A second cluster, with a client of its own.
struct Other {
    client: Cluster,
    server: String,
    config: String,
    wire: Wire,
}

async fn other(folder: &Path, stop: &CancellationToken) -> Other {
    let config = slipway_devcluster::Config {
        data: folder.join("other"),
        listen: "127.0.0.1:0".parse().expect("an address"),
        kubeconfig: folder.join("other-kubeconfig"),
        engine: None,
    };
    slipway_devcluster::start(config, stop.clone()).await.expect("a cluster");
    let text = std::fs::read_to_string(folder.join("other-kubeconfig")).expect("a kubeconfig");
    let (kubeconfig, _) = slipway_yaml::load_all_json(&text).expect("YAML").remove(0);
    let (cluster, user) = (&kubeconfig["clusters"][0]["cluster"], &kubeconfig["users"][0]["user"]);
    let config = json!({
        "bearerToken": user["token"],
        "tlsClientConfig": {
            "caData": cluster["certificate-authority-data"],
            "certData": user["client-certificate-data"], "keyData": user["client-key-data"],
        },
    });
    // What is not there is left out, as people write it.
    let config = without_nulls(config).to_string();
    let client = Cluster::connect(ClusterConfig::new(Some(folder.join("other-kubeconfig")))).await;
    let address = cluster["server"].as_str().and_then(|server| server.strip_prefix("https://"));
    let wire = Wire::to(address.expect("an address").parse().expect("an address")).await;
    let server = format!("https://{}", wire.address);
    Other { client: client.expect("connected"), server, config, wire }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        other => other,
    }
}

fn secret(name: &str, server: &str, config: &str) -> Value {
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": "cluster"}}, "type": "Opaque",
        "data": {"name": encode(name), "server": encode(server), "config": encode(config)}})
}

async fn application(world: &World, name: &str, to: Value) {
    let spec = json!({
        "project": "default",
        "source": {"repoURL": world.url(), "path": "app", "targetRevision": "main"},
        "destination": to,
        "syncPolicy": automated(),
    });
    let finalizers = json!({"finalizers": ["resources-finalizer.argocd.argoproj.io"]});
    let object = json!({"metadata": finalizers, "spec": spec});
    world.make("argoproj.io/v1alpha1", "Application", "argocd", name, object).await;
}

async fn delete(world: &World, name: &str) {
    let key = ObjectKey::new("argoproj.io", "Application", "argocd", name);
    world.client.delete(&key, None, slipway_cluster::Propagation::Background, false).await.expect("deleted");
}

async fn until_gone(world: &World, name: &str) {
    world.until(name, "gone", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_cluster_is_deployed_to_and_cannot_wedge_a_deletion() {
    let world = World::new().await;
    let there = other(world.root.path(), &world.stop).await;
    let revision = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    application(&world, "shop", json!({"name": "far", "namespace": "shop"})).await;
    application(&world, "local", json!({"server": "https://kubernetes.default.svc", "namespace": "shop"}))
        .await;
    world.start();
    // Nobody knows the cluster yet, and the message says what to do.
    let app = world.until("shop", "refused", |app| !app["status"]["conditions"][0].is_null()).await;
    assert_eq!(app["status"]["conditions"][0]["type"], "InvalidSpecError");
    world.until_synced("local", &revision).await;

    world.make("v1", "Secret", "argocd", "far", secret("far", &there.server, &there.config)).await;
    world.until_synced("shop", &revision).await;
    let key = ObjectKey::new("", "ConfigMap", "shop", "a");
    assert!(there.client.read(&key).await.expect("readable").is_some());
    // Drift over there is noticed by a watch over there.
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "a"}});
    let hacked = json!({"data": {"key": "hacked"}});
    there.client.merge(&map, &hacked, WriteOptions::default()).await.expect("patched");
    world
        .until("shop", "healed", |app| {
            app["status"]["operationState"]["operation"]["sync"]["autoHealAttemptsCount"] == 1
                && app["status"]["sync"]["status"] == "Synced"
        })
        .await;
    assert_eq!(there.client.read(&key).await.expect("readable").expect("there")["data"]["key"], "1");

    // A second Application goes by address; it is deleted with what it made.
    application(&world, "second", json!({"server": there.server, "namespace": "second"})).await;
    world.until_synced("second", &revision).await;
    delete(&world, "second").await;
    until_gone(&world, "second").await;
    let second = ObjectKey::new("", "ConfigMap", "second", "a");
    assert!(there.client.read(&second).await.expect("readable").is_none(), "it took its objects along");

    // The cluster goes away. A deletion waits, says why, and goes on when a person says so.
    there.wire.cut.send_replace(true);
    delete(&world, "shop").await;
    let app =
        world.until("shop", "waiting", |app| app["status"]["conditions"][0]["type"] == "DeletionError").await;
    let message = app["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("argocd.argoproj.io/deletion-approved"), "{message}");
    let later = "2099-01-01T00:00:00Z";
    world
        .patch_app(
            "shop",
            json!({"metadata": {"annotations": {"argocd.argoproj.io/deletion-approved": later}}}),
        )
        .await;
    until_gone(&world, "shop").await;
    // And the neighbours were not disturbed.
    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    world.refresh("local").await;
    world.until_synced("local", &second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_never_answers_is_named_and_one_that_is_taken_away_lets_its_applications_go() {
    let world = World::new().await;
    world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    let port = slipway_testkit::free_port();
    let server = format!("https://127.0.0.1:{port}");
    world
        .make("v1", "Secret", "argocd", "dead", secret("dead", &server, "{\"bearerToken\": \"canary\"}"))
        .await;
    world
        .make(
            "v1",
            "Secret",
            "argocd",
            "broken",
            secret("broken", "https://broken.example", "{\"bearerToken\": [\"canary\"]}"),
        )
        .await;
    application(&world, "shop", json!({"name": "dead", "namespace": "shop"})).await;
    application(&world, "other", json!({"name": "broken", "namespace": "shop"})).await;
    world.start();
    for name in ["shop", "other"] {
        let app = world
            .until(name, "away", |app| app["status"]["conditions"][0]["type"] == "ComparisonError")
            .await;
        let text = app["status"].to_string();
        assert!(text.contains("cannot be used") && !text.contains("canary"), "{text}");
        assert_eq!(app["status"]["sync"]["status"], "Unknown");
    }
    delete(&world, "shop").await;
    world
        .until("shop", "waiting", |app| app["status"]["conditions"].to_string().contains("DeletionError"))
        .await;
    world
        .client
        .delete(
            &ObjectKey::new("", "Secret", "argocd", "dead"),
            None,
            slipway_cluster::Propagation::Background,
            false,
        )
        .await
        .expect("deleted");
    until_gone(&world, "shop").await;
}
