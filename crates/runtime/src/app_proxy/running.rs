//! What the app-proxy reads of the runtime, and whom it gives orders: an order is a patch of the Application, which the
//! control plane hears of before whoever gave it is answered.

use std::sync::Arc;

use slipway_api::Client;
use slipway_cluster::Cluster;
use slipway_crd::Application;
use slipway_reconcile::Key;

use super::git::Renewals;
use crate::Config;
use crate::context::Context;
use crate::engines::applications::View;
use crate::engines::applications::permits::Permits;
use crate::inventory::Inventory;
use crate::report::Reporter;
use crate::settings::CurrentSettings;
use crate::webhook::Webhooks;

pub(crate) struct Running {
    /// The control plane, which decides who may; none: nobody may.
    pub(super) server: Option<Client>,
    pub(super) cluster: Cluster,
    /// For where it may connect to, and where files are put for a moment.
    pub(super) config: Arc<Config>,
    pub(super) inventory: Arc<Inventory>,
    pub(super) settings: Arc<CurrentSettings>,
    pub(super) reporter: Arc<Reporter>,
    pub(super) view: View,
    /// Which of the runtime's processes this is.
    pub(super) process: String,
    /// Whose Git tokens are being renewed.
    pub(super) renewals: Renewals,
    /// Where the request router brings what Git providers say.
    pub(crate) webhooks: Arc<Webhooks>,
}

impl Running {
    pub(crate) fn new(context: &Context, view: View, webhooks: Arc<Webhooks>) -> Self {
        Self {
            server: context.config.server.clone(),
            cluster: context.cluster().clone(),
            config: context.config.clone(),
            inventory: context.inventory.clone(),
            settings: context.settings.clone(),
            reporter: context.reporter.clone(),
            view,
            process: context.shards.replica().to_owned(),
            renewals: Renewals::default(),
            webhooks,
        }
    }

    /// The Application, if it is there and ours.
    pub(super) fn application(&self, key: &Key) -> Option<Application> {
        let found = self.inventory.application(key).filter(|_| self.settings.governs(&key.namespace));
        found.map(|(app, _)| app)
    }

    pub(super) fn permits(&self) -> &Permits {
        self.view.observer.permits()
    }
}
