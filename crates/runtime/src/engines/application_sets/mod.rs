//! ApplicationSets: generators make Applications.

mod answers;
mod aws;
pub(crate) mod http;
mod provider;
mod reach;
mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use slipway_cluster::Change;
use slipway_crd::names;
use slipway_reconcile::{Key, Kind, Reconciler, Requeue, Retry, Stop, Wake, Watch};

use super::{APPLICATION, APPLICATION_SET};
use crate::engine::Engine;
pub(crate) use reach::github_way;

pub(crate) struct ApplicationSets(Arc<Engine>);

impl From<Arc<Engine>> for ApplicationSets {
    fn from(engine: Arc<Engine>) -> Self {
        Self(engine)
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
        self.0.application_sets()
    }

    async fn reconcile(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        self.0.reconcile_set(key, wake).await
    }

    fn finished(&self, key: &Key, took: Duration) {
        self.0.metrics.set_reconciled(&key.namespace, &key.name, took);
    }
}

fn itself(sets: &ApplicationSets, change: &Change) -> Vec<Key> {
    let key = Key::of(APPLICATION_SET, &change.key);
    key.into_iter().filter(|key| sets.0.governs_sets(&key.namespace)).collect()
}

/// A set that was deleted and made again has another uid than its Applications say, until it adopts them.
fn whoever_is_named_as_owner(sets: &ApplicationSets, change: &Change) -> Vec<Key> {
    if sets.0.governs(&change.key.namespace) { sets.0.sets_of(&change.key) } else { Vec::new() }
}
