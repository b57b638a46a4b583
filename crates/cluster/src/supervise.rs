//! Which kinds are watched: all that can be, less what is noise; started and stopped as definitions come and go.

use std::collections::HashMap;
use std::time::Duration;

use slipway_model::Backoff;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::connect::Cluster;
use crate::discovery::ApiResource;
use crate::{ClusterError, ObjectKey};

/// Definitions are looked at again after this time even when nothing said so: aggregated APIs come and go
/// without a CustomResourceDefinition.
const REDISCOVERY: Duration = Duration::from_secs(600);
const INCOMPLETE: Duration = Duration::from_secs(2);
/// Of a definition that is never served, however often it is asked for.
const INCOMPLETE_MAX: Duration = Duration::from_secs(60);
/// Several definitions usually come together.
const SETTLE: Duration = Duration::from_millis(150);

/// Kinds that change all the time and that no application consists of.
pub(crate) fn is_excluded(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("events.k8s.io" | "metrics.k8s.io", _)
            | ("", "Event" | "Endpoints" | "ComponentStatus" | "Node")
            | ("discovery.k8s.io", "EndpointSlice")
            | ("coordination.k8s.io", "Lease" | "LeaseCandidate")
            | ("authentication.k8s.io" | "authorization.k8s.io", _)
            | ("certificates.k8s.io", "CertificateSigningRequest")
            | ("cert-manager.io", "CertificateRequest")
            | ("cilium.io", "CiliumIdentity" | "CiliumEndpoint" | "CiliumEndpointSlice")
            | ("kyverno.io" | "reports.kyverno.io" | "wgpolicyk8s.io", _)
    )
}

/// How far the first complete read of a watched kind has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Waiting,
    Failed,
    Done,
}

pub(crate) struct Supervisor {
    cluster: Cluster,
    stop: CancellationToken,
    running: HashMap<(String, String), (ApiResource, JoinHandle<()>)>,
}

impl Supervisor {
    pub(crate) fn new(cluster: Cluster, stop: CancellationToken) -> Self {
        Self { cluster, stop, running: HashMap::new() }
    }

    pub(crate) async fn run(mut self) {
        self.adjust();
        if self.running.is_empty() {
            self.cluster.inner.synced.send_replace(true);
        }
        let mut soon = Backoff::new(INCOMPLETE, INCOMPLETE_MAX);
        loop {
            // Of an incomplete answer nothing is believed to be gone, so it is soon asked for again. So is one that lags
            // behind the definitions: nothing would announce that it has caught up.
            let again = if !self.cluster.discovery().complete {
                INCOMPLETE
            } else if self.lags_behind() {
                soon.failed()
            } else {
                soon.reset();
                REDISCOVERY
            };
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = self.cluster.inner.again.notified() => {
                    for (_, (_, handle)) in self.running.drain() {
                        handle.abort();
                    }
                }
                () = self.cluster.inner.definitions.notified() => tokio::time::sleep(SETTLE).await,
                () = tokio::time::sleep(again) => {}
            }
            match self.cluster.rediscover().await {
                Ok(_) => self.adjust(),
                Err(error) => {
                    tracing::warn!(%error, "The cluster did not say what it serves; asking again.");
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    self.cluster.inner.definitions.notify_one();
                }
            }
        }
        for (_, handle) in self.running.into_values() {
            handle.abort();
        }
    }

    /// A definition is established, and its kind is not among those that the server says it serves.
    fn lags_behind(&self) -> bool {
        let discovery = self.cluster.discovery();
        let definitions =
            self.cluster.inner.cache.of_kind("apiextensions.k8s.io", "CustomResourceDefinition");
        definitions.iter().filter_map(|live| live.object()).any(|definition| {
            let (spec, conditions) = (&definition["spec"], definition["status"]["conditions"].as_array());
            let established = conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
            let group = spec["group"].as_str().unwrap_or_default();
            let kind = spec["names"]["kind"].as_str().unwrap_or_default();
            let served = |version: &serde_json::Value| version["served"] == true;
            established
                && definition["metadata"]["deletionTimestamp"].is_null()
                && spec["versions"].as_array().is_some_and(|versions| versions.iter().any(served))
                && discovery.preferred(group, kind).is_none()
        })
    }

    fn adjust(&mut self) {
        let discovery = self.cluster.discovery();
        let wanted: HashMap<(String, String), ApiResource> = discovery
            .watchable()
            .filter(|resource| !is_excluded(&resource.group, &resource.kind))
            .filter(|resource| resource.namespaced || !self.cluster.is_confined())
            .map(|resource| ((resource.group.clone(), resource.kind.clone()), resource.clone()))
            .collect();
        // Of an incomplete answer only additions are believed.
        let gone: Vec<_> = self
            .running
            .iter()
            .filter(|(key, (resource, _))| match wanted.get(*key) {
                Some(now) => now != resource,
                None => discovery.complete,
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            if let Some((_, handle)) = self.running.remove(&key) {
                handle.abort();
            }
            self.cluster.inner.kinds.write().expect("no panic while locked").remove(&key);
        }
        if discovery.complete {
            // Not only what was watched: our own writes bring in objects of a kind before its watch begins.
            let served =
                |key: &ObjectKey| self.cluster.discovery().preferred(&key.group, &key.kind).is_some();
            self.cluster.inner.cache.retain_kinds(served);
        }
        for (key, resource) in wanted {
            if self.running.contains_key(&key) {
                continue;
            }
            self.cluster
                .inner
                .kinds
                .write()
                .expect("no panic while locked")
                .insert(key.clone(), Reading::Waiting);
            let handle = tokio::spawn(crate::watch::run(self.cluster.clone(), resource.clone()));
            self.running.insert(key, (resource, handle));
        }
    }
}

impl Cluster {
    /// The first complete list of a kind is in the copy.
    pub(crate) fn was_read(&self, resource: &ApiResource) {
        self.record(resource, Reading::Done);
    }

    /// The first list of a kind failed: it stays unread, but the others need not wait for it.
    pub(crate) fn could_not_read(&self, resource: &ApiResource, error: &ClusterError) {
        if self.record(resource, Reading::Failed) == Some(Reading::Waiting) {
            tracing::warn!(
                kind = %resource.kind, group = %resource.group, %error,
                "A kind cannot be read; nothing of it will be thought gone."
            );
        }
    }

    /// Gives what was known before; a kind that is not watched any more stays forgotten.
    fn record(&self, resource: &ApiResource, now: Reading) -> Option<Reading> {
        let mut kinds = self.inner.kinds.write().expect("no panic while locked");
        let before = kinds
            .get_mut(&(resource.group.clone(), resource.kind.clone()))
            .map(|reading| std::mem::replace(reading, now));
        if kinds.values().all(|reading| *reading != Reading::Waiting) {
            self.inner.synced.send_replace(true);
        }
        before
    }
}
