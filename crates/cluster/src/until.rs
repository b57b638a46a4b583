//! One object, followed until it is as somebody wants it.

use std::time::Duration;

use futures::{AsyncBufReadExt, StreamExt};
use http::Request;
use serde_json::Value;
use slipway_model::Backoff;

use crate::connect::Cluster;
use crate::discovery::ApiResource;
use crate::request::{collection_path, encode};
use crate::watch::SERVER_TIMEOUT;
use crate::{ClusterError, ObjectKey};

impl Cluster {
    /// Reads and watches the object, however long it takes: whoever asks sets the limit. `None`: there is no such object, or not any more.
    /// Nothing of the copy is touched, and nothing else is watched.
    pub async fn until(
        &self,
        key: &ObjectKey,
        mut is_wanted: impl FnMut(&Value) -> bool,
    ) -> Result<Option<Value>, ClusterError> {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        loop {
            let Some(object) = self.read(key).await? else { return Ok(None) };
            if is_wanted(&object) {
                return Ok(Some(object));
            }
            let discovery = self.discovery();
            let Some(resource) = discovery.preferred(&key.group, &key.kind) else {
                return Err(ClusterError::UnknownKind {
                    api_version: key.group.clone(),
                    kind: key.kind.clone(),
                });
            };
            let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            match self.follow(resource, key, version, &mut is_wanted).await {
                Followed::Wanted(object) => return Ok(Some(object)),
                Followed::Gone => return Ok(None),
                // A watch ends after a while; one that broke is not put again at once.
                Followed::Ended => backoff.reset(),
                Followed::Broken => tokio::time::sleep(backoff.failed()).await,
            }
        }
    }

    async fn follow(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        version: &str,
        is_wanted: &mut impl FnMut(&Value) -> bool,
    ) -> Followed {
        let path = format!(
            "{}?watch=true&timeoutSeconds={}&fieldSelector={}&resourceVersion={}",
            collection_path(resource, &key.namespace),
            SERVER_TIMEOUT.as_secs(),
            encode(&format!("metadata.name={}", key.name)),
            encode(version),
        );
        let request = Request::get(&path).body(Vec::new()).expect("paths are built from checked parts");
        let Ok(stream) = self.inner.client.request_stream(request).await else { return Followed::Broken };
        let mut lines = Box::pin(stream).lines();
        while let Some(line) = lines.next().await {
            let event = line.ok().and_then(|line| serde_json::from_str::<Value>(&line).ok());
            let Some(mut event) = event else { return Followed::Broken };
            let object = event["object"].take();
            // The server may not know the selector.
            if object["metadata"]["name"] != key.name.as_str() {
                match event["type"].as_str() {
                    Some("ERROR") => return Followed::Broken,
                    _ => continue,
                }
            }
            match event["type"].as_str() {
                Some("DELETED") => return Followed::Gone,
                Some("ADDED" | "MODIFIED") if is_wanted(&object) => return Followed::Wanted(object),
                _ => {}
            }
        }
        Followed::Ended
    }
}

enum Followed {
    Wanted(Value),
    Gone,
    Ended,
    Broken,
}
