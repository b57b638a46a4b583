//! Installing and removing on the embedded cluster, interrupted between the platform and the cluster. Pods are nobody's to run here.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, routing};
use serde_json::{Value, json};
use slipway_api::Client;
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, WriteOptions};
use slipway_model::Secret;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::progress::Progress;
use super::state::Site;
use super::{install, look, remove};
use crate::kube::marks;

struct World {
    cluster: Cluster,
    site: Site,
    _stop: DropGuard,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let kubeconfig = folder.path().join("kubeconfig");
        let config = slipway_devcluster::Config {
            data: folder.path().join("cluster"),
            listen: "127.0.0.1:0".parse().unwrap(),
            kubeconfig: kubeconfig.clone(),
            engine: Some(slipway_devcluster::EngineChoice::Off),
        };
        slipway_devcluster::start(config, stop.clone()).await.unwrap();
        let cluster = Cluster::connect(ClusterConfig::new(Some(kubeconfig))).await.unwrap();
        let site = Site { name: "west".into(), namespace: "gitops".into() };
        let world = Self { cluster, site, _stop: stop.drop_guard(), _folder: folder };
        world.make(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gitops"}})).await;
        world
    }

    async fn make(&self, object: Value) {
        self.cluster.apply(&object, WriteOptions::default()).await.unwrap();
    }

    async fn secret(&self, name: &str, labels: Value) {
        self.make(json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"token": "b2xk"},
            "metadata": {"name": name, "namespace": "gitops", "labels": labels}}))
            .await;
    }

    /// What the Secret of the token holds, in base64.
    async fn token(&self) -> Option<String> {
        let found = self.cluster.read(&self.site.token_secret()).await.unwrap()?;
        found["data"]["token"].as_str().map(str::to_owned)
    }

    async fn has(&self, name: &str) -> bool {
        let found = self.cluster.read(&ObjectKey::new("", "Secret", "gitops", name)).await.unwrap();
        // One that is deleted may be there for a moment more.
        found.is_some_and(|found| found["metadata"]["deletionTimestamp"].is_null())
    }

    /// A runtime's Deployment, as a chart makes it.
    async fn deployment(&self, name: &str) {
        let labels = json!({"app.kubernetes.io/name": "slipway", "app.kubernetes.io/component": "runtime"});
        self.make(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "gitops", "labels": labels},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "none"}]}}}}))
            .await;
    }
}

/// Whether it knows the runtime; and whether its next answer to a registration gets lost.
#[derive(Default)]
struct Known {
    registered: bool,
    loses_answers: bool,
}

type Platform = Arc<Mutex<Known>>;

async fn platform(known: &Platform) -> Client {
    async fn look(State(known): State<Platform>) -> Response {
        match known.lock().unwrap().registered {
            true => Json(json!({"name": "west", "version": "", "cluster": "", "ingressUrl": "", "state": "never-connected",
                "online": false, "applications": 0, "allowedAddresses": [], "sessions": []}))
            .into_response(),
            false => (StatusCode::NOT_FOUND, Json(json!({}))).into_response(),
        }
    }
    async fn token(State(known): State<Platform>) -> Response {
        let mut known = known.lock().unwrap();
        known.registered = true;
        match known.loses_answers {
            true => StatusCode::BAD_GATEWAY.into_response(),
            false => Json(json!({"name": "west", "token": "new", "command": ""})).into_response(),
        }
    }
    let app = axum::Router::new()
        .route("/api/runtimes/west", routing::get(look))
        .route("/api/runtimes", routing::post(token))
        .route("/api/runtimes/west/token", routing::post(token))
        .with_state(known.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    Client::new(&url, Secret::new("key".into()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_before_is_never_taken_for_the_one_that_got_lost() {
    let world = World::new().await;
    let known = Platform::default();
    let client = platform(&known).await;
    let progress = Progress::new("install", true);
    let register = || install::register(&world.cluster, &world.site, &client, "", &[], &progress);
    // The platform has forgotten the runtime, the cluster has not; and the new token is lost on its way.
    world.secret(&world.site.token_secret().name, json!({})).await;
    known.lock().unwrap().loses_answers = true;
    assert!(register().await.is_err());
    assert!(known.lock().unwrap().registered);
    known.lock().unwrap().loses_answers = false;
    register().await.unwrap();
    assert_eq!(
        world.token().await.as_deref(),
        Some("bmV3"),
        "the runtime could never connect with the old one"
    );
    // What is there stays.
    known.lock().unwrap().loses_answers = true;
    register().await.unwrap();
    assert_eq!(world.token().await.as_deref(), Some("bmV3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn git_tokens_of_another_runtime_in_the_namespace_stay() {
    let world = World::new().await;
    let progress = Progress::new("uninstall", true);
    world.secret("ada", json!({"slipway.io/git-tokens-of-a-person": "true"})).await;
    world.deployment("slipway-runtime-east").await;
    remove::git_tokens(&world.cluster, &world.site, &progress).await.unwrap();
    assert!(world.has("ada").await, "they are the other one's");
    let other = ObjectKey::new("apps", "Deployment", "gitops", "slipway-runtime-east");
    world.cluster.delete(&other, None, slipway_cluster::Propagation::Background, false).await.unwrap();
    marks::until_gone(&world.cluster, &other).await.unwrap();
    remove::git_tokens(&world.cluster, &world.site, &progress).await.unwrap();
    // What is orphaned goes a moment later.
    marks::until_gone(&world.cluster, &ObjectKey::new("", "Secret", "gitops", "ada")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_helm_installed_is_not_called_missing() {
    let world = World::new().await;
    let said = || async {
        let checks = look::of_cluster(&world.cluster, &world.site).await.unwrap();
        checks.into_iter().map(|check| (check.check, check.outcome)).collect::<Vec<_>>()
    };
    assert_eq!(said().await, [("installation", "failed"), ("token", "failed"), ("pods", "failed")]);
    world.deployment("slipway-runtime-west").await;
    assert_eq!(said().await[0], ("installation", "ok"));
    assert!(said().await.iter().all(|(check, _)| *check != "token"), "its token is where Helm put it");
}
