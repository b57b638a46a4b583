//! Applications: what Git wants and what runs are compared, and brought together.
//!
//! The stations of one reconcile: [`reconcile`] reads the Application and drives the rest; [`observe`] renders the sources
//! ([`sources`]) and compares them with what runs; [`operate`] plans a sync and runs its [`steps`]; [`status`] says what
//! became of it. What differs is written down once, at the end. Decisions are made in `gitops`.

pub(crate) mod deletion;
pub(crate) mod events;
pub(crate) mod lookup;
pub(crate) mod observe;
pub(crate) mod operate;
pub(crate) mod permits;
pub(crate) mod reconcile;
pub(crate) mod server_side;
pub(crate) mod sources;
pub(crate) mod status;
pub(crate) mod steps;

use std::sync::Arc;
use std::time::Duration;

use slipway_cluster::Change;
use slipway_crd::names;
use slipway_reconcile::{Key, Kind, Reconciler, Requeue, Retry, Stop, Wake, Watch};

use super::APPLICATION;
use crate::engine::Engine;
use observe::IN_CLUSTER;

pub(crate) struct Applications(Arc<Engine>);

impl From<Arc<Engine>> for Applications {
    fn from(engine: Arc<Engine>) -> Self {
        Self(engine)
    }
}

impl Reconciler for Applications {
    const NAME: &'static str = "applications";
    const KIND: Kind = APPLICATION;
    const MANAGER: &'static str = names::FIELD_MANAGER;
    const RETRY: Retry = Retry::every(Duration::from_secs(2));

    fn workers(&self) -> usize {
        self.0.config.workers
    }

    fn watches() -> Vec<Watch<Self>> {
        vec![Watch::map(APPLICATION, itself).with(Wake::OBJECT), Watch::any(whoever_deployed_it)]
    }

    fn keys(&self) -> Vec<Key> {
        self.0.applications()
    }

    async fn reconcile(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        self.0.reconcile(key, wake).await
    }

    async fn released(&self, key: &Key) {
        self.0.release(key).await;
    }

    fn finished(&self, key: &Key, took: Duration) {
        let engine = &self.0;
        engine.metrics.reconciled(&key.namespace, IN_CLUSTER.server, took);
        if !engine.hydrating.awaits(key) {
            engine.reporter.reconciled(key);
        }
        if engine.reconciled.receiver_count() > 0 {
            let _ = engine.reconciled.send(engine.instance(key).into());
        }
    }
}

fn itself(applications: &Applications, change: &Change) -> Vec<Key> {
    let key = Key::of(APPLICATION, &change.key);
    key.into_iter().filter(|key| applications.0.governs(&key.namespace)).collect()
}

/// Objects say by annotation or label which Application they are of, or are owned by one that does.
fn whoever_deployed_it(applications: &Applications, change: &Change) -> Vec<Key> {
    let keys = change.trackers().map(|instance| applications.0.key_of_instance(instance));
    keys.filter(|key| applications.0.governs(&key.namespace)).collect()
}
