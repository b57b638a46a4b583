//! The clusters that Applications deploy to: the one that we run in, and those that cluster Secrets describe.
//!
//! Each has a connection, a copy and watches of its own. One that cannot be reached is tried again for ever and
//! disturbs nobody but the Applications that go there.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use slipway_cluster::{Change, Cluster, ClusterConfig, Discovery, Given};
use slipway_crd::Application;
use slipway_gitops::ClusterInfo;
use slipway_gitops::project::ClusterNames;
use slipway_reconcile::{Key, Wake};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::engines::APPLICATION;
use crate::engines::applications::observe::IN_CLUSTER;
use crate::settings::{SECRET_TYPE, field};

/// Between two tries to reach a cluster, at most.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What a cluster is, for renderers and comparisons.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) kube_version: String,
    pub(crate) api_versions: Vec<String>,
}

/// A cluster that is connected.
pub(crate) struct Destination {
    pub(crate) cluster: Cluster,
    pub(crate) server: String,
    pub(crate) name: String,
    kube_version: String,
    known: RwLock<(Arc<Discovery>, Arc<ClusterInfo>, Arc<Facts>)>,
}

impl Destination {
    pub(crate) fn new(cluster: Cluster, server: &str, name: &str, kube_version: String) -> Self {
        let facts = Facts { kube_version: kube_version.clone(), api_versions: Vec::new() };
        let known = RwLock::new((Arc::default(), Arc::default(), Arc::new(facts)));
        Self { cluster, server: server.to_owned(), name: name.to_owned(), kube_version, known }
    }

    pub(crate) fn names(&self) -> ClusterNames<'_> {
        ClusterNames { server: &self.server, name: &self.name }
    }

    /// What is served, in the planner's words; made anew when discovery was.
    pub(crate) fn info(&self) -> Arc<ClusterInfo> {
        self.learn().0
    }

    pub(crate) fn facts(&self) -> Arc<Facts> {
        self.learn().1
    }

    fn learn(&self) -> (Arc<ClusterInfo>, Arc<Facts>) {
        let discovery = self.cluster.discovery();
        {
            let known = self.known.read().expect("no panic while locked");
            if Arc::ptr_eq(&known.0, &discovery) {
                return (known.1.clone(), known.2.clone());
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
        let info = Arc::new(info);
        let facts = Arc::new(Facts { kube_version: self.kube_version.clone(), api_versions });
        *self.known.write().expect("no panic while locked") = (discovery, info.clone(), facts.clone());
        (info, facts)
    }
}

/// A cluster Secret, and how far we are with it.
struct Remote {
    /// Changes with the Secret.
    version: String,
    server: String,
    name: String,
    state: Arc<RwLock<State>>,
    stop: CancellationToken,
}

enum State {
    /// Why it cannot be used yet.
    Away(String),
    Here(Arc<Destination>),
}

#[derive(Default)]
pub(crate) struct Clusters {
    /// By the Secret's name.
    remotes: RwLock<BTreeMap<String, Remote>>,
}

/// Why an Application has no cluster to go to.
#[derive(Debug)]
pub(crate) enum NoCluster {
    /// The spec is wrong, or the cluster was taken away.
    Unknown(String),
    /// It is known and cannot be reached.
    Away(String),
}

impl NoCluster {
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Unknown(message) | Self::Away(message) => message,
        }
    }
}

impl Engine {
    /// Where an Application goes.
    pub(crate) fn destination(&self, app: &Application) -> Result<Arc<Destination>, NoCluster> {
        let destination = &app.spec.destination;
        let server = destination.server.trim_end_matches('/');
        let name = destination.name.as_str();
        let unknown = |text: String| Err(NoCluster::Unknown(text));
        match (server, name) {
            ("", "") => {
                return unknown(
                    "spec.destination needs a server or a name; use https://kubernetes.default.svc".into(),
                );
            }
            (server, name) if !server.is_empty() && !name.is_empty() => {
                return unknown("spec.destination has both a server and a name; keep one of them".into());
            }
            (server, name) if server == IN_CLUSTER.server || name == IN_CLUSTER.name => {
                return Ok(self.home.clone());
            }
            _ => {}
        }
        let remotes = self.clusters.remotes.read().expect("no panic while locked");
        let mut fitting = remotes
            .values()
            .filter(|remote| if server.is_empty() { remote.name == name } else { remote.server == server });
        let wanted = if server.is_empty() { name } else { server };
        let Some(remote) = fitting.next() else {
            return unknown(format!(
                "spec.destination `{wanted}` is not known here; use {} or `{}`, or add a Secret with the label \
                 {SECRET_TYPE}: cluster",
                IN_CLUSTER.server, IN_CLUSTER.name
            ));
        };
        if server.is_empty() && fitting.next().is_some() {
            return unknown(format!(
                "there are 2 clusters with the name `{wanted}`; use spec.destination.server"
            ));
        }
        if remote.server == IN_CLUSTER.server {
            return Ok(self.home.clone());
        }
        match &*remote.state.read().expect("no panic while locked") {
            State::Here(destination) => Ok(destination.clone()),
            State::Away(why) => Err(NoCluster::Away(format!("cluster {wanted} cannot be used: {why}"))),
        }
    }

    /// How the cluster that an Application goes to is called and where it is, whether it can be reached or not. Empty where
    /// the spec does not say which one it is.
    pub(crate) fn destination_names(&self, app: &Application) -> (String, String) {
        let destination = &app.spec.destination;
        let (server, name) = (destination.server.trim_end_matches('/'), destination.name.as_str());
        if server.is_empty() == name.is_empty() {
            return Default::default();
        }
        if server == IN_CLUSTER.server || name == IN_CLUSTER.name {
            return (IN_CLUSTER.name.to_owned(), IN_CLUSTER.server.to_owned());
        }
        let remotes = self.clusters.remotes.read().expect("no panic while locked");
        let mut fitting = remotes
            .values()
            .filter(|remote| if server.is_empty() { remote.name == name } else { remote.server == server });
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => (one.name.clone(), one.server.clone()),
            _ => (name.to_owned(), server.to_owned()),
        }
    }

    /// Every cluster that is connected.
    pub(crate) fn destinations(&self) -> Vec<Arc<Destination>> {
        let remotes = self.clusters.remotes.read().expect("no panic while locked");
        let here = remotes.values().filter_map(|remote| {
            match &*remote.state.read().expect("no panic while locked") {
                State::Here(destination) => Some(destination.clone()),
                State::Away(_) => None,
            }
        });
        std::iter::once(self.home.clone()).chain(here).collect()
    }

    /// Connects to what the Secrets say now, and lets go of what they no longer do.
    pub(crate) fn follow_clusters(self: &Arc<Self>) {
        let mut wanted: BTreeMap<String, (String, serde_json::Value)> = BTreeMap::new();
        for live in self.cluster.live_of_kind("", "Secret") {
            let Some(object) = live.object().filter(|_| live.key.namespace == self.config.namespace) else {
                continue;
            };
            if object["metadata"]["labels"][SECRET_TYPE] == "cluster" {
                wanted.insert(live.key.name.clone(), (live.resource_version.clone(), object["data"].clone()));
            }
        }
        let mut remotes = self.clusters.remotes.write().expect("no panic while locked");
        remotes.retain(|secret, remote| {
            let stays = wanted.get(secret).is_some_and(|(version, _)| *version == remote.version);
            if !stays {
                remote.stop.cancel();
            }
            stays
        });
        for (secret, (version, data)) in wanted {
            if remotes.contains_key(&secret) {
                continue;
            }
            let server = field(&data, "server").unwrap_or_default().trim_end_matches('/').to_owned();
            let name = field(&data, "name").unwrap_or_else(|| server.clone());
            let state = Arc::new(RwLock::new(State::Away("it is being connected".into())));
            let stop = self.clusters_stop.child_token();
            match config(&server, &data) {
                Ok(config) if server != IN_CLUSTER.server => {
                    let following = Following {
                        engine: Arc::downgrade(self),
                        config,
                        server: server.clone(),
                        name: name.clone(),
                        state: state.clone(),
                        stop: stop.clone(),
                    };
                    tokio::spawn(following.run());
                }
                Ok(_) => {}
                Err(why) => {
                    tracing::warn!(%secret, %why, "A cluster Secret cannot be used.");
                    *state.write().expect("no panic while locked") =
                        State::Away(format!("its Secret: {why}"));
                }
            }
            remotes.insert(secret, Remote { version, server, name, state, stop });
        }
    }
}

fn config(server: &str, data: &serde_json::Value) -> Result<ClusterConfig, String> {
    if !server.starts_with("https://") && !server.starts_with("http://") {
        return Err("`server` must be an https address".into());
    }
    let given = Given::parse(server, &field(data, "config").unwrap_or_default())?;
    let mut config = ClusterConfig::new(None);
    config.given = Some(Arc::new(given));
    config.subscriptions = crate::engines::subscriptions_elsewhere();
    let namespaces = field(data, "namespaces").unwrap_or_default();
    config.namespaces =
        namespaces.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    config.cluster_resources = field(data, "clusterResources").as_deref() == Some("true");
    config.request_timeout = Duration::from_secs(20);
    Ok(config)
}

/// One remote cluster, followed until its Secret changes.
struct Following {
    /// The engine owns what ends this, so this must not keep it alive.
    engine: std::sync::Weak<Engine>,
    config: ClusterConfig,
    server: String,
    name: String,
    state: Arc<RwLock<State>>,
    stop: CancellationToken,
}

impl Following {
    async fn run(self) {
        let Some(destination) = self.connect().await else { return };
        let destination = Arc::new(destination);
        *self.state.write().expect("no panic while locked") = State::Here(destination.clone());
        tracing::info!(server = %self.server, "A cluster is connected.");
        let Some(engine) = self.engine.upgrade() else { return };
        for key in engine.applications() {
            if let Some((app, _)) = engine.application(&key)
                && (app.spec.destination.server.trim_end_matches('/') == self.server
                    || app.spec.destination.name == self.name)
            {
                engine.apps.wake(key, Wake::STATE);
            }
        }
        drop(engine);
        loop {
            let changes = tokio::select! {
                () = self.stop.cancelled() => return,
                changes = destination.cluster.changes() => changes,
            };
            let Some(engine) = self.engine.upgrade() else { return };
            engine.metrics.cluster_events(&self.server, changes.len());
            for instance in changes.iter().flat_map(Change::trackers) {
                engine.wake_instance(instance);
            }
        }
    }

    /// `None`: it was time to stop.
    async fn connect(&self) -> Option<Destination> {
        let mut wait = Duration::from_secs(1);
        loop {
            let label = self.engine.upgrade()?.tracking_label();
            let began = Instant::now();
            let tried = async {
                let cluster = Cluster::connect(self.config.clone()).await?;
                let version = cluster.version().await?;
                cluster.track_by(label.as_deref());
                Ok::<_, slipway_cluster::ClusterError>((cluster, version))
            };
            let connected = tokio::select! {
                () = self.stop.cancelled() => return None,
                connected = tried => connected,
            };
            match connected {
                Ok((cluster, version)) => {
                    cluster.start(self.stop.clone()).await;
                    if self.stop.is_cancelled() {
                        return None;
                    }
                    return Some(Destination::new(cluster, &self.server, &self.name, version));
                }
                Err(error) => {
                    if wait.as_secs() == 1 {
                        tracing::warn!(server = %self.server, %error, after = ?began.elapsed(), "A cluster cannot be used; it is tried again.");
                    }
                    *self.state.write().expect("no panic while locked") = State::Away(error.to_string());
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
    }
}

impl Engine {
    /// The application that objects call by this name.
    pub(crate) fn key_of_instance(&self, instance: &str) -> Key {
        match instance.split_once('_') {
            Some((namespace, name)) => Key::new(APPLICATION, namespace, name),
            None => Key::new(APPLICATION, &self.config.namespace, instance),
        }
    }

    /// Wakes the Application that objects call by this name.
    pub(crate) fn wake_instance(&self, instance: &str) {
        let app = self.key_of_instance(instance);
        if self.governs(&app.namespace) {
            self.apps.wake(app, Wake::STATE);
        }
    }
}
