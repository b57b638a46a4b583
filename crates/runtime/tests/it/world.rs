//! An embedded cluster, a repository and a runtime, and a client to look at the outcome.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, WriteOptions};
use slipway_runtime::{Config, Handle, Runtime};
use tokio_util::sync::CancellationToken;

pub(crate) struct World {
    pub(crate) root: tempfile::TempDir,
    pub(crate) stop: CancellationToken,
    pub(crate) client: Cluster,
}

impl World {
    /// A cluster with the definitions, and an empty repository.
    pub(crate) async fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let stop = CancellationToken::new();
        let cluster = slipway_devcluster::Config {
            data: root.path().join("cluster"),
            listen: "127.0.0.1:0".parse().expect("an address"),
            kubeconfig: root.path().join("kubeconfig"),
            // Nobody would remove the containers: what these tests need of pods they write themselves.
            engine: Some(slipway_devcluster::EngineChoice::Off),
        };
        slipway_devcluster::start(cluster, stop.clone()).await.expect("a cluster");
        let config = ClusterConfig::new(Some(root.path().join("kubeconfig")));
        let client = Cluster::connect(config).await.expect("connected");
        client.ensure_definitions(&slipway_crd::manifests()).await.expect("definitions");
        let world = Self { root, stop, client };
        world.make("v1", "Namespace", "", "argocd", json!({})).await;
        std::fs::create_dir(world.repo()).expect("a new folder");
        world.git(&["init", "--quiet", "--initial-branch=main"]);
        world
    }

    pub(crate) fn config(&self) -> Config {
        let mut config =
            Config::new("test", Some(self.root.path().join("kubeconfig")), self.root.path().join("runtime"));
        config.allow_local_repositories = true;
        config
    }

    /// Starts a runtime in this process.
    pub(crate) fn start(&self) -> Handle {
        self.start_with(self.config())
    }

    pub(crate) fn start_with(&self, config: Config) -> Handle {
        let runtime = Runtime::new(config);
        let handle = runtime.handle();
        let stop = self.stop.clone();
        tokio::spawn(async move { runtime.run(stop).await.expect("the runtime runs") });
        handle
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.repo().display())
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(arguments)
            .current_dir(self.repo())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Writes files (an empty text deletes one) and commits.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> String {
        for (path, text) in files {
            let path = self.repo().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a new folder");
            if text.is_empty() {
                std::fs::remove_file(path).expect("deleted");
            } else {
                std::fs::write(path, text).expect("written");
            }
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "A change"]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) async fn make(&self, api_version: &str, kind: &str, namespace: &str, name: &str, rest: Value) {
        let mut object = rest;
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"]["name"] = name.into();
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        self.client.create(&object, WriteOptions::default()).await.expect("created");
    }

    /// An Application of the folder `app` that deploys to the namespace `shop`.
    pub(crate) async fn application(&self, name: &str, policy: Value) {
        self.application_at(name, "app", "shop", policy).await;
    }

    pub(crate) async fn application_at(&self, name: &str, path: &str, namespace: &str, policy: Value) {
        let spec = json!({
            "project": "default",
            "source": {"repoURL": self.url(), "path": path, "targetRevision": "main"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": namespace},
            "syncPolicy": policy,
        });
        self.make("argoproj.io/v1alpha1", "Application", "argocd", name, json!({"spec": spec})).await;
    }

    pub(crate) async fn app(&self, name: &str) -> Value {
        let key = ObjectKey::new("argoproj.io", "Application", "argocd", name);
        self.client.read(&key).await.expect("readable").unwrap_or_default()
    }

    pub(crate) async fn read(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
        let key = ObjectKey::new(group, kind, namespace, name);
        self.client.read(&key).await.expect("readable").unwrap_or_default()
    }

    pub(crate) async fn patch_app(&self, name: &str, patch: Value) {
        let target = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"namespace": "argocd", "name": name}});
        self.client.merge(&target, &patch, WriteOptions::default()).await.expect("patched");
    }

    pub(crate) async fn refresh(&self, name: &str) {
        self.patch_app(name, json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}))
            .await;
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
        self.client.read(&ObjectKey::new(group, kind, "shop", name)).await.expect("readable")
    }

    /// Waits until the Application is as the question wants it.
    pub(crate) async fn until(&self, name: &str, what: &str, question: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let app = self.app(name).await;
            if question(&app) {
                return app;
            }
            if started.elapsed() > slipway_testkit::PATIENCE {
                panic!("{name} never was {what}: {}", serde_json::to_string_pretty(&app["status"]).unwrap());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn until_synced(&self, name: &str, revision: &str) -> Value {
        self.until(name, "synced", |app| {
            let status = &app["status"];
            status["sync"]["status"] == "Synced"
                && status["sync"]["revision"] == revision
                && status["operationState"]["phase"] == "Succeeded"
                && app["operation"].is_null()
        })
        .await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  key: \"{value}\"\n")
}

pub(crate) fn automated() -> Value {
    json!({"automated": {"prune": true, "selfHeal": true}, "syncOptions": ["CreateNamespace=true"]})
}
