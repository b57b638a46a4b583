//! The engine's shell: what it holds, and the loops that keep it going.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use serde_json::Value;
use slipway_cluster::{Change, Cluster, Discovery, ObjectKey};
use slipway_crd::{Application, names};
use slipway_gitops::sync::SyncProgress;
use slipway_gitops::{ClusterInfo, Settings};
use slipway_source::Renderer;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::Config;
use crate::queue::{AppKey, Queue, Wake};
use crate::report::Reporter;
use crate::settings::{RepositoryAccess, read_settings};
use crate::sources::Desired;

/// ApplicationSets looked at at once.
const SET_WORKERS: usize = 4;

/// What is known of one application between two looks at it. Everything here can be lost at any time.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) desired: Option<(Instant, Arc<Desired>)>,
    pub(crate) failing_since: Option<Instant>,
    pub(crate) interest: HashSet<ObjectKey>,
    /// The operation under way.
    pub(crate) progress: Option<SyncProgress>,
    /// It has nothing to run and waits for health alone.
    pub(crate) awaiting_health: bool,
    /// What it waits for, in sentences.
    pub(crate) waiting: Vec<String>,
    /// The fingerprint of what the last look saw.
    pub(crate) seen: Option<u64>,
    /// Only looks: tells the cluster nothing.
    pub(crate) reader: bool,
    /// The version of the Application that we wrote ourselves.
    pub(crate) written: String,
}

/// What the cluster is, for renderers and comparisons.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) kube_version: String,
    pub(crate) api_versions: Vec<String>,
}

pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) cluster: Cluster,
    pub(crate) renderer: Renderer,
    pub(crate) queue: Queue,
    /// ApplicationSets to be looked at.
    pub(crate) sets: Queue,
    /// When each set is looked at next without anything having happened.
    pub(crate) set_timers: Mutex<HashMap<AppKey, Instant>>,
    pub(crate) reporter: Reporter,
    memory: Mutex<HashMap<AppKey, Memory>>,
    settings: RwLock<Arc<Settings>>,
    access: RwLock<Arc<RepositoryAccess>>,
    facts: RwLock<Arc<Facts>>,
    /// Counts changes of settings and credentials.
    generation: AtomicUsize,
    info: RwLock<(Arc<Discovery>, Arc<ClusterInfo>)>,
}

impl Engine {
    pub(crate) fn new(config: Config, cluster: Cluster, renderer: Renderer, kube_version: String) -> Self {
        let settings = Settings { control_plane_namespace: config.namespace.clone(), ..Settings::default() };
        let facts = Facts { kube_version, api_versions: Vec::new() };
        Self {
            reporter: Reporter::new(&config),
            config,
            cluster,
            renderer,
            queue: Queue::default(),
            sets: Queue::default(),
            set_timers: Mutex::default(),
            memory: Mutex::default(),
            settings: RwLock::new(Arc::new(settings)),
            access: RwLock::default(),
            facts: RwLock::new(Arc::new(facts)),
            generation: AtomicUsize::new(0),
            info: RwLock::default(),
        }
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.read().expect("no panic while locked").clone()
    }

    pub(crate) fn access(&self) -> Arc<RepositoryAccess> {
        self.access.read().expect("no panic while locked").clone()
    }

    pub(crate) fn facts(&self) -> Arc<Facts> {
        self.facts.read().expect("no panic while locked").clone()
    }

    /// What is served, in the planner's words; made anew when discovery was.
    pub(crate) fn cluster_info(&self) -> Arc<ClusterInfo> {
        let discovery = self.cluster.discovery();
        {
            let known = self.info.read().expect("no panic while locked");
            if Arc::ptr_eq(&known.0, &discovery) {
                return known.1.clone();
            }
        }
        let mut info = ClusterInfo::new(discovery.complete);
        let mut api_versions: Vec<String> = Vec::new();
        for resource in discovery.all() {
            info.add(&resource.group, &resource.version, &resource.kind, resource.namespaced);
            api_versions.push(resource.api_version());
            api_versions.push(format!("{}/{}", resource.api_version(), resource.kind));
        }
        api_versions.sort();
        api_versions.dedup();
        let kube_version = self.facts().kube_version.clone();
        *self.facts.write().expect("no panic while locked") = Arc::new(Facts { kube_version, api_versions });
        let info = Arc::new(info);
        *self.info.write().expect("no panic while locked") = (discovery, info.clone());
        info
    }

    pub(crate) fn take_memory(&self, key: &AppKey) -> Memory {
        self.memory.lock().expect("no panic while locked").remove(key).unwrap_or_default()
    }

    pub(crate) fn keep_memory(&self, key: &AppKey, memory: Memory) {
        self.memory.lock().expect("no panic while locked").insert(key.clone(), memory);
    }

    /// The manifests that the last look found, for readers beside the loop.
    pub(crate) fn known_desired(&self, key: &AppKey) -> Option<(Instant, Arc<Desired>)> {
        self.memory.lock().expect("no panic while locked").get(key)?.desired.clone()
    }

    /// The name that objects are tracked by.
    pub(crate) fn instance(&self, key: &AppKey) -> String {
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

    pub(crate) fn application_key(&self, key: &AppKey) -> ObjectKey {
        ObjectKey::new(names::GROUP, "Application", &key.namespace, &key.name)
    }

    /// The Application as the copy has it, and as it was read.
    pub(crate) fn application(&self, key: &AppKey) -> Option<(Application, Value)> {
        let object = self.cluster.live(&self.application_key(key))?.object()?;
        Some((serde_json::from_value(object.clone()).ok()?, object))
    }

    /// Every Application of our namespace.
    pub(crate) fn applications(&self) -> Vec<AppKey> {
        self.cluster
            .live_of_kind(names::GROUP, "Application")
            .iter()
            .filter(|live| live.key.namespace == self.config.namespace)
            .map(|live| AppKey { namespace: live.key.namespace.clone(), name: live.key.name.clone() })
            .collect()
    }

    pub(crate) fn reload_settings(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        let settings = read_settings(&self.cluster, &self.config.namespace);
        *self.settings.write().expect("no panic while locked") = Arc::new(settings);
        let access = RepositoryAccess::read(&self.cluster, &self.config.namespace);
        *self.access.write().expect("no panic while locked") = Arc::new(access);
    }

    fn wake_all(&self, wake: Wake) {
        for key in self.applications() {
            self.queue.add(key, wake);
        }
    }

    /// Runs until stopped.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        self.reload_settings();
        self.cluster_info();
        self.wake_all(Wake::STATE);
        self.wake_sets(Wake::STATE);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..self.config.workers.max(1) {
            tasks.spawn(self.clone().work());
        }
        for _ in 0..SET_WORKERS {
            tasks.spawn(self.clone().work_on_sets());
        }
        tasks.spawn(self.clone().listen());
        tasks.spawn(self.clone().keep_house());
        tasks.spawn(self.clone().follow_pushes());
        tasks.spawn(self.clone().send_reports());
        tokio::select! {
            () = stop.cancelled() => {}
            // None of these ends by itself; if one does, it panicked, and a restart is the cure.
            ended = tasks.join_next() => {
                tracing::error!(?ended, "A loop of the engine ended; the engine stops.");
            }
        }
        tasks.shutdown().await;
    }

    async fn work(self: Arc<Self>) {
        loop {
            let (key, wake) = self.queue.next().await;
            // A panic over one Application must not end the others' worker.
            let engine = self.clone();
            let of = key.clone();
            let look = tokio::spawn(async move { engine.reconcile(&of, wake).await });
            let done = AbortOnDropHandle::new(look).await;
            if let Err(error) = done {
                tracing::error!(application = %key, %error, "Looking at an application failed badly; it is tried again later.");
                self.queue.add_at(key.clone(), Instant::now() + Duration::from_secs(30), Wake::STATE);
            }
            self.reporter.looked_at(&key);
            self.queue.done(&key);
        }
    }

    /// Turns changes of objects into looks at applications.
    async fn listen(self: Arc<Self>) {
        loop {
            let changes = self.cluster.changes().await;
            let mut settings = false;
            for change in changes {
                settings |= self.heard(&change);
            }
            if settings {
                self.reload_settings();
                self.wake_all(Wake::STATE);
                // Secrets are clusters too, and projects say what may be generated.
                self.wake_sets(Wake::STATE);
            }
        }
    }

    /// True when settings or credentials changed.
    fn heard(&self, change: &Change) -> bool {
        let key = &change.key;
        let ours = key.namespace == self.config.namespace;
        for instance in &change.applications {
            let app = match instance.split_once('_') {
                Some((namespace, name)) => AppKey { namespace: namespace.into(), name: name.into() },
                None => AppKey { namespace: self.config.namespace.clone(), name: instance.clone() },
            };
            if app.namespace == self.config.namespace {
                self.queue.add(app, Wake::STATE);
            }
        }
        match (key.group.as_str(), key.kind.as_str()) {
            (names::GROUP, "Application") if ours => {
                let app = AppKey { namespace: key.namespace.clone(), name: key.name.clone() };
                self.queue.add(app, Wake::APPLICATION);
                self.wake_owner(key);
                false
            }
            (names::GROUP, "ApplicationSet") if ours => {
                let set = AppKey { namespace: key.namespace.clone(), name: key.name.clone() };
                self.sets.add(set, Wake::APPLICATION);
                false
            }
            (names::GROUP, "AppProject") if ours => true,
            ("", "ConfigMap") if ours => key.name == "argocd-cm",
            // Which Secrets are repositories is written on them, and a deleted one can no longer be asked.
            ("", "Secret") if ours => true,
            _ => false,
        }
    }

    /// The safety net: every application is looked at now and then, spread over the time.
    async fn keep_house(self: Arc<Self>) {
        let mut tick: u64 = 0;
        loop {
            tokio::time::sleep(self.config.resync / 12).await;
            tick += 1;
            self.renderer.git().trim(Duration::from_secs(60)).await;
            for key in self.applications() {
                if spread(&key) % 12 == tick % 12 {
                    // Applications that share a repository share the question.
                    let since = Instant::now().checked_sub(self.config.resync / 12);
                    self.queue.add(key, Wake { since, ..Wake::STATE });
                }
            }
        }
    }
}

/// A number that stays the same for an application and differs between applications.
fn spread(key: &AppKey) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
