//! Changes of the home cluster: they go to the engines, and settings are read again when they are among them.

use std::sync::Arc;
use std::time::Duration;

use slipway_cluster::ObjectKey;
use slipway_crd::names;
use slipway_reconcile::{Shell, Task, Wake};

use crate::clusters::{IN_CLUSTER, Listener};
use crate::context::Context;
use crate::engines::notifications::{self, Notices};
use crate::engines::{ApplicationSets, Applications};
use crate::settings;

/// ConfigMaps that say how the engines work.
const SETTINGS: [&str; 6] = [
    "argocd-cm",
    "argocd-cmd-params-cm",
    "argocd-tls-certs-cm",
    settings::KEYS,
    "argocd-ssh-known-hosts-cm",
    notifications::CONFIG,
];

/// Who reads settings again, and wakes whoever goes by them.
pub(crate) struct Changes {
    context: Context,
    notices: Arc<Notices>,
    applications: Arc<Task>,
    sets: Arc<Task>,
    /// Hears of the clusters that Secrets describe.
    listener: Arc<Listener>,
}

impl Changes {
    pub(crate) fn new(context: Context, notices: Arc<Notices>) -> Self {
        let applications = context.tasks.of::<Applications>();
        let listener = Listener {
            inventory: context.inventory.clone(),
            settings: context.settings.clone(),
            metrics: context.metrics.clone(),
            applications: applications.clone(),
            egress: context.config.egress.clone(),
        };
        let sets = context.tasks.of::<ApplicationSets>();
        Self { context, notices, applications, sets, listener: Arc::new(listener) }
    }

    /// Hands changes of objects to the engines, for ever.
    pub(crate) async fn dispatch(self, shell: Arc<Shell>) {
        let cluster = self.context.cluster();
        let mut settings = false;
        loop {
            // Settings that are being read again are waited for instead of being thought away.
            let wait = if settings { Duration::from_millis(100) } else { Duration::from_secs(3600) };
            let changes = tokio::time::timeout(wait, cluster.changes()).await.unwrap_or_default();
            self.context.metrics.cluster_events(IN_CLUSTER.server, changes.len());
            for change in &changes {
                shell.dispatch(change);
                settings |= is_setting(&change.key, self.context.settings.namespace());
            }
            let unread = ["ConfigMap", "Secret"].iter().any(|kind| cluster.is_waiting("", kind));
            if settings && !unread {
                settings = false;
                self.reload();
                self.wake_all();
            }
        }
    }

    /// Reads settings, credentials and clusters.
    pub(crate) fn reload(&self) {
        let Context { config, settings, clusters, .. } = &self.context;
        settings.reload(self.context.cluster(), &config.egress);
        self.notices.reload(self.context.cluster(), settings.namespace());
        for destination in clusters.all() {
            destination.cluster.track_by(settings.tracking());
        }
        clusters.follow(&self.listener);
    }

    fn wake_all(&self) {
        for key in self.context.inventory.applications() {
            self.applications.wake(key, Wake::STATE);
        }
        // Secrets are clusters too, and projects say what may be generated.
        for key in self.context.inventory.application_sets() {
            self.sets.wake(key, Wake::STATE);
        }
    }
}

/// Settings, credentials, and what else every engine goes by.
fn is_setting(key: &ObjectKey, namespace: &str) -> bool {
    let ours = key.namespace == namespace;
    match (key.group.as_str(), key.kind.as_str()) {
        (names::GROUP, "AppProject") => ours,
        ("", "ConfigMap") => ours && SETTINGS.contains(&key.name.as_str()),
        // Which Secrets are repositories is written on them, and a deleted one can no longer be asked.
        ("", "Secret") => ours,
        _ => false,
    }
}
