//! Applications: what Git wants and what runs are compared, and brought together.
//!
//! The stations of one reconcile: [`reconcile`] reads the Application and drives the rest; [`observe`] takes the manifests
//! ([`manifests`], rendered by [`sources`]) and compares them with what runs ([`live`]); [`decide`] says whether a sync is due;
//! [`operate`] plans it and runs its [`steps`]; [`status`] says what became of it. What differs is written down by
//! [`session`]. Decisions are made in `gitops`.

mod batches;
mod decide;
mod deletion;
mod events;
mod live;
mod lookup;
pub(crate) mod manifests;
mod memory;
pub(crate) mod observe;
mod operate;
pub(crate) mod permits;
mod reconcile;
mod requested;
mod server_side;
mod session;
pub(crate) mod sources;
mod status;
mod steps;
mod view;

use std::sync::Arc;
use std::time::Duration;

use slipway_cluster::Change;
use slipway_crd::{Application, names};
use slipway_reconcile::{Key, Kind, Reconciler, Requeue, Retry, Stop, Wake, Watch};

use super::hydrator::Hydrations;
use super::notifications::Notices;
use super::{APPLICATION, Engine, Peers};
use crate::clusters::IN_CLUSTER;
use crate::context::Context;
pub(crate) use memory::Memory;
pub(crate) use view::View;

pub(crate) struct Applications {
    context: Context,
    /// What is remembered of each, and what others may read of it.
    view: View,
    operator: operate::Operator,
    deleter: deletion::Deleter,
    /// The engine that goes first where manifests are rendered to a branch.
    hydrations: Arc<Hydrations>,
    /// The engine that comes after each reconcile.
    notices: Arc<Notices>,
}

impl Engine for Applications {
    fn new(context: &Context, peers: &Peers) -> Self {
        let (view, recorder) = (peers.applications.clone(), Arc::new(session::Recorder::new(context)));
        let observer = view.observer.clone();
        Self {
            context: context.clone(),
            operator: operate::Operator { observer: observer.clone(), recorder: recorder.clone() },
            deleter: deletion::Deleter { observer, recorder },
            view,
            hydrations: peers.hydrations.clone(),
            notices: peers.notices.clone(),
        }
    }
}

impl Reconciler for Applications {
    const NAME: &'static str = "applications";
    const KIND: Kind = APPLICATION;
    const MANAGER: &'static str = names::FIELD_MANAGER;
    const RETRY: Retry = Retry::every(Duration::from_secs(2));

    fn workers(&self) -> usize {
        self.context.config.workers
    }

    fn watches() -> Vec<Watch<Self>> {
        vec![Watch::map(APPLICATION, itself).with(Wake::OBJECT), Watch::any(whoever_deployed_it)]
    }

    fn keys(&self) -> Vec<Key> {
        self.context.inventory.applications()
    }

    async fn reconcile(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        self.reconcile_one(key, wake).await
    }

    async fn released(&self, key: &Key) {
        self.release(key).await;
    }

    fn finished(&self, key: &Key, took: Duration) {
        let context = &self.context;
        context.metrics.reconciled(&key.namespace, IN_CLUSTER.server, took);
        if !self.hydrations.awaits(key) {
            context.reporter.reconciled(key);
        }
        self.view.reconciled(|| context.inventory.instance(key));
    }
}

fn itself(applications: &Applications, change: &Change) -> Vec<Key> {
    let key = Key::of(APPLICATION, &change.key);
    key.into_iter().filter(|key| applications.context.settings.governs(&key.namespace)).collect()
}

/// Objects say by annotation or label which Application they are of, or are owned by one that does.
fn whoever_deployed_it(applications: &Applications, change: &Change) -> Vec<Key> {
    let keys = change.trackers().map(|instance| applications.context.inventory.key_of_instance(instance));
    keys.filter(|key| applications.context.settings.governs(&key.namespace)).collect()
}

/// An operation is under way.
pub(crate) fn is_running(app: &Application) -> bool {
    let state = app.status.operation_state.as_ref();
    state.is_some_and(|state| state.phase.is_under_way())
}
