//! The engine's shell: what it holds, and the loops that keep it going.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use serde_json::Value;
use slipway_cluster::{Cluster, ObjectKey};
use slipway_crd::{Application, names};
use slipway_gitops::refresh::{self, Head};
use slipway_gitops::sync::SyncProgress;
use slipway_gitops::{ClusterInfo, Settings, TrackingMethod};
use slipway_reconcile::{EventWriter, Key, Shards, Shell, Task, Tasks, Wake, Written};
use slipway_source::Renderer;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::clusters::{Clusters, Destination};
use crate::engines::applications::observe::{IN_CLUSTER, Unreadable};
use crate::engines::applications::sources::Desired;
use crate::engines::{self, APPLICATION, ApplicationSets, Applications, Hydrator};
use crate::metrics::Metrics;
use crate::notifications::{Notifications, Notifier};
use crate::report::Reporter;
use crate::settings::{RepositoryAccess, read_settings};

/// ConfigMaps that say how the engine works.
const SETTINGS: [&str; 6] = [
    "argocd-cm",
    "argocd-cmd-params-cm",
    "argocd-tls-certs-cm",
    crate::settings::KEYS,
    "argocd-ssh-known-hosts-cm",
    crate::notifications::CONFIG,
];
/// How long at most until due Applications are searched for again.
const HOUSE_TICK: Duration = Duration::from_secs(15);

/// What is known of one Application between two reconciles. Everything here can be lost at any time.
#[derive(Default)]
pub(crate) struct Memory {
    /// What was read of the sources.
    pub(crate) head: Head<Instant, Arc<Desired>, Unreadable>,
    /// What the cluster was told to announce: the manifests' objects, and what charts looked up.
    pub(crate) interest: HashSet<ObjectKey>,
    pub(crate) looked_up: crate::engines::applications::lookup::Seen,
    /// The namespace whose orphans its project wants to know.
    pub(crate) oversees: Option<String>,
    /// Where it went at the last reconcile.
    pub(crate) destination: Option<Arc<Destination>>,
    /// The operation under way.
    pub(crate) progress: Option<SyncProgress>,
    /// It has nothing to run and waits for health alone.
    pub(crate) awaiting_health: bool,
    /// What it waits for, in sentences.
    pub(crate) waiting: Vec<String>,
    /// The fingerprint of what the last reconcile saw.
    pub(crate) seen: Option<u64>,
    /// What the API server said an apply would do.
    pub(crate) answers: crate::engines::applications::server_side::Answers,
    /// Only looks: tells the cluster nothing.
    pub(crate) reader: bool,
    /// The version of the Application that we wrote ourselves.
    pub(crate) written: Written,
}

pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) cluster: Cluster,
    pub(crate) renderer: Renderer,
    /// The engines' queues and how they fare.
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) apps: Arc<Task>,
    pub(crate) sets: Arc<Task>,
    /// Applications whose manifests have to be rendered to a branch first.
    pub(crate) hydrations: Arc<Task>,
    /// Applications about which somebody may have to be notified.
    pub(crate) notices: Arc<Task>,
    pub(crate) reporter: Reporter,
    /// Instances that were reconciled, for those who show them.
    pub(crate) reconciled: broadcast::Sender<Arc<str>>,
    pub(crate) metrics: Metrics,
    /// Events on their way to the cluster.
    pub(crate) events: EventWriter,
    notifications: RwLock<Arc<Notifications>>,
    memory: Mutex<HashMap<Key, Memory>>,
    settings: RwLock<Arc<Settings>>,
    access: RwLock<Arc<RepositoryAccess>>,
    /// Which Applications and sets are ours to look after.
    pub(crate) shards: Arc<Shards>,
    /// The cluster that we run in.
    pub(crate) home: Arc<Destination>,
    pub(crate) clusters: Clusters,
    pub(crate) clusters_stop: CancellationToken,
    pub(crate) hydrating: crate::engines::hydrator::Hydrating,
    /// Counts changes of settings and credentials.
    generation: AtomicUsize,
}

impl Engine {
    pub(crate) fn new(config: Config, cluster: Cluster, renderer: Renderer, kube_version: String) -> Self {
        let settings = Settings { control_plane_namespace: config.namespace.clone(), ..Settings::default() };
        let home = Destination::new(cluster.clone(), IN_CLUSTER.server, IN_CLUSTER.name, kube_version);
        let shards = Shards::new(config.sharing.clone());
        let tasks = Arc::new(Tasks::default());
        Self {
            reporter: Reporter::new(&config),
            reconciled: broadcast::Sender::new(256),
            config,
            cluster,
            renderer,
            apps: tasks.of::<Applications>(),
            sets: tasks.of::<ApplicationSets>(),
            hydrations: tasks.of::<Hydrator>(),
            notices: tasks.of::<Notifier>(),
            tasks,
            metrics: Metrics::default(),
            events: EventWriter::default(),
            notifications: RwLock::default(),
            memory: Mutex::default(),
            settings: RwLock::new(Arc::new(settings)),
            access: RwLock::default(),
            shards: Arc::new(shards),
            home: Arc::new(home),
            clusters: Clusters::default(),
            clusters_stop: CancellationToken::new(),
            hydrating: Default::default(),
            generation: AtomicUsize::new(0),
        }
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.read().expect("no panic while locked").clone()
    }

    pub(crate) fn notifications(&self) -> Arc<Notifications> {
        self.notifications.read().expect("no panic while locked").clone()
    }

    pub(crate) fn access(&self) -> Arc<RepositoryAccess> {
        self.access.read().expect("no panic while locked").clone()
    }

    /// What the home cluster serves, in the planner's words.
    pub(crate) fn cluster_info(&self) -> Arc<ClusterInfo> {
        self.home.info()
    }

    /// The label by which objects say whose they are, if it is not by annotation.
    pub(crate) fn tracking_label(&self) -> Option<String> {
        let settings = self.settings();
        (settings.tracking == TrackingMethod::Label).then(|| settings.instance_label.clone())
    }

    pub(crate) fn take_memory(&self, key: &Key) -> Memory {
        self.memory.lock().expect("no panic while locked").remove(key).unwrap_or_default()
    }

    pub(crate) fn keep_memory(&self, key: &Key, memory: Memory) {
        self.memory.lock().expect("no panic while locked").insert(key.clone(), memory);
    }

    /// What the last look found in the sources, for readers beside the loop.
    pub(crate) fn known_head(&self, key: &Key) -> Head<Instant, Arc<Desired>, Unreadable> {
        let memory = self.memory.lock().expect("no panic while locked");
        memory.get(key).map(|memory| memory.head.clone()).unwrap_or_default()
    }

    /// The name that objects are tracked by.
    pub(crate) fn instance(&self, key: &Key) -> String {
        if key.namespace == self.config.namespace {
            key.name.clone()
        } else {
            format!("{}_{}", key.namespace, key.name)
        }
    }

    /// Changes with the settings, the credentials and what the cluster serves.
    pub(crate) fn surroundings(&self) -> (usize, usize) {
        (self.generation.load(Ordering::Relaxed), Arc::as_ptr(&self.cluster_info()) as usize)
    }

    /// The Application as the copy has it, and as it was read.
    pub(crate) fn application(&self, key: &Key) -> Option<(Application, Value)> {
        let object = self.cluster.live(&key.object())?.object()?;
        Some((serde_json::from_value(object.clone()).ok()?, object))
    }

    /// Every Application that is ours to look after.
    pub(crate) fn applications(&self) -> Vec<Key> {
        self.cluster
            .live_of_kind(names::GROUP, "Application")
            .iter()
            .filter(|live| self.governs(&live.key.namespace))
            .filter_map(|live| Key::of(APPLICATION, &live.key))
            .collect()
    }

    pub(crate) fn reload_settings(self: &Arc<Self>) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        let settings = read_settings(&self.cluster, &self.config.namespace);
        *self.settings.write().expect("no panic while locked") = Arc::new(settings);
        let access = RepositoryAccess::read(&self.cluster, &self.config.namespace, &self.config.egress);
        *self.access.write().expect("no panic while locked") = Arc::new(access);
        let notifications = self.read_notifications();
        *self.notifications.write().expect("no panic while locked") = Arc::new(notifications);
        let label = self.tracking_label();
        for destination in self.destinations() {
            destination.cluster.track_by(label.as_deref());
        }
        self.follow_clusters();
    }

    fn wake_all(&self, wake: Wake) {
        for key in self.applications() {
            self.apps.wake(key, wake);
        }
    }

    /// Runs until stopped.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        self.reload_settings();
        self.cluster_info();
        let shell = Arc::new(engines::shell(&self));
        let mut tasks = tokio::task::JoinSet::new();
        shell.start(&mut tasks);
        tasks.spawn(self.clone().listen(shell.clone()));
        tasks.spawn(self.clone().keep_house());
        tasks.spawn(self.clone().follow_pushes());
        tasks.spawn(self.clone().send_reports());
        tasks.spawn(self.clone().write_events());
        tasks.spawn(self.clone().share_work(shell));
        tokio::select! {
            () = stop.cancelled() => {}
            // None of these ends by itself; if one does, it panicked, and a restart is the cure.
            ended = tasks.join_next() => {
                tracing::error!(?ended, "A loop of the engine ended; the engine stops.");
            }
        }
        self.clusters_stop.cancel();
        tasks.shutdown().await;
        self.shards.release(&self.cluster, &self.config.namespace).await;
    }

    async fn write_events(self: Arc<Self>) {
        self.events.run(&self.cluster).await;
    }

    async fn share_work(self: Arc<Self>, shell: Arc<Shell>) {
        self.shards.keep(&self.cluster, &self.config.namespace, &shell).await;
    }

    /// Hands the changes of objects to the engines, and reads settings again when they changed.
    async fn listen(self: Arc<Self>, shell: Arc<Shell>) {
        let mut settings = false;
        loop {
            // Settings that are being read again are waited for instead of being thought away.
            let wait = if settings { Duration::from_millis(100) } else { Duration::from_secs(3600) };
            let changes = tokio::time::timeout(wait, self.cluster.changes()).await.unwrap_or_default();
            self.metrics.cluster_events(IN_CLUSTER.server, changes.len());
            for change in &changes {
                shell.dispatch(change);
                settings |= self.is_setting(&change.key);
            }
            let unread = ["ConfigMap", "Secret"].iter().any(|kind| self.cluster.is_waiting("", kind));
            if settings && !unread {
                settings = false;
                self.reload_settings();
                self.wake_all(Wake::STATE);
                // Secrets are clusters too, and projects say what may be generated.
                self.wake_sets(Wake::STATE);
            }
        }
    }

    /// Settings, credentials, and what else every engine goes by.
    fn is_setting(&self, key: &ObjectKey) -> bool {
        let ours = key.namespace == self.config.namespace;
        match (key.group.as_str(), key.kind.as_str()) {
            (names::GROUP, "AppProject") => ours,
            ("", "ConfigMap") => ours && SETTINGS.contains(&key.name.as_str()),
            // Which Secrets are repositories is written on them, and a deleted one can no longer be asked.
            ("", "Secret") => ours,
            _ => false,
        }
    }

    /// The safety net: every Application is reconciled now and then, spread over the time.
    async fn keep_house(self: Arc<Self>) {
        let mut due = Due::default();
        let mut hard = Due::default();
        loop {
            let settings = self.settings();
            let every = self.reconciles_every();
            // A twelfth of the interval, so that Applications that share a repository share the question. A change of
            // the interval is noticed within seconds.
            let tick =
                every.map_or(HOUSE_TICK, |every| (every / 12).clamp(Duration::from_millis(20), HOUSE_TICK));
            tokio::time::sleep(tick).await;
            self.renderer.git().trim(Duration::from_secs(60)).await;
            let now = Instant::now();
            let keys = self.applications();
            let soft = every.unwrap_or_default();
            let jitter = settings.reconciliation_jitter;
            for key in due.take(&keys, soft, jitter, now) {
                self.apps.wake(key, Wake { since: now.checked_sub(tick), ..Wake::STATE });
            }
            let forced = settings.hard_reconciliation.try_into().unwrap_or_default();
            for key in hard.take(&keys, forced, jitter, now) {
                self.apps.wake(key, Wake { hard: true, ..Wake::latest(now) });
            }
        }
    }

    /// `timeout.reconciliation`, or what the process was started with; `None`: never.
    fn reconciles_every(&self) -> Option<Duration> {
        let otherwise = self.config.resync.try_into().unwrap_or(jiff::SignedDuration::MAX);
        let settings =
            Settings { reconciliation_jitter: jiff::SignedDuration::ZERO, ..(*self.settings()).clone() };
        refresh::interval(&settings, otherwise, "").and_then(|every| every.try_into().ok())
    }
}

/// When each Application is compared again without anything having happened.
#[derive(Default)]
struct Due(HashMap<Key, (Duration, Instant)>);

impl Due {
    /// Those whose time has come. The first time is spread over the interval; an interval of zero is never over.
    fn take(
        &mut self,
        keys: &[Key],
        every: Duration,
        jitter: jiff::SignedDuration,
        now: Instant,
    ) -> Vec<Key> {
        let before = std::mem::take(&mut self.0);
        if every.is_zero() {
            return Vec::new();
        }
        let mut due = Vec::new();
        for key in keys {
            let share = |most: jiff::SignedDuration| {
                Duration::try_from(refresh::jitter(&key.to_string(), most)).unwrap_or_default()
            };
            let next = match before.get(key) {
                Some((of, at)) if *of == every && *at > now => *at,
                Some((of, _)) if *of == every => {
                    due.push(key.clone());
                    now + every + share(jitter)
                }
                _ => now + share(every.try_into().unwrap_or(jiff::SignedDuration::MAX)),
            };
            self.0.insert(key.clone(), (every, next));
        }
        due
    }
}
