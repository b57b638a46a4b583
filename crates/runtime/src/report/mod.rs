//! Report, second half: the control plane hears what changed, as state, never as a story.
//!
//! In: custom resources of any kind, and of Applications what their engine observed beside them. Out: entities in one envelope
//! ([`send`]), which wait in a file until they were heard ([`outbox`]). Sending twice is sending once; at the beginning, and where the
//! control plane has lost something, everything is sent. Processes that share the objects each report their own part. Where an
//! engine is switched off, its kind is reported from the custom resources alone ([`engines`]).

pub(crate) mod clusters;
pub(crate) mod engines;
mod health;
mod outbox;
pub(crate) mod outward;
mod queue;
mod releases;
mod results;
mod rollouts;
pub(crate) mod send;
mod summary;
pub(crate) mod tree;
pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use slipway_api::application as wire;
use slipway_api::report::{ApplicationSet, Entity, EntityName, EntityState, ReportedCluster};
use slipway_crd::{Application, ObjectMeta};
use slipway_reconcile::{Key, Share};
use slipway_source::GitCache;
use tokio::sync::{Notify, broadcast, watch};

use crate::Config;
use crate::context::Context;
use crate::engines::APPLICATION;
use crate::settings::RepositoryAccess;

pub(crate) struct Reporter {
    enabled: bool,
    inner: Mutex<Inner>,
    signal: Notify,
    /// The number of the last body.
    sequence: send::Sequence,
    /// How many orders there were, and how many of them the control plane knows of.
    orders: AtomicU64,
    told: watch::Sender<u64>,
    /// Which Applications have something new to say, for those who look at one.
    news: broadcast::Sender<Key>,
    queue: queue::Queue,
}

/// Whoever is further behind looks at everything again.
const NEWS: usize = 256;

#[derive(Default)]
struct Inner {
    known: BTreeMap<Key, Known>,
    changed: BTreeSet<Key>,
    removed: BTreeSet<Key>,
    /// What was reconciled since the start, whatever was found.
    reconciled: BTreeSet<Key>,
    /// Operations that were asked for through us and that no reconcile has seen yet.
    ordered: BTreeMap<Key, (Instant, wire::Operation)>,
}

/// A custom resource as it was last reported.
#[derive(PartialEq)]
struct Known {
    uid: String,
    resource_version: String,
    body: Body,
}

/// What each kind has to say.
#[derive(PartialEq)]
enum Body {
    Application(Box<wire::Application>),
    ApplicationSet(ApplicationSet),
    Cluster(ReportedCluster),
}

impl Known {
    fn new(metadata: &ObjectMeta, body: Body) -> Self {
        Self { uid: metadata.uid.clone(), resource_version: metadata.resource_version.clone(), body }
    }

    fn entity(&self, key: &Key) -> Entity {
        let (state, body) = match &self.body {
            Body::Application(app) => (state_of(app), serde_json::to_value(app)),
            Body::ApplicationSet(set) => (engines::set_state(set), serde_json::to_value(set)),
            Body::Cluster(cluster) => (clusters::state(cluster), serde_json::to_value(cluster)),
        };
        let EntityName { kind, namespace, name } = entity_name(key);
        let (uid, resource_version) = (self.uid.clone(), self.resource_version.clone());
        // Nothing in these types can fail to be JSON.
        let mut body = body.unwrap_or_default();
        outward::mask(&mut body);
        Entity { kind, namespace, name, uid, resource_version, state: outward::masked(state), body }
    }
}

fn entity_name(key: &Key) -> EntityName {
    EntityName { kind: key.kind.to_string(), namespace: key.namespace.clone(), name: key.name.clone() }
}

fn state_of(app: &wire::Application) -> EntityState {
    EntityState {
        health: app.health_status.to_string(),
        sync: app.sync_status.to_string(),
        phase: app.operation.as_ref().map(|operation| operation.phase.clone()).unwrap_or_default(),
        message: app.summary.clone(),
    }
}

/// What changed since the round before.
#[derive(Default)]
struct Round {
    /// Without an entity: it is gone.
    changes: Vec<(EntityName, Option<Entity>)>,
    /// Which orders it tells of.
    ordered: u64,
}

/// How long whoever asked for an operation waits for the control plane to hear of it.
const ORDER_TOLD: Duration = Duration::from_secs(5);
/// An operation that no reconcile has seen for so long was taken back by somebody.
const ORDER_UNSEEN: Duration = Duration::from_secs(30);

impl Reporter {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            enabled: config.server.is_some(),
            inner: Mutex::default(),
            signal: Notify::new(),
            sequence: send::Sequence::default(),
            orders: AtomicU64::new(0),
            told: watch::Sender::new(0),
            news: broadcast::Sender::new(NEWS),
            queue: queue::Queue::default(),
        }
    }

    /// How reporting fares, for metrics.
    pub(crate) fn queue(&self) -> &queue::Queue {
        &self.queue
    }

    /// False without a control plane: nobody wants to hear anything.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Takes the new state of an Application in; nothing happens when it is as before. Without `beside`, the custom resource
    /// alone is reported.
    pub(crate) async fn application(
        &self,
        app: &Application,
        place: view::Place,
        beside: Option<view::Beside<'_>>,
        git: &Arc<GitCache>,
        access: &RepositoryAccess,
    ) {
        let key = crate::engines::key_of(app);
        let mut wire = view::application(app, place, beside);
        view::name_commits(app, &mut wire, git, access).await;
        let mut inner = self.inner.lock().expect("no panic while locked");
        // A reconcile that began before the order does not take it back.
        if let Some((at, ordered)) = inner.ordered.get(&key) {
            let seen = wire.operation.as_ref().is_some_and(|seen| seen.id == ordered.id);
            if seen || at.elapsed() > ORDER_UNSEEN {
                inner.ordered.remove(&key);
            } else {
                wire.operation = Some(ordered.clone());
            }
        }
        if let Some(Known { body: Body::Application(known), .. }) = inner.known.get(&key) {
            wire.observed_at.clone_from(&known.observed_at);
            if **known == wire {
                return;
            }
        }
        wire.observed_at = jiff::Timestamp::now().to_string();
        drop(inner);
        self.changed(key, Known::new(&app.metadata, Body::Application(Box::new(wire))));
    }

    /// As it was last reported, if this process looks after it.
    pub(crate) fn reported(&self, key: &Key) -> Option<wire::Application> {
        match &self.inner.lock().expect("no panic while locked").known.get(key)?.body {
            Body::Application(app) => Some(outward::masked((**app).clone())),
            _ => None,
        }
    }

    /// Which Applications say something new from now on, or are gone.
    pub(crate) fn news(&self) -> broadcast::Receiver<Key> {
        self.news.subscribe()
    }

    fn tell(&self, key: Key) {
        if self.news.receiver_count() > 0 {
            let _ = self.news.send(key);
        }
    }

    /// Takes the new state of anything in.
    fn changed(&self, key: Key, new: Known) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        if inner.known.get(&key).is_some_and(|known| known.body == new.body && known.uid == new.uid) {
            return;
        }
        inner.removed.remove(&key);
        inner.changed.insert(key.clone());
        inner.known.insert(key.clone(), new);
        drop(inner);
        self.signal.notify_one();
        self.tell(key);
    }

    /// An operation was asked for: the control plane hears of it before whoever asked is answered. Gives up after a
    /// while; then it hears of it with the next reconcile.
    pub(crate) async fn ordered(&self, key: &Key, operation: wire::Operation) {
        let number = {
            let mut inner = self.inner.lock().expect("no panic while locked");
            let Some(Known { body: Body::Application(known), .. }) = inner.known.get_mut(key) else { return };
            known.operation = Some(operation.clone());
            summary::REQUESTED.clone_into(&mut known.summary);
            known.observed_at = jiff::Timestamp::now().to_string();
            inner.ordered.insert(key.clone(), (Instant::now(), operation));
            inner.changed.insert(key.clone());
            self.orders.fetch_add(1, Ordering::SeqCst) + 1
        };
        self.signal.notify_one();
        self.tell(key.clone());
        let mut told = self.told.subscribe();
        let _ = tokio::time::timeout(ORDER_TOLD, told.wait_for(|told| *told >= number)).await;
    }

    pub(crate) fn reconciled(&self, key: &Key) {
        if self.enabled {
            self.inner.lock().expect("no panic while locked").reconciled.insert(key.clone());
        }
    }

    pub(crate) fn removed(&self, key: &Key) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        inner.changed.remove(key);
        inner.ordered.remove(key);
        if inner.known.remove(key).is_some() {
            inner.removed.insert(key.clone());
            drop(inner);
            self.signal.notify_one();
            self.tell(key.clone());
        }
    }

    /// What changed of this process's part; the rest is for others to tell.
    fn take(&self, share: &Share) -> Round {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let changed = std::mem::take(&mut inner.changed);
        let removed = std::mem::take(&mut inner.removed);
        let removed = removed.iter().filter(|key| share.holds(key)).map(|key| (entity_name(key), None));
        let known = |key: &Key| Some((entity_name(key), Some(inner.known.get(key)?.entity(key))));
        let changed = changed.iter().filter(|key| share.holds(key)).filter_map(known);
        let ordered = self.orders.load(Ordering::SeqCst);
        Round { changes: removed.chain(changed).collect(), ordered }
    }

    /// Everything that this process has to tell of.
    fn all(&self, share: &Share) -> Vec<Entity> {
        let inner = self.inner.lock().expect("no panic while locked");
        let ours = inner.known.iter().filter(|(key, _)| share.holds(key));
        ours.map(|(key, known)| known.entity(key)).collect()
    }

    /// Others look after the rest now: what is known of it grows old.
    fn keep_only(&self, share: &Share) {
        let mut inner = self.inner.lock().expect("no panic while locked");
        let is_other = |key: &Key| key.kind == APPLICATION && !share.holds(key);
        inner.known.retain(|key, _| !is_other(key));
        inner.changed.retain(|key| !is_other(key));
        inner.removed.retain(|key| share.holds(key));
        inner.reconciled.retain(|key| !is_other(key));
    }

    /// Whether all of these were reconciled since the start.
    fn has_reconciled(&self, keys: &[Key]) -> bool {
        let inner = self.inner.lock().expect("no panic while locked");
        keys.iter().all(|key| inner.reconciled.contains(key))
    }

    /// Whether there is something to say of all of these.
    fn knows(&self, keys: &[Key]) -> bool {
        let inner = self.inner.lock().expect("no panic while locked");
        keys.iter().all(|key| inner.known.contains_key(key))
    }
}

/// The control plane hears of an Application that no engine of ours compares.
pub(crate) async fn report_resource(context: &Context, app: &Application) {
    if context.reporter.is_enabled() {
        report_application(context, app, None).await;
    }
}

/// The control plane hears of an Application, and of what its engine observed.
pub(crate) async fn report_application(
    context: &Context,
    app: &Application,
    beside: Option<view::Beside<'_>>,
) {
    let (destination_name, destination_server) = context.clusters.destination_names(app);
    let git_sources = view::git_sources(app, context.settings.tracking_label().as_deref());
    let place = view::Place { destination_name, destination_server, git_sources };
    let access = context.settings.access();
    context.reporter.application(app, place, beside, context.renderer.git(), &access).await;
}
