//! One kind, kept up to date for ever: list, watch, and list again when the server has forgotten where we were.

use std::hash::{BuildHasher, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{AsyncBufReadExt, FutureExt, StreamExt};
use http::Request;
use serde_json::Value;
use slipway_model::Backoff;

use crate::ClusterError;
use crate::connect::Cluster;
use crate::discovery::ApiResource;
use crate::request::collection_path;

/// How long the server may hold one watch; it ends by itself and is put again from where it was.
pub(crate) const SERVER_TIMEOUT: Duration = Duration::from_secs(290);
/// A watch that says nothing for so long (servers send bookmarks every minute) may be a connection to nobody.
const IDLE: Duration = Duration::from_secs(100);
const PAGE: usize = 500;
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(15);

/// Runs until cancelled by being dropped. An object that makes us panic must not make us blind for its kind.
pub(crate) async fn run(cluster: Cluster, resource: ApiResource) {
    loop {
        let following = follow(cluster.clone(), resource.clone());
        if AssertUnwindSafe(following).catch_unwind().await.is_err() {
            tracing::error!(kind = %resource.kind, group = %resource.group, "A watch failed badly; it begins again.");
        }
        tokio::time::sleep(BACKOFF_MAX).await;
    }
}

async fn follow(cluster: Cluster, resource: ApiResource) {
    // One place that holds everything, or the namespaces that may be seen.
    let places = match resource.namespaced {
        true if !cluster.inner.config.namespaces.is_empty() => cluster.inner.config.namespaces.clone(),
        _ => vec![String::new()],
    };
    let unread = AtomicUsize::new(places.len());
    let following = places.iter().map(|place| follow_place(&cluster, &resource, place, &unread));
    futures::future::join_all(following).await;
}

async fn follow_place(cluster: &Cluster, resource: &ApiResource, place: &str, unread: &AtomicUsize) {
    let mut backoff = Backoff::new(BACKOFF_FIRST, BACKOFF_MAX);
    let mut first = true;
    loop {
        let version = match list(cluster, resource, place).await {
            Ok(version) => version,
            Err(error) => {
                // Forbidden or broken kinds must not keep everybody else waiting for the first complete read.
                cluster.could_not_read(resource, &error);
                wait(&mut backoff, cluster).await;
                continue;
            }
        };
        if std::mem::take(&mut first) {
            unread.fetch_sub(1, Ordering::Relaxed);
        }
        if unread.load(Ordering::Relaxed) == 0 {
            cluster.was_read(resource);
        }
        let mut version = version;
        loop {
            match watch(cluster, resource, place, &mut version).await {
                Ok(()) => backoff.reset(),
                Err(Ended::Expired) => {
                    tracing::debug!(kind = %resource.kind, group = %resource.group, "A watch expired; everything is listed again.");
                    break;
                }
                Err(Ended::Broken(error)) => {
                    tracing::debug!(kind = %resource.kind, group = %resource.group, %error, "A watch broke; it is put again.");
                    wait(&mut backoff, cluster).await;
                }
            }
        }
    }
}

/// Reads all pages into the copy; gives the version to watch from.
async fn list(cluster: &Cluster, resource: &ApiResource, place: &str) -> Result<String, ClusterError> {
    let _slot = cluster.inner.lists.acquire().await.expect("the semaphore is never closed");
    let path = collection_path(resource, place);
    let mut objects = Vec::new();
    let mut token = String::new();
    loop {
        let next = if token.is_empty() {
            String::new()
        } else {
            format!("&continue={}", crate::request::encode(&token))
        };
        let mut page = cluster.get_json(&format!("{path}?limit={PAGE}{next}"), None).await?;
        let items =
            page.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        for mut item in items.into_iter().filter(Value::is_object) {
            // Lists leave these out of their items.
            item["apiVersion"] = resource.api_version().into();
            item["kind"] = resource.kind.clone().into();
            objects.push(item);
        }
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            let version = page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            cluster.inner.cache.replace_kind(&resource.group, &resource.kind, place, objects, &version);
            // Definitions may have come and gone while nobody watched.
            announce_definitions(cluster, resource);
            return Ok(version);
        }
    }
}

enum Ended {
    /// The server no longer knows this version.
    Expired,
    Broken(String),
}

/// Follows one watch to its end. `version` moves with every event and bookmark.
async fn watch(
    cluster: &Cluster,
    resource: &ApiResource,
    place: &str,
    version: &mut String,
) -> Result<(), Ended> {
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
        collection_path(resource, place),
        SERVER_TIMEOUT.as_secs(),
        version
    );
    let request = Request::get(&path).body(Vec::new()).expect("paths are built from checked parts");
    let stream =
        cluster.inner.client.request_stream(request).await.map_err(|error| match ClusterError::from_kube(
            error, "watch",
        ) {
            ClusterError::Refused { code: 410, .. } => Ended::Expired,
            error => Ended::Broken(error.to_string()),
        })?;
    cluster.inner.reached.notify_waiters();
    let mut lines = Box::pin(stream).lines();
    loop {
        let Ok(next) = tokio::time::timeout(IDLE, lines.next()).await else { return Ok(()) };
        let Some(line) = next else { return Ok(()) };
        let line = line.map_err(|error| Ended::Broken(error.to_string()))?;
        if line.is_empty() {
            continue;
        }
        let mut event: Value = serde_json::from_str(&line)
            .map_err(|error| Ended::Broken(format!("unreadable event: {error}")))?;
        let Some(object) = event.get_mut("object").map(Value::take) else {
            return Err(Ended::Broken("an event without an object".to_owned()));
        };
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "ERROR" {
            return Err(match object["code"].as_u64() {
                Some(410) => Ended::Expired,
                _ => Ended::Broken(object["message"].as_str().unwrap_or("an error event").to_owned()),
            });
        }
        if let Some(seen) = object["metadata"]["resourceVersion"].as_str() {
            seen.clone_into(version);
        }
        match kind {
            "ADDED" | "MODIFIED" => cluster.inner.cache.upsert(object),
            "DELETED" => {
                if let Some(uid) = object["metadata"]["uid"].as_str() {
                    cluster.inner.cache.remove(uid);
                }
            }
            _ => {}
        }
        if kind != "BOOKMARK" {
            announce_definitions(cluster, resource);
        }
    }
}

fn announce_definitions(cluster: &Cluster, resource: &ApiResource) {
    if resource.kind == "CustomResourceDefinition" {
        cluster.inner.definitions.notify_one();
    }
}

/// Waits longer each time, but not longer than until somebody else reached the server again.
async fn wait(backoff: &mut Backoff, cluster: &Cluster) {
    let base = backoff.failed();
    // Half of it is left to chance, so that a restarted server is not asked by everybody at once.
    let back = cluster.inner.reached.notified();
    tokio::select! {
        () = tokio::time::sleep(base / 2 + base.mul_f64(chance() / 2.0)) => {}
        () = back => tokio::time::sleep(Duration::from_millis(20).mul_f64(1.0 + 10.0 * chance())).await,
    }
}

/// A number from 0 to 1, different for every caller.
fn chance() -> f64 {
    let bits = std::hash::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
