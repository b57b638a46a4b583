//! The services that engines share. Whoever needs one of them is given that one; an engine takes its own from here when it
//! is made. What only one engine knows is in the folder of that engine.

use std::sync::Arc;

use slipway_cluster::Cluster;
use slipway_reconcile::{EventWriter, Shards, Tasks};
use slipway_source::Renderer;

use crate::Config;
use crate::clusters::{Clusters, Destination, IN_CLUSTER};
use crate::inventory::Inventory;
use crate::metrics::Metrics;
use crate::report::Reporter;
use crate::settings::CurrentSettings;

#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) settings: Arc<CurrentSettings>,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) renderer: Arc<Renderer>,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) metrics: Arc<Metrics>,
    /// Events on their way to the cluster.
    pub(crate) events: Arc<EventWriter>,
    /// The engines' queues and how they fare.
    pub(crate) tasks: Arc<Tasks>,
    /// Which objects are this process's to look after.
    pub(crate) shards: Arc<Shards>,
}

impl Context {
    pub(crate) fn new(config: Config, cluster: Cluster, renderer: Renderer, kube_version: String) -> Self {
        let home = Destination::new(cluster.clone(), IN_CLUSTER.server, IN_CLUSTER.name, kube_version);
        let settings = Arc::new(CurrentSettings::new(&config.namespace));
        Self {
            inventory: Arc::new(Inventory::new(cluster, settings.clone())),
            settings,
            clusters: Arc::new(Clusters::new(Arc::new(home))),
            renderer: Arc::new(renderer),
            reporter: Arc::new(Reporter::new(&config)),
            metrics: Arc::default(),
            events: Arc::default(),
            tasks: Arc::default(),
            shards: Arc::new(Shards::new(config.sharing.clone())),
            config: Arc::new(config),
        }
    }

    /// The cluster that we run in.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.clusters.home().cluster
    }
}
