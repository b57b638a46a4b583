//! An Application on its way through one reconcile, and how it is written down.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::Cluster;
use slipway_crd::{Application, names};
use slipway_gitops::compare::rfc3339;
use slipway_reconcile::{EventWriter, Key, Requeue, Stop, added, merge_patch, save};

use super::events;
use super::memory::Memory;
use crate::clusters::IN_CLUSTER;
use crate::context::Context;
use crate::metrics::Metrics;

/// Who Argo CD says it was.
const COMPONENT: &str = "argocd-application-controller";

/// An Application on its way through one reconcile.
pub(super) struct Session<'a> {
    pub(super) key: &'a Key,
    /// As the cluster has it.
    pub(super) saved: Application,
    /// As it is to be.
    pub(super) app: Application,
    pub(super) memory: &'a mut Memory,
    /// A person asked for a refresh; the annotation goes when it is done.
    pub(super) refresh: bool,
    /// Finalizers to be added, so that delete hooks run.
    pub(super) finalizers: Vec<String>,
    /// When it is reconciled again although nothing happened.
    pub(super) again: Option<Instant>,
}

impl Session<'_> {
    /// The earliest of all such times counts.
    pub(super) fn requeue_at(&mut self, at: Instant) {
        self.again = Some(self.again.map_or(at, |before| before.min(at)));
    }

    pub(super) fn requeue_after(&mut self, after: Duration) {
        self.requeue_at(Instant::now() + after);
    }

    pub(super) fn requeue_at_time(&mut self, at: Option<Timestamp>) {
        let Some(at) = at else { return };
        let wait = at.duration_since(Timestamp::now());
        self.requeue_after(wait.try_into().unwrap_or_default());
    }

    pub(super) fn requeue(&self) -> Requeue {
        self.again.map_or(Requeue::Never, Requeue::At)
    }
}

/// Who writes Applications down, and tells of what that changed by Events and metrics.
pub(super) struct Recorder {
    pub(super) cluster: Cluster,
    events: Arc<EventWriter>,
    metrics: Arc<Metrics>,
}

impl Recorder {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            cluster: context.cluster().clone(),
            events: context.events.clone(),
            metrics: context.metrics.clone(),
        }
    }

    /// Writes what differs, if the Application is still the one we looked at.
    pub(super) async fn save(&self, session: &mut Session<'_>) -> Result<(), Stop> {
        let part = |app: &Application| json!({"status": app.status, "operation": app.operation});
        let patch = merge_patch(&part(&session.saved), &part(&session.app));
        if patch.is_none() && !session.refresh && session.finalizers.is_empty() {
            return Ok(());
        }
        let mut patch = patch.unwrap_or_else(|| json!({}));
        patch["status"]["reconciledAt"] = rfc3339(Timestamp::now()).into();
        let before = &session.saved.metadata;
        if let Some(added) = added(&before.finalizers, &session.finalizers) {
            patch["metadata"] = added["metadata"].clone();
        }
        if session.refresh {
            patch["metadata"]["annotations"][names::REFRESH] = Value::Null;
        }
        let version = &before.resource_version;
        let answer = save(&self.cluster, session.key, names::API_VERSION, patch, version).await?;
        let saved: Application = serde_json::from_value(answer).unwrap_or_else(|_| session.app.clone());
        session.memory.written.record(&saved.metadata.resource_version);
        session.refresh = false;
        session.finalizers.clear();
        self.record_events(&session.saved, &saved);
        session.app = saved.clone();
        session.saved = saved;
        Ok(())
    }

    /// Records what changed. `after` is what the cluster has now.
    fn record_events(&self, before: &Application, after: &Application) {
        let notes = events::between(before, after);
        if notes.is_empty() {
            return;
        }
        let metadata = &after.metadata;
        let about = json!({"apiVersion": names::API_VERSION, "kind": "Application", "metadata": {
            "namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid,
            "resourceVersion": metadata.resource_version}});
        for note in notes {
            if note.reason == "OperationCompleted" {
                let server = &after.spec.destination.server;
                self.metrics.sync(after, if server.is_empty() { IN_CLUSTER.server } else { server });
            }
            self.events.record(&about, COMPONENT, &note);
        }
    }
}
