//! What others may read of Applications beside their engine, whether it runs here or not. Nothing is changed by it.

use std::sync::Arc;

use serde_json::Value;
use slipway_crd::Application;
use slipway_gitops::{Comparison, ResourceKey};
use slipway_reconcile::{Key, Wake};
use tokio::sync::broadcast;

use super::live;
use super::memory::{Memories, Memory};
use super::observe::{Observed, Observer};
use crate::context::Context;

#[derive(Clone)]
pub(crate) struct View {
    pub(crate) observer: Arc<Observer>,
    pub(super) memories: Arc<Memories>,
    reconciled: broadcast::Sender<Arc<str>>,
}

impl View {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            observer: Arc::new(Observer::new(context)),
            memories: Arc::default(),
            reconciled: broadcast::Sender::new(256),
        }
    }

    /// Observes an Application as its engine does, from what that knows of the sources.
    pub(crate) async fn observe(&self, key: &Key, app: &Application) -> Observed {
        let mut memory = Memory::read_only(self.memories.head(key));
        self.observer.observe(app, Wake::STATE, &mut memory).await
    }

    /// The live objects of an Application and everything they own, for trees.
    pub(crate) fn family(&self, app: &Application, comparison: &Comparison) -> Vec<Value> {
        let permits = self.observer.permits();
        let Ok(to) = permits.clusters.destination(app) else { return Vec::new() };
        live::family(&to.cluster, &app.instance_name(permits.settings.namespace()), comparison)
    }

    /// What lies in the destination's namespace and belongs to nobody, where its project wants to know that.
    pub(crate) fn orphans(&self, app: &Application, observed: &Observed) -> Vec<ResourceKey> {
        let permits = self.observer.permits();
        match (&observed.project, permits.clusters.destination(app)) {
            (Some(project), Ok(to)) => permits.orphans(app, project, &to),
            _ => Vec::new(),
        }
    }

    /// The instances that are reconciled from now on, for those who show them.
    pub(crate) fn reconciles(&self) -> broadcast::Receiver<Arc<str>> {
        self.reconciled.subscribe()
    }

    pub(super) fn reconciled(&self, instance: impl FnOnce() -> String) {
        if self.reconciled.receiver_count() > 0 {
            let _ = self.reconciled.send(instance().into());
        }
    }
}
