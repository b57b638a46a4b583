//! One look at one Application: observe, compare, decide, drive the operation, write down what changed.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{ClusterError, WriteOptions};
use slipway_crd::{Application, Condition, Operation, names};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::dependencies;
use slipway_gitops::refresh::{self, Refresh};
use slipway_gitops::{AutoSync, AutoSyncInput, InFlight, auto_sync_decision};

use crate::engine::{Engine, Memory};
use crate::observe::{IN_CLUSTER, Observed};
use crate::queue::{AppKey, Wake};
use crate::status;

/// The condition of an Application that waits for others.
const DEPENDENCY: &str = "DependencyWarning";
/// How often it is looked whether they are ready.
const OTHERS: Duration = Duration::from_secs(2);

/// Why a look ended early.
pub(crate) enum Stop {
    /// The Application changed under our hands: look again.
    Changed,
    /// It is gone.
    Gone,
    Cluster(ClusterError),
}

/// An Application on its way through one look.
pub(crate) struct Session<'a> {
    pub(crate) key: &'a AppKey,
    /// As the cluster has it.
    pub(crate) saved: Application,
    /// As it is to be.
    pub(crate) app: Application,
    pub(crate) memory: &'a mut Memory,
    /// A person asked for a refresh; the annotation goes when it is done.
    pub(crate) refresh: bool,
    /// The same for the hydrator.
    pub(crate) hydrate: bool,
    /// Finalizers to be added, so that delete hooks run.
    pub(crate) finalizers: Vec<String>,
}

impl Engine {
    pub(crate) async fn reconcile(&self, key: &AppKey, wake: Wake) {
        let mut memory = self.take_memory(key);
        match Box::pin(self.look(key, wake, &mut memory)).await {
            Ok(()) => self.keep_memory(key, memory),
            Err(Stop::Gone) => self.forget(key, &memory).await,
            Err(Stop::Changed) => {
                self.keep_memory(key, memory);
                self.queue.add(key.clone(), Wake { state: true, ..wake });
            }
            Err(Stop::Cluster(error)) if error.is_fenced() => {
                tracing::info!(application = %key, "The lease ran out under a look; whoever has it now goes on.");
                // What this look thought to have done may have been refused: nothing of it is kept.
                self.keep_memory(key, Memory { progress: None, seen: None, ..memory });
                self.queue.add(key.clone(), Wake { state: true, ..wake });
            }
            Err(Stop::Cluster(error)) => {
                tracing::warn!(application = %key, %error, "The status could not be written; trying again.");
                self.keep_memory(key, memory);
                self.queue.add_at(
                    key.clone(),
                    Instant::now() + Duration::from_secs(2),
                    Wake { state: true, ..wake },
                );
            }
        }
    }

    async fn forget(&self, key: &AppKey, memory: &Memory) {
        self.lose_interest(key, memory).await;
        self.reporter.removed(key);
    }

    async fn lose_interest(&self, key: &AppKey, memory: &Memory) {
        let instance = self.instance(key);
        // Taking interest back asks the cluster nothing.
        let cluster = memory.destination.as_ref().map_or(&self.cluster, |to| &to.cluster);
        let _ = cluster.set_interest(&instance, Default::default()).await;
        cluster.oversee(&instance, None);
        self.queue.clear_timers(key);
    }

    async fn look(&self, key: &AppKey, wake: Wake, memory: &mut Memory) -> Result<(), Stop> {
        let Some(live) = self.cluster.live(&self.application_key(key)) else {
            if self.cluster.is_waiting(names::GROUP, "Application") {
                // Everything is being read again: what is not there yet is not gone.
                self.queue.add_at(key.clone(), Instant::now() + Duration::from_millis(200), wake);
                return Ok(());
            }
            return Err(Stop::Gone);
        };
        if !self.governs(&key.namespace) || !self.shards.is_ours(key) {
            // Another engine looks after it, or nobody does, and what we know of it grows old.
            self.lose_interest(key, memory).await;
            *memory = Memory::default();
            return Ok(());
        }
        let own_echo = live.resource_version == memory.written && wake.since.is_none() && !wake.timer;
        if own_echo && (!wake.state || memory.seen == Some(self.fingerprint(key, memory))) {
            return Ok(());
        }
        memory.seen = None;
        let object = live.object().unwrap_or_default();
        let app: Application = match serde_json::from_value(object) {
            Ok(app) => app,
            Err(error) => {
                tracing::warn!(application = %key, %error, "An Application is not readable; correct its fields.");
                return Ok(());
            }
        };
        self.queue.clear_timers(key);
        let asked = refresh::requested(&app);
        let refresh = asked.is_some();
        let mut session =
            Session { key, saved: app.clone(), app, memory, refresh, hydrate: false, finalizers: Vec::new() };
        if session.app.metadata.deletion_timestamp.is_some() {
            return self.delete(&mut session).await;
        }
        if refresh::is_skipped(&session.app) {
            return Ok(());
        }
        let hard = wake.hard || asked == Some(Refresh::Hard);
        let wake = if refresh || is_unpinned_request(&session.app) {
            Wake { since: wake.since.max(wake.heard.or_else(|| Some(Instant::now()))), hard, ..wake }
        } else {
            wake
        };
        if hard {
            session.memory.head.forget();
            session.memory.answers = Default::default();
        }
        let wake = Box::pin(self.hydrate(&mut session, wake)).await?;
        let observed = Box::pin(self.observe(&session.app, wake, session.memory)).await;
        if let Some(desired) = &observed.desired {
            let manifests = desired.with_origins().map(|(manifest, _)| manifest);
            session.finalizers = crate::deletion::missing_finalizers(&session.app, manifests);
        }
        session.app.status = status::compared(&session.app, &observed, Timestamp::now());
        let observed = Box::pin(self.decide(&mut session, observed)).await?;
        self.save(&mut session).await?;
        let print_before = observed.fingerprint;
        if let Some(at) = observed.again_at {
            self.queue.add_at(key.clone(), at, Wake::STATE);
        }
        if self.reporter.is_enabled() {
            let family = self.family(&session.app, &observed.comparison);
            let git = self.renderer.git();
            let access = self.access();
            let place = self.place(&session.app);
            self.reporter
                .changed(&session.app, place, &observed, &family, &session.memory.waiting, git, &access)
                .await;
        }
        self.consider_telling(key);
        // Only a look that began after the last change has seen everything; ours may have been overtaken.
        let print = print_before.filter(|print| *print == self.fingerprint(key, session.memory));
        session.memory.seen = print;
        Ok(())
    }

    /// Stands for everything in the cluster that a look depends on, without reading any of it.
    pub(crate) fn fingerprint(&self, key: &AppKey, memory: &Memory) -> u64 {
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
                "Terminating".clone_into(&mut state.phase);
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
                self.queue.add_at(session.key.clone(), Instant::now() + OTHERS, Wake::STATE);
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
                self.wake_at(session.key, until);
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
            let key = AppKey { namespace: app.metadata.namespace.clone(), name: name.to_owned() };
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

    pub(crate) fn wake_at(&self, key: &AppKey, at: Option<Timestamp>) {
        let Some(at) = at else { return };
        let wait = at.duration_since(Timestamp::now()).unsigned_abs();
        let wait = if at <= Timestamp::now() { Duration::ZERO } else { wait };
        self.queue.add_at(key.clone(), Instant::now() + wait, Wake::STATE);
    }

    /// Writes what differs, if the Application is still the one we looked at.
    pub(crate) async fn save(&self, session: &mut Session<'_>) -> Result<(), Stop> {
        let part = |app: &Application| json!({"status": app.status, "operation": app.operation});
        let patch = status::merge_patch(&part(&session.saved), &part(&session.app));
        if patch.is_none() && !session.refresh && !session.hydrate && session.finalizers.is_empty() {
            return Ok(());
        }
        let mut patch = patch.unwrap_or_else(|| json!({}));
        patch["status"]["reconciledAt"] = rfc3339(Timestamp::now()).into();
        patch["metadata"]["resourceVersion"] = session.saved.metadata.resource_version.clone().into();
        if !session.finalizers.is_empty() {
            let all = [session.saved.metadata.finalizers.as_slice(), &session.finalizers].concat();
            patch["metadata"]["finalizers"] = json!(all);
        }
        for (asked, annotation) in [(session.refresh, names::REFRESH), (session.hydrate, names::HYDRATE)] {
            if asked {
                patch["metadata"]["annotations"][annotation] = Value::Null;
            }
        }
        let target = json!({
            "apiVersion": names::API_VERSION, "kind": "Application",
            "metadata": {"namespace": session.key.namespace, "name": session.key.name},
        });
        let answer: Value = match self.cluster.merge(&target, &patch, WriteOptions::default()).await {
            Ok(answer) => answer,
            Err(error) if error.is_conflict() => {
                // The copy is behind; the next look must not see the same again.
                let _ = self.cluster.read(&self.application_key(session.key)).await;
                return Err(Stop::Changed);
            }
            Err(error) if error.is_not_found() => return Err(Stop::Gone),
            Err(error) => return Err(Stop::Cluster(error)),
        };
        let saved: Application = serde_json::from_value(answer).unwrap_or_else(|_| session.app.clone());
        session.memory.written.clone_from(&saved.metadata.resource_version);
        (session.refresh, session.hydrate) = (false, false);
        session.finalizers.clear();
        self.tell(&session.saved, &saved);
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
    state.is_some_and(|state| matches!(state.phase.as_str(), "Running" | "Terminating"))
}

/// A new request that names no revision means the newest.
fn is_unpinned_request(app: &Application) -> bool {
    let sync = app.operation.as_ref().and_then(|operation| operation.sync.as_ref());
    !is_running(app) && sync.is_some_and(|sync| sync.revision.is_empty() && sync.revisions.is_empty())
}
