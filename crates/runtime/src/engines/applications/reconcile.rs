//! One reconcile of one Application: observe, compare, decide, drive the operation, write down what changed.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::{Application, Condition, Operation, OperationPhase, names};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::dependencies;
use slipway_gitops::refresh::{self, Refresh};
use slipway_gitops::{AutoSync, AutoSyncInput, InFlight, auto_sync_decision};
use slipway_reconcile::{Key, Requeue, Stop, Wake, added, merge_patch, save};

use super::observe::{IN_CLUSTER, Observed};
use super::status;
use crate::engine::{Engine, Memory};
use crate::engines::APPLICATION;
use crate::report::view::Beside;

/// The condition of an Application that waits for others.
const DEPENDENCY: &str = "DependencyWarning";
/// How often it is looked whether they are ready.
const OTHERS: Duration = Duration::from_secs(2);

/// An Application on its way through one reconcile.
pub(crate) struct Session<'a> {
    pub(crate) key: &'a Key,
    /// As the cluster has it.
    pub(crate) saved: Application,
    /// As it is to be.
    pub(crate) app: Application,
    pub(crate) memory: &'a mut Memory,
    /// A person asked for a refresh; the annotation goes when it is done.
    pub(crate) refresh: bool,
    /// Finalizers to be added, so that delete hooks run.
    pub(crate) finalizers: Vec<String>,
    /// When it is reconciled again although nothing happened.
    pub(crate) again: Option<Instant>,
}

impl Session<'_> {
    /// The earliest of all such times counts.
    pub(crate) fn requeue_at(&mut self, at: Instant) {
        self.again = Some(self.again.map_or(at, |before| before.min(at)));
    }

    pub(crate) fn requeue_after(&mut self, after: Duration) {
        self.requeue_at(Instant::now() + after);
    }

    pub(crate) fn requeue_at_time(&mut self, at: Option<Timestamp>) {
        let Some(at) = at else { return };
        let wait = at.duration_since(Timestamp::now());
        self.requeue_after(wait.try_into().unwrap_or_default());
    }

    fn requeue(&self) -> Requeue {
        self.again.map_or(Requeue::Never, Requeue::At)
    }
}

impl Engine {
    pub(crate) async fn reconcile(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        let mut memory = self.take_memory(key);
        let outcome = Box::pin(self.reconcile_with(key, wake, &mut memory)).await;
        match &outcome {
            Err(Stop::Gone) => self.forget(key, &memory).await,
            // What was thought to be done may have been refused: nothing of it is kept.
            Err(Stop::Fenced) => self.keep_memory(key, Memory { progress: None, seen: None, ..memory }),
            _ => self.keep_memory(key, memory),
        }
        outcome
    }

    /// Another engine looks after it now, or nobody does, and what we know of it grows old.
    pub(crate) async fn release(&self, key: &Key) {
        let memory = self.take_memory(key);
        match self.cluster.live(&key.object()) {
            None if !self.cluster.is_waiting(names::GROUP, "Application") => self.forget(key, &memory).await,
            _ => self.lose_interest(key, &memory).await,
        }
    }

    async fn forget(&self, key: &Key, memory: &Memory) {
        self.lose_interest(key, memory).await;
        self.reporter.removed(key);
    }

    async fn lose_interest(&self, key: &Key, memory: &Memory) {
        let instance = self.instance(key);
        // Taking interest back asks the cluster nothing.
        let cluster = memory.destination.as_ref().map_or(&self.cluster, |to| &to.cluster);
        let _ = cluster.set_interest(&instance, Default::default()).await;
        cluster.oversee(&instance, None);
    }

    async fn reconcile_with(&self, key: &Key, wake: Wake, memory: &mut Memory) -> Result<Requeue, Stop> {
        let Some(live) = self.cluster.live(&key.object()) else {
            if self.cluster.is_waiting(names::GROUP, "Application") {
                // Everything is being read again: what is not there yet is not gone.
                return Ok(Requeue::Again(Duration::from_millis(200)));
            }
            return Err(Stop::Gone);
        };
        if !self.governs(&key.namespace) {
            self.lose_interest(key, memory).await;
            *memory = Memory::default();
            return Ok(Requeue::Never);
        }
        if memory.written.is_echo(&live, wake)
            && (!wake.state || memory.seen == Some(self.fingerprint(key, memory)))
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
            && self.owes_hydration(key, wake, &live, memory.written.is(&live));
        let asked = refresh::requested(&app);
        let refresh = asked.is_some();
        let mut session =
            Session { key, saved: app.clone(), app, memory, refresh, finalizers: Vec::new(), again: None };
        if session.app.metadata.deletion_timestamp.is_some() {
            self.delete(&mut session).await?;
            return Ok(session.requeue());
        }
        if refresh::is_skipped(&session.app) {
            self.report_resource(&session.app).await;
            return Ok(Requeue::Never);
        }
        let hard = wake.hard || asked == Some(Refresh::Hard);
        let wake = if refresh || is_unpinned_request(&session.app) {
            Wake { since: wake.since.max(wake.heard.or_else(|| Some(Instant::now()))), hard, ..wake }
        } else {
            wake
        };
        if owed {
            self.hydrate_first(key, Wake { hard, ..wake });
            return Ok(Requeue::Unchanged);
        }
        if hard {
            session.memory.head.forget();
            session.memory.answers = Default::default();
        }
        let pushed = self.hydrating.pushed(key);
        self.compare_and_sync(&mut session, Wake { since: wake.since.max(pushed), ..wake }).await?;
        self.hydrating.compared(key, pushed);
        Ok(session.requeue())
    }

    /// Observes, drives the operation, writes down what changed, and passes it on.
    async fn compare_and_sync(&self, session: &mut Session<'_>, wake: Wake) -> Result<(), Stop> {
        let observed = Box::pin(self.observe(&session.app, wake, session.memory)).await;
        if let Some(desired) = &observed.desired {
            let manifests = desired.with_origins().map(|(manifest, _)| manifest);
            session.finalizers = super::deletion::missing_finalizers(&session.app, manifests);
        }
        session.app.status = status::compared(&session.app, &observed, Timestamp::now());
        let observed = Box::pin(self.decide(session, observed)).await?;
        self.save(session).await?;
        if let Some(at) = observed.again_at {
            session.requeue_at(at);
        }
        self.report(session, &observed).await;
        self.wake_notifications(session.key);
        // Only a reconcile that began after the last change has seen everything; ours may have been overtaken.
        let now = self.fingerprint(session.key, session.memory);
        session.memory.seen = observed.fingerprint.filter(|before| *before == now);
        Ok(())
    }

    /// The control plane hears of it, if there is one.
    async fn report(&self, session: &Session<'_>, observed: &Observed) {
        if !self.reporter.is_enabled() {
            return;
        }
        let family = self.family(&session.app, &observed.comparison);
        let beside = Beside { observed, family: &family, waiting: &session.memory.waiting };
        self.report_with(&session.app, Some(beside)).await;
    }

    /// Stands for everything in the cluster that a reconcile depends on, without reading any of it.
    pub(crate) fn fingerprint(&self, key: &Key, memory: &Memory) -> u64 {
        use std::hash::{Hash, Hasher};
        let cluster = memory.destination.as_ref().map_or(&self.cluster, |to| &to.cluster);
        let mut roots = cluster.tracked(&self.instance(key));
        roots.extend(memory.interest.iter().filter_map(|key| cluster.live(key)));
        if self.reporter.is_enabled() {
            roots.extend(cluster.descendants(&roots));
        }
        let mut versions: Vec<(&str, &str)> =
            roots.iter().map(|live| (live.uid.as_str(), live.resource_version.as_str())).collect();
        versions.sort_unstable();
        versions.dedup();
        let mut hasher = std::hash::DefaultHasher::new();
        versions.hash(&mut hasher);
        if let Some(namespace) = &memory.oversees {
            let mut unowned = cluster.unowned(namespace);
            unowned.sort_unstable();
            unowned.hash(&mut hasher);
        }
        self.surroundings().hash(&mut hasher);
        memory.destination.as_ref().map(|to| std::sync::Arc::as_ptr(&to.info()) as usize).hash(&mut hasher);
        hasher.finish()
    }

    /// Goes on with the operation under way, or starts the one that is due.
    async fn decide(&self, session: &mut Session<'_>, observed: Observed) -> Result<Observed, Stop> {
        let now = Timestamp::now();
        if is_running(&session.app) {
            if self.superseded(session, &observed, now)
                && let Some(state) = &mut session.app.status.operation_state
            {
                state.phase = OperationPhase::Terminating;
            }
            return self.operate(session, observed).await;
        }
        if session.app.operation.is_some() {
            self.begin(session, now);
            return self.operate(session, observed).await;
        }
        session.memory.waiting.clear();
        let decision = self.auto_sync(session, &observed, InFlight::Idle, now);
        let mut refused = Vec::new();
        let mut waiting = Vec::new();
        let others = self.waits_for_others(&session.app);
        match decision {
            // What drifted is repaired whoever else is unwell; what is new waits.
            AutoSync::Start { operation, .. } if is_whole(&operation) && !others.is_empty() => {
                session.requeue_after(OTHERS);
                session.memory.waiting.extend(others.iter().map(|waits| waits.message.clone()));
                waiting = others;
            }
            AutoSync::Start { operation, why } => {
                tracing::info!(application = %session.key, %why, "A sync starts.");
                session.app.operation = Some(*operation);
                let over = ["SyncError", DEPENDENCY];
                status::set_conditions(&mut session.app.status.conditions, &over, &[]);
                self.begin(session, now);
                return self.operate(session, observed).await;
            }
            AutoSync::Wait { until, why } => {
                session.requeue_at_time(until);
                session.memory.waiting.push(why);
            }
            AutoSync::Refuse { condition } => refused.push(condition),
            AutoSync::Skip { .. } | AutoSync::Supersede { .. } => {}
        }
        status::set_conditions(&mut session.app.status.conditions, &["SyncError"], &refused);
        status::set_conditions(&mut session.app.status.conditions, &[DEPENDENCY], &waiting);
        Ok(observed)
    }

    /// A condition that names the Applications that this one waits for.
    fn waits_for_others(&self, app: &Application) -> Vec<Condition> {
        let find = |name: &str| {
            let key = Key::new(APPLICATION, &app.metadata.namespace, name);
            self.application(&key).map(|(other, _)| other)
        };
        let Some(message) = dependencies::unmet(app, find) else { return Vec::new() };
        let known = app.status.conditions.iter().find(|c| c.kind == DEPENDENCY && c.message == message);
        vec![known.cloned().unwrap_or_else(|| Condition {
            kind: DEPENDENCY.into(),
            message,
            last_transition_time: Some(rfc3339(Timestamp::now())),
            ..Condition::default()
        })]
    }

    /// A newer revision takes the place of an automated operation that gets nowhere.
    fn superseded(&self, session: &Session<'_>, observed: &Observed, now: Timestamp) -> bool {
        let retrying = session.app.status.operation_state.as_ref().is_some_and(|s| s.finished_at.is_some());
        let in_flight = match &session.memory.progress {
            _ if retrying => InFlight::Idle,
            Some(_) if session.memory.awaiting_health => InFlight::AwaitingHealth,
            Some(_) => InFlight::Working,
            None => InFlight::Idle,
        };
        let decision = self.auto_sync(session, observed, in_flight, now);
        if let AutoSync::Supersede { why, .. } = &decision {
            tracing::info!(application = %session.key, %why, "The sync under way is ended.");
        }
        matches!(decision, AutoSync::Supersede { .. })
    }

    fn auto_sync(
        &self,
        session: &Session<'_>,
        observed: &Observed,
        in_flight: InFlight,
        now: Timestamp,
    ) -> AutoSync {
        let revisions = observed.desired.as_ref().map(|desired| desired.revisions()).unwrap_or_default();
        auto_sync_decision(AutoSyncInput {
            application: &session.app,
            comparison: &observed.comparison,
            revisions: &revisions,
            windows: observed.project.as_ref().map(|p| p.spec.sync_windows.as_slice()).unwrap_or_default(),
            cluster: session.memory.destination.as_ref().map_or(IN_CLUSTER, |to| to.names()),
            settings: &self.settings(),
            in_flight,
            now,
        })
    }

    /// Writes what differs, if the Application is still the one we looked at.
    pub(crate) async fn save(&self, session: &mut Session<'_>) -> Result<(), Stop> {
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
        session.memory.written.note(&saved.metadata.resource_version);
        session.refresh = false;
        session.finalizers.clear();
        self.record_events(&session.saved, &saved);
        session.app = saved.clone();
        session.saved = saved;
        Ok(())
    }
}

/// Everything is synced, not only what drifted.
fn is_whole(operation: &Operation) -> bool {
    operation.sync.as_ref().is_none_or(|sync| sync.resources.is_empty())
}

pub(crate) fn is_running(app: &Application) -> bool {
    let state = app.status.operation_state.as_ref();
    state.is_some_and(|state| state.phase.is_under_way())
}

/// A new request that names no revision means the newest.
fn is_unpinned_request(app: &Application) -> bool {
    let sync = app.operation.as_ref().and_then(|operation| operation.sync.as_ref());
    !is_running(app) && sync.is_some_and(|sync| sync.revision.is_empty() && sync.revisions.is_empty())
}
