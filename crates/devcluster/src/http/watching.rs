//! Watches: the initial state where asked for, then changes as they commit, with bookmarks.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use serde_json::json;
use tokio::sync::mpsc;

use super::listing::{Form, Selection, form, object_text};
use super::resources::Target;
use super::{Ask, Body, reply};
use crate::error::{ApiError, ApiResult};
use crate::store::{Change, Event, Stored, Watcher};

/// How often a quiet watch gets a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(30);
/// Kubernetes ends watches after 30 to 60 minutes; clients start again.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(2700);

struct Stream {
    ask: Ask,
    target: Target,
    selection: Selection,
    form: Form,
    sender: mpsc::Sender<Bytes>,
    headers: bool,
}

pub(super) async fn watch(ask: Ask, target: Target) -> ApiResult<Response<Body>> {
    let resource = &target.resource;
    let selection = Selection::parse(&ask, resource)?.only(target.name.as_deref());
    let store = &ask.cluster.store;
    let asked = ask.query.get("resourceVersion");
    let initial = ask.query.flag("sendInitialEvents");
    let (version, objects) = store.list(&resource.storage, target.namespace.as_deref());
    let from_start = asked.is_empty() || asked == "0" || initial;
    let since = if from_start {
        version
    } else {
        asked.parse().map_err(|_| ApiError::bad_request(format!("Invalid resourceVersion {asked:?}")))?
    };
    let (sender, response) = reply::streaming("application/json");
    let form = form(&ask);
    let watcher = store.watch(&resource.storage, since);
    let timeout = ask.query.number("timeoutSeconds").map_or(TIMEOUT_DEFAULT, |s| Duration::from_secs(s.max(0) as u64));
    let send_state = from_start && (ask.query.get("sendInitialEvents") != "false");
    let mut stream = Stream { ask, target, selection, form, sender, headers: true };
    tokio::spawn(async move {
        let run = stream.run(watcher, since, send_state.then_some(objects), initial);
        let _ = tokio::time::timeout(timeout, run).await;
    });
    Ok(response)
}

impl Stream {
    async fn run(
        &mut self,
        watcher: Option<Watcher>,
        since: u64,
        objects: Option<Vec<std::sync::Arc<Stored>>>,
        initial: bool,
    ) -> Option<()> {
        let Some(mut watcher) = watcher else {
            return self.too_old(since).await;
        };
        for stored in objects.into_iter().flatten() {
            if self.selection.matches(&stored) {
                self.send("ADDED", &stored).await?;
            }
        }
        let mut version = since;
        if initial {
            self.bookmark(version, true).await?;
        }
        let bookmarks = self.ask.query.flag("allowWatchBookmarks");
        let shutdown = self.ask.shutdown.clone();
        loop {
            let events = tokio::select! {
                () = shutdown.cancelled() => return None,
                () = self.sender.closed() => return None,
                () = tokio::time::sleep(BOOKMARK_EVERY), if bookmarks => {
                    version = version.max(since);
                    self.bookmark(version, false).await?;
                    continue;
                }
                events = watcher.next() => events,
            };
            let Some(events) = events else { return self.too_old(version).await };
            for event in events {
                version = event.version;
                self.forward(&event).await?;
            }
        }
    }

    async fn forward(&mut self, event: &Event) -> Option<()> {
        let object = &event.object;
        if self.target.namespace.as_deref().is_some_and(|ns| ns != object.key.namespace) {
            return Some(());
        }
        let now = self.selection.matches(object);
        let before = event.before.as_deref().is_some_and(|before| self.selection.matches(before));
        let kind = match (event.change, before, now) {
            (Change::Deleted, _, true) | (Change::Deleted, true, _) | (_, true, false) => "DELETED",
            (Change::Added, _, true) | (Change::Modified, false, true) => "ADDED",
            (Change::Modified, true, true) => "MODIFIED",
            _ => return Some(()),
        };
        self.send(kind, object).await
    }

    async fn send(&mut self, kind: &str, stored: &Stored) -> Option<()> {
        let include = self.ask.query.get("includeObject");
        let text = object_text(self.form, &self.target.resource, stored, include, self.headers);
        self.headers = false;
        self.line(format!("{{\"type\":\"{kind}\",\"object\":{text}}}\n")).await
    }

    async fn bookmark(&mut self, version: u64, initial_end: bool) -> Option<()> {
        let resource = &self.target.resource;
        let mut meta = json!({"resourceVersion": version.to_string()});
        if initial_end {
            meta["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            Form::Table => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": [], "rows": []}),
            Form::Metadata => json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}),
            Form::Plain => json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": meta}),
        };
        self.line(format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n")).await
    }

    async fn too_old(&mut self, since: u64) -> Option<()> {
        let current = self.ask.cluster.store.version();
        let error = ApiError::gone(format!("too old resource version: {since} ({current})"));
        self.line(format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", error.status())).await
    }

    async fn line(&mut self, text: String) -> Option<()> {
        self.sender.send(Bytes::from(text)).await.ok()
    }
}
