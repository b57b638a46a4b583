//! A remote cluster is connected, watched, and connected again, until its Secret changes.

use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use slipway_cluster::{Change, Cluster, ClusterConfig, Given, Reach};
use slipway_model::Backoff;
use slipway_net::Rules;
use slipway_reconcile::{Task, Wake};
use tokio_util::sync::CancellationToken;

use super::{Destination, State};
use crate::inventory::Inventory;
use crate::metrics::Metrics;
use crate::settings::{CurrentSettings, field};

/// Between two tries to reach a cluster, at most.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Who hears of remote clusters: the Applications that deploy to them.
pub(crate) struct Listener {
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) settings: Arc<CurrentSettings>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) applications: Arc<Task>,
    /// Where a Secret may say that a cluster is.
    pub(crate) egress: Rules,
}

impl Listener {
    /// Whoever goes there has waited for it.
    fn connected(&self, server: &str, name: &str) {
        for key in self.inventory.applications() {
            if let Some((app, _)) = self.inventory.application(&key)
                && (app.spec.destination.server.trim_end_matches('/') == server
                    || app.spec.destination.name == name)
            {
                self.applications.wake(key, Wake::STATE);
            }
        }
    }

    fn changed(&self, server: &str, changes: &[Change]) {
        self.metrics.cluster_events(server, changes.len());
        for instance in changes.iter().flat_map(Change::trackers) {
            let app = self.inventory.key_of_instance(instance);
            if self.settings.governs(&app.namespace) {
                self.applications.wake(app, Wake::STATE);
            }
        }
    }
}

/// The rules for what is asked because somebody named it, as the room `cluster` puts them.
pub(crate) fn reach(egress: &Rules) -> Reach {
    let rules = egress.clone();
    Reach(Arc::new(move |host, address| rules.allow(host, address)))
}

pub(super) fn config(
    server: &str,
    data: &serde_json::Value,
    egress: &Rules,
) -> Result<ClusterConfig, String> {
    if !server.starts_with("https://") && !server.starts_with("http://") {
        return Err("`server` must be an https address".into());
    }
    let given = Given::parse(server, &field(data, "config").unwrap_or_default())?;
    let mut config = ClusterConfig::new(None);
    config.given = Some(Arc::new(given));
    config.reach = Some(reach(egress));
    config.subscriptions = crate::engines::subscriptions_elsewhere();
    let namespaces = field(data, "namespaces").unwrap_or_default();
    config.namespaces =
        namespaces.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    config.cluster_resources = field(data, "clusterResources").as_deref() == Some("true");
    config.request_timeout = Duration::from_secs(20);
    Ok(config)
}

/// One remote cluster, followed until its Secret changes.
pub(super) struct Following {
    pub(super) listener: Arc<Listener>,
    pub(super) config: ClusterConfig,
    pub(super) server: String,
    pub(super) name: String,
    pub(super) state: Arc<RwLock<State>>,
    pub(super) stop: CancellationToken,
}

impl Following {
    pub(super) async fn run(self) {
        let Some(destination) = self.connect().await else { return };
        let destination = Arc::new(destination);
        *self.state.write().expect("no panic while locked") = State::Here(destination.clone());
        tracing::info!(server = %self.server, "A cluster is connected.");
        self.listener.connected(&self.server, &self.name);
        loop {
            let changes = tokio::select! {
                () = self.stop.cancelled() => return,
                changes = destination.cluster.changes() => changes,
            };
            self.listener.changed(&self.server, &changes);
        }
    }

    /// `None`: it was time to stop.
    async fn connect(&self) -> Option<Destination> {
        let mut backoff = Backoff::new(Duration::from_secs(1), RETRY_MAX);
        loop {
            let config = ClusterConfig { tracking: self.listener.settings.tracking(), ..self.config.clone() };
            let began = Instant::now();
            let tried = async {
                let cluster = Cluster::connect(config).await?;
                let version = cluster.version().await?;
                Ok::<_, slipway_cluster::ClusterError>((cluster, version))
            };
            let connected = tokio::select! {
                () = self.stop.cancelled() => return None,
                connected = tried => connected,
            };
            match connected {
                Ok((cluster, version)) => {
                    cluster.start(self.stop.clone()).await;
                    if self.stop.is_cancelled() {
                        return None;
                    }
                    return Some(Destination::new(cluster, &self.server, &self.name, version));
                }
                Err(error) => {
                    if backoff.failures() == 0 {
                        tracing::warn!(server = %self.server, %error, after = ?began.elapsed(), "A cluster cannot be used; it is tried again.");
                    }
                    *self.state.write().expect("no panic while locked") = State::Away(error.to_string());
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep(backoff.failed()) => {}
            }
        }
    }
}
