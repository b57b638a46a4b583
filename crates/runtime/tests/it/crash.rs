//! The runtime as a process of its own, killed at moments that nobody chose.

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use slipway_cluster::{Cluster, ClusterConfig};
use tokio_util::sync::CancellationToken;

use crate::world::{World, automated, config_map};

struct Process(Child);

impl Process {
    fn start(world: &World) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_slipway-runtime"))
            .arg(world.root.path().join("kubeconfig"))
            .arg(world.root.path().join("runtime"))
            .env("RUST_LOG", "warn")
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the runtime starts");
        Self(child)
    }
}

impl Drop for Process {
    /// SIGKILL: it gets no chance to tidy up.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every uid that a kind and name ever had, seen by a watch.
async fn witness(world: &World, kind: &'static str, name: &'static str) -> Arc<Mutex<HashSet<String>>> {
    let mut config = ClusterConfig::new(Some(world.root.path().join("kubeconfig")), "argocd");
    config.namespace = "argocd".into();
    let cluster = Cluster::connect(config).await.expect("connected");
    let stop: CancellationToken = world.stop.clone();
    cluster.start(stop.clone()).await;
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let record = seen.clone();
    tokio::spawn(async move {
        while !stop.is_cancelled() {
            for live in cluster.live_of_kind("", kind) {
                if live.key.name == name {
                    record.lock().unwrap().insert(live.uid.clone());
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_is_killed_again_and_again_ends_well_and_runs_its_hooks_once() {
    let world = World::new().await;
    let hook = |name: &str, phase: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{argocd.argoproj.io/hook: {phase}}}\ndata: {{x: \"1\"}}\n")
    };
    let mut files = vec![
        ("app/pre.yaml".to_owned(), hook("pre", "PreSync")),
        ("app/post.yaml".to_owned(), hook("post", "PostSync")),
    ];
    for index in 0..30 {
        let wave = index / 10;
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m{index}\n  annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\ndata: {{x: \"1\"}}\n");
        files.push((format!("app/m{index}.yaml"), text));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let revision = world.commit(&files);
    let pre = witness(&world, "ConfigMap", "pre").await;
    let post = witness(&world, "ConfigMap", "post").await;
    world.application("shop", automated()).await;
    let mut killed_under_way = 0;
    for round in 0..40_u64 {
        let process = Process::start(&world);
        // From before the first request to after the last.
        tokio::time::sleep(Duration::from_millis(150 + (round * 137) % 900)).await;
        let app = world.app("shop").await;
        drop(process);
        if app["status"]["operationState"]["phase"] == "Running" {
            killed_under_way += 1;
        }
        if app["status"]["operationState"]["phase"] == "Succeeded" {
            break;
        }
    }
    let process = Process::start(&world);
    let app = world.until_synced("shop", &revision).await;
    drop(process);
    assert!(killed_under_way > 0, "no kill hit the sync");
    for index in 0..30 {
        assert!(world.get("ConfigMap", &format!("m{index}")).await.is_some(), "m{index}");
    }
    assert_eq!(pre.lock().unwrap().len(), 1, "the PreSync hook ran once");
    assert_eq!(post.lock().unwrap().len(), 1, "the PostSync hook ran once");
    assert_eq!(app["status"]["history"].as_array().map(Vec::len), Some(1), "one deployment");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_restarts_is_waited_for() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let start = |stop: CancellationToken| {
        let config = slipway_devcluster::Config {
            data: root.path().join("cluster"),
            listen: "127.0.0.1:0".parse().expect("an address"),
            kubeconfig: root.path().join("kubeconfig"),
            engine: None,
        };
        async move { slipway_devcluster::start(config, stop).await.expect("a cluster") }
    };
    let first_life = CancellationToken::new();
    let running = start(first_life.clone()).await;
    let stop = CancellationToken::new();
    let cluster =
        Cluster::connect(ClusterConfig::new(Some(root.path().join("kubeconfig")), "argocd")).await.expect("connected");
    cluster.start(stop.clone()).await;
    first_life.cancel();
    running.stopped().await;
    let second_life = CancellationToken::new();
    let _running = start(second_life.clone()).await;
    let other =
        Cluster::connect(ClusterConfig::new(Some(root.path().join("kubeconfig")), "argocd")).await.expect("connected");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": "default",
        "annotations": {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:default/late"}}});
    other.create(&map, slipway_cluster::WriteOptions::default()).await.expect("created");
    let heard = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let changes = cluster.changes().await;
            if changes.iter().any(|change| change.key.name == "late" && change.applications == ["shop"]) {
                return;
            }
        }
    });
    heard.await.expect("the change is heard after the restart");
    stop.cancel();
    second_life.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_goes_away_changes_nothing() {
    let world = World::new().await;
    let revision = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", automated()).await;
    world.start();
    world.until_synced("shop", &revision).await;
    std::fs::rename(world.repo(), world.root.path().join("hidden")).expect("moved");
    world.refresh("shop").await;
    let app = world.until("shop", "refreshed", |app| app["metadata"]["annotations"].as_object().is_none_or(|a| a.is_empty())).await;
    assert_eq!(app["status"]["sync"]["status"], "Synced", "forgiven for a while");
    assert!(world.get("ConfigMap", "a").await.is_some());
    std::fs::rename(world.root.path().join("hidden"), world.repo()).expect("moved back");
    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    world.refresh("shop").await;
    world.until_synced("shop", &second).await;
}
