//! The demo: two repositories, a pipeline and an Application, all on this machine.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_api::pipeline::Pipeline;
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, WriteOptions};
use slipway_forge::builtin::SeedFile;
use slipway_model::{AccountId, Secret};
use slipway_server::Server;
use tokio_util::sync::CancellationToken;

use super::existing::Existing;

const APP: &str = "demo/demo-app";
const DEPLOY: &str = "demo/demo-deploy";

macro_rules! files {
    ($folder:literal: $($path:literal),* $(,)?) => {
        &[$(SeedFile {
            path: $path,
            content: include_str!(concat!("../../demo/", $folder, "/", $path)),
            executable: false,
        }),*]
    };
}

const APP_FILES: &[SeedFile<'static>] =
    files!("demo-app": "README.md", "codefresh.yml", "Dockerfile", "test.sh", "www/index.html");
const MANIFESTS: &[SeedFile<'static>] = files!(
    "demo-deploy": "README.md", "manifests/config.yaml", "manifests/deployment.yaml", "manifests/service.yaml"
);
const APPLICATION: &str = include_str!("../../demo/demo-deploy/application.yaml");

pub(crate) async fn seed(server: &Server, account: AccountId) -> anyhow::Result<()> {
    server.seed_repository(account, APP, "A page, its test and its pipeline", APP_FILES).await?;
    let application = application_text(server.public_url());
    let mut files: Vec<_> = MANIFESTS
        .iter()
        .map(|file| SeedFile { path: file.path, content: file.content, executable: file.executable })
        .collect();
    files.push(SeedFile { path: "application.yaml", content: &application, executable: false });
    server.seed_repository(account, DEPLOY, "What runs in the cluster", &files).await?;
    let pipeline: Pipeline = serde_json::from_value(json!({
        "metadata": {"name": "demo/demo-app", "description": "Clone, test, build, ship"},
        "spec": {
            "triggers": [{"name": "push", "type": "git", "repo": APP, "events": ["push.heads"], "branchRegex": "/^main$/"}],
            "specTemplate": {"location": "git", "repo": APP, "path": "codefresh.yml"},
        },
    }))?;
    server.seed_pipeline(account, &pipeline, &[DEPLOY]).await?;
    Ok(())
}

fn application_text(url: &str) -> String {
    APPLICATION.replace("@REPO_URL@", &format!("{url}/git/{DEPLOY}.git"))
}

/// The cluster that it goes into.
pub(super) struct Into {
    config: ClusterConfig,
    namespace: String,
    /// Of a cluster of somebody's own, which gets no Application.
    mark: Option<String>,
}

impl Into {
    pub(super) fn new(kubeconfig: &Path, existing: Option<&Existing>) -> Self {
        match existing {
            Some(existing) => Self {
                config: existing.chosen.config(),
                namespace: existing.namespace.clone(),
                mark: Some(existing.mark.clone()),
            },
            None => Self {
                config: ClusterConfig::new(Some(kubeconfig.to_owned())),
                namespace: "argocd".to_owned(),
                mark: None,
            },
        }
    }
}

/// Puts the Application and the credential for its repository into the cluster, as `kubectl apply` would.
pub(super) async fn deploy(into: &Into, url: &str, git_key: &Secret<String>, stop: &CancellationToken) {
    loop {
        let error = match try_deploy(into, url, git_key).await {
            Ok(()) => return,
            Err(error) => error,
        };
        // The definitions come with the runtime, which starts at the same time.
        tracing::debug!(error = format!("{error:#}"), "The demo's Application is not in the cluster yet.");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_millis(300)) => {}
        }
    }
}

async fn try_deploy(into: &Into, url: &str, git_key: &Secret<String>) -> anyhow::Result<()> {
    let cluster = Cluster::connect(into.config.clone()).await?;
    let namespace_name = into.namespace.as_str();
    let options = WriteOptions { dry_run: false, ..WriteOptions::default() };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace_name}});
    let credential = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": "slipway-git-host", "namespace": namespace_name,
            "labels": {"argocd.argoproj.io/secret-type": "repo-creds"},
        },
        "stringData": {"type": "git", "url": format!("{url}/git/"), "username": "runtime", "password": git_key.expose()},
    });
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "default", "namespace": namespace_name},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"namespace": "*", "server": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    });
    let mut objects = vec![(namespace, true), (credential, false), (project, true)];
    match &into.mark {
        None => objects.push((application(url)?, true)),
        Some(mark) => objects.iter_mut().for_each(|(object, _)| crate::kube::marks::marked(object, mark)),
    }
    for (object, keep) in objects {
        // What a person changed since stays; the credential follows the address of the server.
        if keep && cluster.read(&ObjectKey::of(&object)).await?.is_some() {
            continue;
        }
        cluster.apply(&object, options).await?;
    }
    Ok(())
}

fn application(url: &str) -> anyhow::Result<Value> {
    let documents = slipway_yaml::load_all_json(&application_text(url))
        .map_err(|errors| anyhow::anyhow!("{errors:?}"))?;
    documents
        .into_iter()
        .next()
        .map(|(value, _)| value)
        .ok_or_else(|| anyhow::anyhow!("application.yaml is empty"))
}
