//! ApplicationSets: generators make Applications.

mod answers;
pub(crate) mod aws;
pub(crate) mod http;
mod provider;
mod reach;
mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use slipway_cluster::{Change, Cluster};
use slipway_crd::names;
use slipway_reconcile::{Key, Kind, Reconciler, Requeue, Retry, Stop, Wake, Watch};

use super::{APPLICATION, APPLICATION_SET, Engine, Peers};
use crate::context::Context;
use crate::inventory::Inventory;
use crate::metrics::Metrics;
use crate::settings::CurrentSettings;
use answers::Answerer;
pub(crate) use reach::github_way;
pub(crate) use reconcile::names_repository;

pub(crate) struct ApplicationSets {
    cluster: Cluster,
    inventory: Arc<Inventory>,
    settings: Arc<CurrentSettings>,
    metrics: Arc<Metrics>,
    /// Who answers what generators ask.
    answerer: Answerer,
    /// An answer of a repository that is younger than this is not asked for again without a reason.
    poll_within: Duration,
}

impl Engine for ApplicationSets {
    fn new(context: &Context, _: &Peers) -> Self {
        Self {
            cluster: context.cluster().clone(),
            inventory: context.inventory.clone(),
            settings: context.settings.clone(),
            metrics: context.metrics.clone(),
            answerer: Answerer::new(context),
            poll_within: context.config.resync,
        }
    }
}

impl Reconciler for ApplicationSets {
    const NAME: &'static str = "application-sets";
    const KIND: Kind = APPLICATION_SET;
    const MANAGER: &'static str = names::FIELD_MANAGER;
    const RETRY: Retry = Retry::every(Duration::from_secs(10));

    fn workers(&self) -> usize {
        4
    }

    fn watches() -> Vec<Watch<Self>> {
        vec![
            Watch::map(APPLICATION_SET, itself).with(Wake::OBJECT),
            // An Application changed: its set counts it, and may wait for it.
            Watch::owned().with(Wake::OBJECT),
            Watch::map(APPLICATION, whoever_is_named_as_owner).with(Wake::OBJECT),
        ]
    }

    fn keys(&self) -> Vec<Key> {
        self.inventory.application_sets()
    }

    async fn reconcile(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        self.reconcile_one(key, wake).await
    }

    fn finished(&self, key: &Key, took: Duration) {
        self.metrics.set_reconciled(&key.namespace, &key.name, took);
    }
}

fn itself(sets: &ApplicationSets, change: &Change) -> Vec<Key> {
    let key = Key::of(APPLICATION_SET, &change.key);
    key.into_iter().filter(|key| sets.settings.governs_sets(&key.namespace)).collect()
}

/// A set that was deleted and made again has another uid than its Applications say, until it adopts them.
fn whoever_is_named_as_owner(sets: &ApplicationSets, change: &Change) -> Vec<Key> {
    if sets.settings.governs(&change.key.namespace) {
        sets.inventory.sets_of(&change.key)
    } else {
        Vec::new()
    }
}
