//! The runtime as a process of its own, killed at moments that nobody chose.

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use slipway_cluster::{Cluster, ClusterConfig};
use tokio_util::sync::CancellationToken;

use crate::world::{World, automated, config_map};

pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(world: &World) -> Self {
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

    /// With these words in its environment and its log in a file.
    pub(crate) fn start_logged(world: &World, log: &str, environment: &[(&str, &str)]) -> Self {
        let file = std::fs::File::create(world.root.path().join(log)).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_slipway-runtime"))
            .arg(world.root.path().join("kubeconfig"))
            .arg(world.root.path().join("runtime"))
            .env("RUST_LOG", "info,slipway_cluster::request=debug")
            .env("NO_COLOR", "1")
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the runtime starts");
        Self(child)
    }

    /// Whether it came to its end by itself.
    pub(crate) fn ended(&mut self) -> bool {
        self.0.try_wait().expect("a process").is_some()
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
    let config = ClusterConfig::new(Some(world.root.path().join("kubeconfig")));
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
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{argocd.argoproj.io/hook: {phase}}}\ndata: {{x: \"1\"}}\n"
        )
    };
    let mut files = vec![
        ("app/pre.yaml".to_owned(), hook("pre", "PreSync")),
        ("app/post.yaml".to_owned(), hook("post", "PostSync")),
    ];
    for index in 0..30 {
        let wave = index / 10;
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m{index}\n  annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\ndata: {{x: \"1\"}}\n"
        );
        files.push((format!("app/m{index}.yaml"), text));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let revision = world.commit(&files);
    let pre = witness(&world, "ConfigMap", "pre").await;
    let post = witness(&world, "ConfigMap", "post").await;
    world.application("shop", automated()).await;
    let mut killed_under_way = 0;
    for round in 0..15_u64 {
        let process = Process::start(&world);
        // The waves of this sync take some seconds; every round is killed at another moment of them.
        world.until("shop", "under way", |app| !app["status"]["operationState"]["phase"].is_null()).await;
        tokio::time::sleep(Duration::from_millis((round * 211) % 1500)).await;
        let app = world.app("shop").await;
        drop(process);
        if app["status"]["operationState"]["phase"] == "Running" {
            killed_under_way += 1;
        } else {
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

/// Stands between the runtime and the cluster, and can cut every connection.
pub(crate) struct Wire {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) cut: Arc<tokio::sync::watch::Sender<bool>>,
}

impl Wire {
    pub(crate) async fn to(target: std::net::SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let cut = Arc::new(tokio::sync::watch::channel(false).0);
        let state = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut inner, _)) = listener.accept().await {
                let mut state = state.subscribe();
                tokio::spawn(async move {
                    if *state.borrow() {
                        return;
                    }
                    let Ok(mut outer) = tokio::net::TcpStream::connect(target).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut inner, &mut outer) => {}
                        _ = state.wait_for(|cut| *cut) => {}
                    }
                });
            }
        });
        Self { address, cut }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_cannot_be_reached_is_waited_for() {
    let world = World::new().await;
    let kubeconfig = std::fs::read_to_string(world.root.path().join("kubeconfig")).expect("readable");
    let server =
        kubeconfig.split("https://").nth(1).expect("a server").split_whitespace().next().expect("an address");
    let server = server.trim_matches(['"', '\'']);
    let wire = Wire::to(server.parse().expect("an address")).await;
    let through = world.root.path().join("through");
    std::fs::write(&through, kubeconfig.replace(server, &wire.address.to_string())).expect("written");
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/b.yaml", &config_map("b", "1"))]);
    world.application("shop", automated()).await;
    let mut config = world.config();
    config.kubeconfig = Some(through);
    world.start_with(config);
    world.until_synced("shop", &first).await;
    for round in 2..5 {
        wire.cut.send_replace(true);
        // Nobody hears of this now.
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "a"}});
        world
            .client
            .merge(&map, &json!({"data": {"key": "lost"}}), slipway_cluster::WriteOptions::default())
            .await
            .expect("patched");
        let key = slipway_cluster::ObjectKey::new("", "ConfigMap", "shop", "b");
        world
            .client
            .delete(&key, None, slipway_cluster::Propagation::Background, false)
            .await
            .expect("deleted");
        let revision = world.commit(&[("app/c.yaml", &config_map("c", &round.to_string()))]);
        world.refresh("shop").await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        wire.cut.send_replace(false);
        world.until_synced("shop", &revision).await;
        // Watches come back one after the other, and self-heal waits a little longer each time.
        let healed = tokio::time::timeout(slipway_testkit::PATIENCE, async {
            while world.get("ConfigMap", "b").await.is_none()
                || world.get("ConfigMap", "a").await.expect("there")["data"]["key"] != "1"
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        healed.await.unwrap_or_else(|_| panic!("round {round} was never healed"));
    }
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
    let app = world
        .until("shop", "refreshed", |app| {
            app["metadata"]["annotations"].as_object().is_none_or(|a| a.is_empty())
        })
        .await;
    assert_eq!(app["status"]["sync"]["status"], "Synced", "forgiven for a while");
    assert!(world.get("ConfigMap", "a").await.is_some());
    std::fs::rename(world.root.path().join("hidden"), world.repo()).expect("moved back");
    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    world.refresh("shop").await;
    world.until_synced("shop", &second).await;
}
