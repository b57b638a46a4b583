//! What the pods of an Application print, as a stream of server-sent events.
//!
//! In: which of its objects, which container, how much of it. Out: whole lines, until all containers ended or (without `follow`)
//! until now. Each reader has a short queue of its own, so that one who is slow slows nobody but the reading for itself;
//! whoever may not look any more hears no more.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use serde::Serialize;
use serde_json::Value;
use slipway_api::proxy::{LogsRequest, PodLog, PodLogFailed};
use slipway_cluster::{Cluster, ClusterError, LogOptions, ObjectKey};
use tokio::sync::mpsc;

use super::tree::Tree;
use super::{AppPath, Asker, Proxy, Refusal};

/// More are asked for one by one.
const PODS_MAX: usize = 20;
const QUEUE: usize = 16;
/// So much text goes into one event.
const EVENT_BYTES: usize = 32 << 10;
/// Whoever is between us and the reader closes connections on which nothing is said.
const BEAT: Duration = Duration::from_secs(15);
/// A connection to a node that broke off while nothing was printed is opened again from here.
const OVERLAP_SECONDS: u64 = 2;

pub(super) async fn logs(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    path: AppPath,
    Json(request): Json<LogsRequest>,
) -> Result<Response, Refusal> {
    let place = proxy.stream()?;
    let tree = Tree::of(&proxy, path)?;
    let LogsRequest { group, kind, namespace, resource_name, .. } = &request;
    let of = ObjectKey::new(group, kind, namespace, resource_name);
    let pods = tree.pods((!resource_name.is_empty()).then_some(&of))?;
    if pods.len() > PODS_MAX {
        let message = format!(
            "{} pods are more than the {PODS_MAX} that can be read at once: name a resource",
            pods.len()
        );
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "TOO_MANY_PODS", message));
    }
    let (mut opened, mut failed, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for key in &pods {
        match Source::open(&tree.to.cluster, key, &request, &mut names).await {
            Ok(source) => opened.extend(source),
            Err(error) => failed.push(PodLogFailed { pod: key.name.clone(), message: error.to_string() }),
        }
    }
    if opened.is_empty() {
        return Err(match failed.into_iter().next() {
            Some(first) => Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "NO_LOG", first.message),
            None if pods.is_empty() => {
                let what = if resource_name.is_empty() {
                    String::new()
                } else {
                    format!(" of {kind}/{resource_name}")
                };
                let message = format!("application {} has no pods{what} now", tree.app.metadata.name);
                Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
            }
            None => {
                let message =
                    format!("no container is called {}: there are {}", request.container, names.join(", "));
                Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
            }
        });
    }
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let _place = place;
        carry(&proxy, &asker, opened, failed, &sender).await;
    });
    let events = futures::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Bytes>| {
        let event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((kind, Body::from_stream(events)).into_response())
}

async fn carry(
    proxy: &Proxy,
    asker: &Asker,
    opened: Vec<Source>,
    failed: Vec<PodLogFailed>,
    sender: &mpsc::Sender<Bytes>,
) {
    let reading = async {
        for failure in &failed {
            let _ = sender.send(event("failed", failure)).await;
        }
        futures::future::join_all(opened.into_iter().map(|source| source.send_to(sender))).await;
        let _ = sender.send(Bytes::from_static(b"event: end\ndata: {}\n\n")).await;
    };
    let beating = async {
        loop {
            tokio::time::sleep(BEAT).await;
            if sender.send(Bytes::from_static(b": still here\n\n")).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = beating => {}
        () = sender.closed() => {}
        message = proxy.until_revoked(asker) => {
            let _ = sender.try_send(event("failed", &PodLogFailed { pod: String::new(), message }));
        }
    }
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    match name {
        "" => format!("data: {data}\n\n").into(),
        name => format!("event: {name}\ndata: {data}\n\n").into(),
    }
}

/// One container's log.
struct Source {
    cluster: Cluster,
    key: ObjectKey,
    options: LogOptions,
    lines: BoxStream<'static, Result<String, std::io::Error>>,
}

impl Source {
    /// `None`: the pod has no such container; what it has is added to `names`.
    async fn open(
        cluster: &Cluster,
        key: &ObjectKey,
        request: &LogsRequest,
        names: &mut Vec<String>,
    ) -> Result<Option<Self>, ClusterError> {
        let Some(pod) = cluster.read(key).await? else { return Ok(None) };
        let Some(container) = container(&pod, &request.container, names) else { return Ok(None) };
        let options = LogOptions {
            container,
            follow: request.follow,
            tail: request.tail,
            since_seconds: request.since_seconds,
            previous: request.previous,
            timestamps: request.timestamps,
        };
        let lines = cluster.pod_logs(&key.namespace, &key.name, &options).await?.boxed();
        Ok(Some(Self { cluster: cluster.clone(), key: key.clone(), options, lines }))
    }

    async fn send_to(mut self, sender: &mpsc::Sender<Bytes>) {
        while let Some(first) = self.lines.next().await {
            let mut text = String::new();
            let mut next = Some(first);
            let mut broken = None;
            while let Some(line) = next.take() {
                match line {
                    Ok(line) => {
                        text.push_str(&line);
                        text.push('\n');
                    }
                    Err(error) => broken = Some(error),
                }
                if broken.is_none() && text.len() < EVENT_BYTES {
                    next = self.lines.next().now_or_never().flatten();
                }
            }
            let (pod, container) = (self.key.name.clone(), self.options.container.clone());
            if !text.is_empty()
                && sender.send(event("", &PodLog { pod: pod.clone(), container, text })).await.is_err()
            {
                return;
            }
            let Some(error) = broken else { continue };
            if let Err(message) = self.reopen(&error).await {
                let _ = sender.send(event("failed", &PodLogFailed { pod, message })).await;
                return;
            }
        }
    }

    /// A silent container's connection is cut after a while by whoever is on the way; what is followed goes on.
    async fn reopen(&mut self, error: &std::io::Error) -> Result<(), String> {
        if !self.options.follow {
            return Err(format!("the rest of the log does not come: {error}"));
        }
        self.options.tail = None;
        self.options.since_seconds = Some(OVERLAP_SECONDS);
        let opened = self.cluster.pod_logs(&self.key.namespace, &self.key.name, &self.options).await;
        self.lines = opened.map_err(|error| error.to_string())?.boxed();
        Ok(())
    }
}

/// The container that is meant: the one that is named, or the one that the pod names as its default, or its first.
pub(super) fn container(pod: &Value, wanted: &str, names: &mut Vec<String>) -> Option<String> {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let all = lists.iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let mut found: Vec<&str> = all.filter_map(|container| container["name"].as_str()).collect();
    let default = pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    let meant = match wanted {
        "" => default.filter(|name| found.contains(name)).or(found.first().copied()),
        wanted => found.iter().find(|name| **name == wanted).copied(),
    };
    let meant = meant.map(str::to_owned);
    found.retain(|name| !names.iter().any(|known| known == name));
    names.extend(found.into_iter().map(str::to_owned));
    meant
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_container_is_the_named_one_or_the_default_or_the_first() {
        let mut pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}});
        let meant = |pod: &Value, wanted: &str| container(pod, wanted, &mut Vec::new());
        assert_eq!(meant(&pod, ""), Some("a".into()));
        assert_eq!(meant(&pod, "i"), Some("i".into()));
        assert_eq!(meant(&pod, "x"), None);
        pod["metadata"] = json!({"annotations": {"kubectl.kubernetes.io/default-container": "b"}});
        assert_eq!(meant(&pod, ""), Some("b".into()));
        pod["metadata"] = json!({"annotations": {"kubectl.kubernetes.io/default-container": "gone"}});
        assert_eq!(meant(&pod, ""), Some("a".into()));
        let mut names = vec!["a".to_owned()];
        container(&pod, "x", &mut names);
        assert_eq!(names, ["a", "b", "i"]);
    }
}
