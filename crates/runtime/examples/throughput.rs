//! How long a first sync takes, beside the same objects by raw server-side apply over 8 connections.
//!
//! `throughput KUBECONFIG FOLDER APPLICATIONS OBJECTS`: makes a repository in FOLDER, applies its objects directly
//! (the limit), then lets a runtime in this process sync Applications of them, then one commit that changes all,
//! then one that changes one.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, Propagation, WriteOptions};
use slipway_runtime::Config;
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, folder, applications, objects] = arguments.as_slice() else {
        eprintln!("error: give KUBECONFIG FOLDER APPLICATIONS OBJECTS");
        std::process::exit(1);
    };
    let (applications, objects): (usize, usize) =
        (applications.parse().expect("a number"), objects.parse().expect("a number"));
    let folder = PathBuf::from(folder);
    let repo = folder.join("repo");
    std::fs::create_dir_all(&repo).expect("a folder");
    let revision = write(&repo, applications, objects, "1");
    let config = ClusterConfig::new(Some(kubeconfig.into()));
    let client = Cluster::connect(config).await.expect("connected");
    client.ensure_definitions(&slipway_crd::manifests()).await.expect("definitions");
    for name in ["argocd", "raw", "shop"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let _ = client.create(&namespace, WriteOptions::default()).await;
    }

    let started = Instant::now();
    let all = (0..applications).flat_map(|app| (0..objects).map(move |index| map(app, index)));
    let writes = all.map(|object| {
        let client = client.clone();
        async move { client.apply(&object, WriteOptions::default()).await.expect("applied") }
    });
    futures::stream::iter(writes).buffer_unordered(8).collect::<Vec<_>>().await;
    let limit = started.elapsed();
    println!("limit: {} objects by raw server-side apply: {limit:.2?}", applications * objects);

    for app in 0..applications {
        client.create(&application(app, &repo), WriteOptions::default()).await.expect("created");
    }
    let stop = CancellationToken::new();
    let mut config = Config::new("bench", Some(kubeconfig.into()), folder.join("runtime"));
    config.allow_local_repositories = true;
    let started = Instant::now();
    let running = tokio::spawn(slipway_runtime::run(config, stop.clone()));
    wait(&client, applications, &revision).await;
    report("first sync", started, limit);

    let revision = write(&repo, applications, objects, "2");
    let started = Instant::now();
    refresh(&client, applications).await;
    wait(&client, applications, &revision).await;
    report("a commit that changes all", started, limit);

    std::fs::write(repo.join("0/0.yaml"), manifest(0, 0, "3")).expect("written");
    let revision = commit(&repo);
    let started = Instant::now();
    refresh(&client, applications).await;
    wait(&client, applications, &revision).await;
    report("a commit that changes one", started, limit);

    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS")) {
        println!("{line}");
    }
    stop.cancel();
    let _ = running.await;
    for app in 0..applications {
        let key = ObjectKey::new("argoproj.io", "Application", "argocd", &format!("app{app}"));
        let _ = client.delete(&key, None, Propagation::Background, false).await;
    }
}

fn report(what: &str, started: Instant, limit: Duration) {
    let took = started.elapsed();
    println!("{what}: {took:.2?} ({:.1} x the limit)", took.as_secs_f64() / limit.as_secs_f64());
}

fn manifest(app: usize, index: usize, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a{app}-m{index}\ndata:\n  key: \"{value}\"\n"
    )
}

fn map(app: usize, index: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("a{app}-m{index}"), "namespace": "raw"}, "data": {"key": "1"}})
}

fn application(app: usize, repo: &std::path::Path) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": format!("app{app}"), "namespace": "argocd"},
        "spec": {"project": "default",
            "source": {"repoURL": format!("file://{}", repo.display()), "path": app.to_string(), "targetRevision": "main"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}}}})
}

fn write(repo: &std::path::Path, applications: usize, objects: usize, value: &str) -> String {
    for app in 0..applications {
        std::fs::create_dir_all(repo.join(app.to_string())).expect("a folder");
        for index in 0..objects {
            let path = repo.join(format!("{app}/{index}.yaml"));
            std::fs::write(path, manifest(app, index, value)).expect("written");
        }
    }
    commit(repo)
}

fn commit(repo: &std::path::Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=bench", "-c", "user.email=bench@example.org"])
            .args(arguments)
            .current_dir(repo)
            .output()
            .expect("git runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "A change"]);
    git(&["rev-parse", "HEAD"])
}

async fn refresh(client: &Cluster, applications: usize) {
    let patch = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
    let patches = (0..applications).map(|app| {
        let (client, patch) = (client.clone(), patch.clone());
        let target = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": format!("app{app}"), "namespace": "argocd"}});
        async move { client.merge(&target, &patch, WriteOptions::default()).await.expect("annotated") }
    });
    futures::stream::iter(patches).buffer_unordered(8).collect::<Vec<_>>().await;
}

async fn wait(client: &Cluster, applications: usize, revision: &str) {
    let mut app = 0;
    while app < applications {
        let key = ObjectKey::new("argoproj.io", "Application", "argocd", &format!("app{app}"));
        let found = client.read(&key).await.expect("readable").unwrap_or_default();
        let status = &found["status"];
        if status["sync"]["status"] == "Synced"
            && status["sync"]["revision"] == revision
            && found["operation"].is_null()
            && status["health"]["status"] == "Healthy"
        {
            app += 1;
        } else {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
