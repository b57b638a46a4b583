//! Notifications on the shell: woken after each reconcile of an Application.

use std::time::Duration;

use slipway_crd::names;
use slipway_reconcile::{Key, Kind, Reconciler, Requeue, Retry, Stop, Wake, Watch};

use super::Notifier;
use crate::context::Context;
use crate::engines::{APPLICATION, Engine, Peers};

impl Engine for Notifier {
    fn new(context: &Context, peers: &Peers) -> Self {
        Self {
            notices: peers.notices.clone(),
            cluster: context.cluster().clone(),
            inventory: context.inventory.clone(),
            egress: context.config.egress.clone(),
        }
    }
}

impl Reconciler for Notifier {
    const NAME: &'static str = "notifications";
    const KIND: Kind = APPLICATION;
    const MANAGER: &'static str = names::FIELD_MANAGER;
    /// A service that did not take a message is asked again after this time.
    const RETRY: Retry = Retry::every(Duration::from_secs(60));
    /// A message that was sent was sent, whoever holds the Application now: refusing to note it would send it twice.
    const FENCED: bool = false;

    fn watches() -> Vec<Watch<Self>> {
        Vec::new()
    }

    /// What is due is found by the reconciles of the Applications.
    fn keys(&self) -> Vec<Key> {
        Vec::new()
    }

    async fn reconcile(&self, key: &Key, _: Wake) -> Result<Requeue, Stop> {
        self.notify(key).await
    }
}
