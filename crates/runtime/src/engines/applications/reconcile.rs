//! One reconcile of one Application: observe, compare, decide, drive the operation, write down what changed.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use slipway_crd::{Application, names};
use slipway_gitops::refresh::{self, Refresh};
use slipway_reconcile::{Key, Requeue, Stop, Wake};

use super::memory::Memory;
use super::observe::Observed;
use super::session::Session;
use super::{Applications, is_running, status};
use crate::report::view::Beside;
use crate::report::{report_application, report_resource};

impl Applications {
    pub(super) async fn reconcile_one(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        let mut memory = self.view.memories.take(key);
        let outcome = Box::pin(self.reconcile_with(key, wake, &mut memory)).await;
        match &outcome {
            Err(Stop::Gone) => self.forget(key, &memory).await,
            // What was thought to be done may have been refused: nothing of it is kept.
            Err(Stop::Fenced) => {
                memory.operation.progress = None;
                self.view.memories.put(key, Memory { seen: None, ..memory });
            }
            _ => self.view.memories.put(key, memory),
        }
        outcome
    }

    /// Another engine looks after it now, or nobody does, and what we know of it grows old.
    pub(super) async fn release(&self, key: &Key) {
        let memory = self.view.memories.take(key);
        match self.context.cluster().live(&key.object()) {
            None if !self.context.cluster().is_waiting(names::GROUP, "Application") => {
                self.forget(key, &memory).await
            }
            _ => self.lose_interest(key, &memory).await,
        }
    }

    async fn forget(&self, key: &Key, memory: &Memory) {
        self.lose_interest(key, memory).await;
        self.context.reporter.removed(key);
    }

    async fn lose_interest(&self, key: &Key, memory: &Memory) {
        let instance = self.context.inventory.instance(key);
        // Taking interest back asks the cluster nothing.
        let cluster = memory.destination.as_ref().map_or(self.context.cluster(), |to| &to.cluster);
        let _ = cluster.set_interest(&instance, Default::default()).await;
        cluster.watch_unowned(&instance, None);
    }

    async fn reconcile_with(&self, key: &Key, wake: Wake, memory: &mut Memory) -> Result<Requeue, Stop> {
        let Some(live) = self.context.cluster().live(&key.object()) else {
            if self.context.cluster().is_waiting(names::GROUP, "Application") {
                // Everything is being read again: what is not there yet is not gone.
                return Ok(Requeue::Again(Duration::from_millis(200)));
            }
            return Err(Stop::Gone);
        };
        if !self.context.settings.governs(&key.namespace) {
            self.lose_interest(key, memory).await;
            *memory = Memory::default();
            return Ok(Requeue::Never);
        }
        if memory.written.is_echo(&live, wake)
            && (!wake.state || memory.seen == Some(self.view.observer.fingerprint(key, memory)))
        {
            return Ok(Requeue::Unchanged);
        }
        memory.seen = None;
        let object = live.object().unwrap_or_default();
        let app: Application = match serde_json::from_value(object) {
            Ok(app) => app,
            Err(error) => {
                tracing::warn!(application = %key, %error, "An Application is not readable; correct its fields.");
                return Ok(Requeue::Unchanged);
            }
        };
        let owed = app.spec.source_hydrator.is_some()
            && self.hydrations.is_owed_by(key, wake, &live, memory.written.is(&live));
        let asked = refresh::requested(&app);
        let refresh = asked.is_some();
        let mut session =
            Session { key, saved: app.clone(), app, memory, refresh, finalizers: Vec::new(), again: None };
        if session.app.metadata.deletion_timestamp.is_some() {
            self.deleter.delete(&mut session).await?;
            return Ok(session.requeue());
        }
        if refresh::is_skipped(&session.app) {
            report_resource(&self.context, &session.app).await;
            return Ok(Requeue::Never);
        }
        let hard = wake.hard || asked == Some(Refresh::Hard);
        let wake = if refresh || is_unpinned_request(&session.app) {
            Wake { since: wake.since.max(wake.heard.or_else(|| Some(Instant::now()))), hard, ..wake }
        } else {
            wake
        };
        if owed {
            self.hydrations.hydrate_first(key, Wake { hard, ..wake });
            return Ok(Requeue::Unchanged);
        }
        if hard {
            session.memory.head.forget();
            session.memory.answers = Default::default();
        }
        let pushed = self.hydrations.pushed(key);
        self.compare_and_sync(&mut session, Wake { since: wake.since.max(pushed), ..wake }).await?;
        self.hydrations.compared(key, pushed);
        Ok(session.requeue())
    }

    /// Observes, drives the operation, writes down what changed, and passes it on.
    async fn compare_and_sync(&self, session: &mut Session<'_>, wake: Wake) -> Result<(), Stop> {
        let observed = Box::pin(self.view.observer.observe(&session.app, wake, session.memory)).await;
        if let Some(desired) = &observed.desired {
            let manifests = desired.with_origins().map(|(manifest, _)| manifest);
            session.finalizers = super::deletion::missing_finalizers(&session.app, manifests);
        }
        session.app.status = status::compared(&session.app, &observed, Timestamp::now());
        let observed = Box::pin(self.decide(session, observed)).await?;
        self.operator.recorder.save(session).await?;
        if let Some(at) = observed.again_at {
            session.requeue_at(at);
        }
        self.report(session, &observed).await;
        self.notices.wake(session.key);
        // Only a reconcile that began after the last change has seen everything; ours may have been overtaken.
        let now = self.view.observer.fingerprint(session.key, session.memory);
        session.memory.seen = observed.fingerprint.filter(|before| *before == now);
        Ok(())
    }

    /// The control plane hears of it, if there is one.
    async fn report(&self, session: &Session<'_>, observed: &Observed) {
        if !self.context.reporter.is_enabled() {
            return;
        }
        let family = self.view.family(&session.app, &observed.comparison);
        let beside = Beside { observed, family: &family, waiting: &session.memory.operation.waiting };
        report_application(&self.context, &session.app, Some(beside)).await;
    }
}

/// A new request that names no revision means the newest.
fn is_unpinned_request(app: &Application) -> bool {
    let sync = app.operation.as_ref().and_then(|operation| operation.sync.as_ref());
    !is_running(app) && sync.is_some_and(|sync| sync.revision.is_empty() && sync.revisions.is_empty())
}
