//! Pods that run something to its end, for whoever has work for a cluster: made, looked at, listened to, removed.
//!
//! In: a namespace, pods and their secrets as JSON. Out: the API server's answers, and logs as bytes with the time of
//! each line. It copies and watches nothing, so a process that lives as long as one pod can afford it; it does not
//! know what the pods are for.

use std::path::PathBuf;
use std::time::Duration;

use futures::AsyncBufRead;
use http::Request;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ClusterError;
use crate::connect::{ClusterConfig, client};
use crate::request::encode;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Where pods are made, in a form that can be handed to another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodsConfig {
    /// `None`: the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    pub namespace: String,
}

/// The kinds that this module makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodKind {
    Pod,
    Secret,
}

impl PodKind {
    fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
        }
    }
}

/// Both streams of a command in a container; it ends when this is dropped.
pub struct Terminal {
    pub stdin: Box<dyn tokio::io::AsyncWrite + Send + Unpin>,
    pub stdout: Box<dyn tokio::io::AsyncRead + Send + Unpin>,
    _process: kube::api::AttachedProcess,
}

pub struct Pods {
    client: kube::Client,
    namespace: String,
}

impl Pods {
    pub async fn connect(config: &PodsConfig) -> Result<Self, ClusterError> {
        let mut cluster = ClusterConfig::new(config.kubeconfig.clone());
        cluster.context.clone_from(&config.context);
        Ok(Self { client: client(&cluster).await?, namespace: config.namespace.clone() })
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// `1.34.4`, without the `v`.
    pub async fn version(&self) -> Result<String, ClusterError> {
        let answer = self.send(get("/version"), "the version of the cluster").await?;
        Ok(answer["gitVersion"].as_str().unwrap_or_default().trim_start_matches('v').to_owned())
    }

    pub async fn create(&self, kind: PodKind, object: &Value) -> Result<Value, ClusterError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let body = serde_json::to_vec(object).expect("a value is JSON");
        let request = Request::post(self.path(kind, ""))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .expect("paths are built from checked parts");
        self.send(request, &self.what(kind, name)).await
    }

    /// `None`: there is none.
    pub async fn get(&self, kind: PodKind, name: &str) -> Result<Option<Value>, ClusterError> {
        match self.send(get(&self.path(kind, name)), &self.what(kind, name)).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All that carry the labels of a selector such as `a=1,b!=2`.
    pub async fn list(&self, kind: PodKind, selector: &str) -> Result<Vec<Value>, ClusterError> {
        let path = format!("{}?labelSelector={}", self.path(kind, ""), encode(selector));
        let mut answer = self.send(get(&path), &format!("{} of {}", kind.plural(), self.namespace)).await?;
        match answer["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// `false`: there was none. Without grace the object is gone at once, and its processes a moment later.
    pub async fn delete(
        &self,
        kind: PodKind,
        name: &str,
        grace_seconds: Option<u32>,
    ) -> Result<bool, ClusterError> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background", "gracePeriodSeconds": grace_seconds,
        });
        let request = Request::delete(self.path(kind, name))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&options).expect("a value is JSON"))
            .expect("paths are built from checked parts");
        match self.send(request, &self.what(kind, name)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What one container prints, each line behind the time at which the node heard it. `since` is such a time; the
    /// API rounds it down to the second, so lines come that were there before.
    pub async fn log(
        &self,
        pod: &str,
        container: &str,
        since: Option<&str>,
        follow: bool,
    ) -> Result<impl AsyncBufRead + Send + Unpin + use<>, ClusterError> {
        let mut path = format!(
            "{}/log?container={}&follow={follow}&timestamps=true",
            self.path(PodKind::Pod, pod),
            encode(container)
        );
        if let Some(since) = since {
            path.push_str(&format!("&sinceTime={}", encode(since)));
        }
        let what = format!("the log of pod {}/{pod}", self.namespace);
        let open = self.client.request_stream(get(&path));
        let stream = match tokio::time::timeout(REQUEST_TIMEOUT, open).await {
            Ok(stream) => stream.map_err(|error| ClusterError::from_kube(error, what))?,
            Err(_) => return Err(ClusterError::Deadline { seconds: REQUEST_TIMEOUT.as_secs() }),
        };
        Ok(Box::pin(stream))
    }

    /// A command with a terminal of this size in a container that runs.
    pub async fn exec(
        &self,
        pod: &str,
        container: &str,
        command: &[&str],
        columns: u16,
        rows: u16,
    ) -> Result<Terminal, ClusterError> {
        let what = || format!("a shell in pod {}/{pod}", self.namespace);
        let api: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::namespaced(self.client.clone(), &self.namespace);
        let wish = kube::api::AttachParams::interactive_tty().container(container);
        let open = api.exec(pod, command.iter().copied(), &wish);
        let mut process = match tokio::time::timeout(REQUEST_TIMEOUT, open).await {
            Ok(process) => process.map_err(|error| ClusterError::from_kube(error, what()))?,
            Err(_) => return Err(ClusterError::Deadline { seconds: REQUEST_TIMEOUT.as_secs() }),
        };
        if let Some(mut size) = process.terminal_size() {
            use futures::SinkExt as _;
            let _ = size.send(kube::api::TerminalSize { width: columns, height: rows }).await;
        }
        match (process.stdin(), process.stdout()) {
            (Some(stdin), Some(stdout)) => {
                Ok(Terminal { stdin: Box::new(stdin), stdout: Box::new(stdout), _process: process })
            }
            _ => Err(ClusterError::Unreachable { detail: format!("{} has no streams", what()) }),
        }
    }

    /// Warnings about a pod, newest last: why it does not start.
    pub async fn warnings(&self, pod: &str) -> Result<Vec<String>, ClusterError> {
        let selector = format!("involvedObject.name={pod},type=Warning");
        let path = format!(
            "/api/v1/namespaces/{}/events?limit=50&fieldSelector={}",
            encode(&self.namespace),
            encode(&selector)
        );
        let answer = self.send(get(&path), &format!("events of {}", self.namespace)).await?;
        let text = |event: &Value| event["message"].as_str().map(|message| message.trim().to_owned());
        Ok(answer["items"].as_array().into_iter().flatten().filter_map(text).collect())
    }

    fn path(&self, kind: PodKind, name: &str) -> String {
        let collection = format!("/api/v1/namespaces/{}/{}", encode(&self.namespace), kind.plural());
        if name.is_empty() { collection } else { format!("{collection}/{}", encode(name)) }
    }

    fn what(&self, kind: PodKind, name: &str) -> String {
        format!("{} {}/{name}", kind.plural().trim_end_matches('s'), self.namespace)
    }

    async fn send(&self, request: Request<Vec<u8>>, what: &str) -> Result<Value, ClusterError> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.client.request::<Value>(request)).await {
            Ok(answer) => answer.map_err(|error| ClusterError::from_kube(error, what)),
            Err(_) => Err(ClusterError::Deadline { seconds: REQUEST_TIMEOUT.as_secs() }),
        }
    }
}

fn get(path: &str) -> Request<Vec<u8>> {
    Request::get(path).body(Vec::new()).expect("paths are built from checked parts")
}
