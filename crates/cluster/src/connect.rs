//! The connection: configuration, the handle that others clone, and plain requests.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use slipway_crd::names;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

use crate::cache::{Cache, Live};
use crate::changes::Change;
use crate::credential::Keeper;
use crate::discovery::Discovery;
use crate::given::{Given, Refused};
use crate::reach::Reach;
use crate::subscriptions::{Subscription, Subscriptions};
use crate::supervise::Reading;
use crate::tracking::Tracking;
use crate::{ClusterError, ObjectKey};

/// How long a credential program may take.
const CREDENTIALS: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// `None`: the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// Another cluster, by what a cluster Secret says; wins over the file.
    pub given: Option<Arc<Given>>,
    /// Where a given one may be; `None`: anywhere.
    pub reach: Option<Reach>,
    /// Only these namespaces may be seen; empty: everything.
    pub namespaces: Vec<String>,
    /// With [`Self::namespaces`]: what has no namespace may be seen too.
    pub cluster_resources: bool,
    pub context: Option<String>,
    /// What is kept and announced besides what somebody tracks.
    pub subscriptions: Vec<Subscription>,
    /// By which name an object is tracked, until [`Cluster::track_by`] says otherwise.
    pub tracking: Tracking,
    /// In whose name fields are written, unless the writer says otherwise ([`Cluster::writing_as`], [`crate::managed`]).
    pub field_manager: String,
    /// Writes under way at once.
    pub parallel_writes: usize,
    pub request_timeout: Duration,
    pub before_write: Option<crate::BeforeWrite>,
}

impl ClusterConfig {
    pub fn new(kubeconfig: Option<PathBuf>) -> Self {
        Self {
            kubeconfig,
            given: None,
            reach: None,
            namespaces: Vec::new(),
            cluster_resources: false,
            context: None,
            subscriptions: Vec::new(),
            tracking: Tracking::default(),
            field_manager: names::FIELD_MANAGER.to_owned(),
            parallel_writes: 24,
            request_timeout: Duration::from_secs(30),
            before_write: None,
        }
    }
}

/// A cluster. Clones share one connection and one copy.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) inner: Arc<Inner>,
    /// In whose name it is written, if not in our own.
    pub(crate) user: Option<Arc<str>>,
    /// Which manager the fields are written as, if this handle says so.
    manager: Option<Arc<str>>,
}

pub(crate) struct Inner {
    pub(crate) client: kube::Client,
    pub(crate) config: ClusterConfig,
    pub(crate) cache: Cache,
    pub(crate) discovery: RwLock<Arc<Discovery>>,
    /// When the last question about what is served was put.
    discovering: tokio::sync::Mutex<Option<std::time::Instant>>,
    pub(crate) writes: Semaphore,
    /// The watched kinds; objects of those that are not read to the end are unknown, not absent.
    pub(crate) kinds: RwLock<HashMap<(String, String), Reading>>,
    /// Lists under way at once: they are the heaviest thing that can be asked of a server.
    pub(crate) lists: Semaphore,
    /// Somebody reached the server, who may have been away before.
    pub(crate) reached: Notify,
    /// A definition came, changed or went.
    pub(crate) definitions: Notify,
    /// Everything is to be read again.
    pub(crate) again: Notify,
    pub(crate) synced: watch::Sender<bool>,
}

impl Cluster {
    /// Connects and asks what is served. Nothing is watched before [`Self::start`].
    pub async fn connect(config: ClusterConfig) -> Result<Self, ClusterError> {
        let client = client(&config).await?;
        let subscriptions = Subscriptions(config.subscriptions.clone());
        let inner = Inner {
            client,
            writes: Semaphore::new(config.parallel_writes.max(1)),
            cache: Cache::new(subscriptions, config.tracking.clone(), config.field_manager.clone()),
            discovery: RwLock::default(),
            discovering: tokio::sync::Mutex::default(),
            kinds: RwLock::default(),
            lists: Semaphore::new(8),
            reached: Notify::new(),
            definitions: Notify::new(),
            again: Notify::new(),
            synced: watch::channel(false).0,
            config,
        };
        let cluster = Self { inner: Arc::new(inner), user: None, manager: None };
        cluster.rediscover().await?;
        Ok(cluster)
    }

    /// Watches everything until the token is cancelled. Returns when every kind was read once.
    pub async fn start(&self, stop: CancellationToken) {
        let supervisor = crate::supervise::Supervisor::new(self.clone(), stop.clone());
        tokio::spawn(supervisor.run());
        let mut synced = self.inner.synced.subscribe();
        tokio::select! {
            _ = synced.wait_for(|done| *done) => {}
            () = stop.cancelled() => {}
        }
    }

    pub fn discovery(&self) -> Arc<Discovery> {
        self.inner.discovery.read().expect("no panic while locked").clone()
    }

    pub(crate) async fn rediscover(&self) -> Result<Arc<Discovery>, ClusterError> {
        // One after the other: an answer that was asked for earlier must not take the place of a later one. Whoever
        // waited while a later question was put shares its answer.
        let asked = std::time::Instant::now();
        let mut put = self.inner.discovering.lock().await;
        if put.is_some_and(|put| put >= asked) {
            return Ok(self.discovery());
        }
        let began = std::time::Instant::now();
        let discovery = Arc::new(Discovery::fetch(self).await?);
        *self.inner.discovery.write().expect("no panic while locked") = discovery.clone();
        *put = Some(began);
        Ok(discovery)
    }

    /// `1.34.4`, without the `v`.
    pub async fn version(&self) -> Result<String, ClusterError> {
        let answer = self.get_json("/version", None).await?;
        Ok(answer["gitVersion"].as_str().unwrap_or_default().trim_start_matches('v').to_owned())
    }

    /// An object in the copy.
    pub fn live(&self, key: &ObjectKey) -> Option<Arc<Live>> {
        self.inner.cache.get(key)
    }

    pub fn live_of_kind(&self, group: &str, kind: &str) -> Vec<Arc<Live>> {
        self.inner.cache.of_kind(group, kind)
    }

    /// The objects that are tracked by this name.
    pub fn tracked(&self, tracker: &str) -> Vec<Arc<Live>> {
        self.inner.cache.tracked_by(tracker)
    }

    /// Top-level objects of a namespace that nobody tracks.
    pub fn unowned(&self, namespace: &str) -> Vec<ObjectKey> {
        self.inner.cache.unowned(namespace)
    }

    /// From now on this tracker hears of changes of what nobody owns in this namespace; `None`: of none.
    pub fn watch_unowned(&self, tracker: &str, namespace: Option<&str>) {
        self.inner.cache.watch_unowned(tracker, namespace);
    }

    /// The same cluster, written to in the name of somebody else. The connection's own user has to be allowed to.
    pub fn acting_as(&self, user: &str) -> Self {
        Self { user: Some(user.into()), ..self.clone() }
    }

    /// The same cluster, with fields written as another manager: each engine owns what it applies.
    pub fn writing_as(&self, manager: &str) -> Self {
        Self { manager: Some(manager.into()), ..self.clone() }
    }

    /// The handle's own word, then that of the work it is used in, then the connection's.
    pub(crate) fn field_manager(&self) -> &str {
        match (&self.manager, crate::manager::current()) {
            (Some(own), _) => own,
            (None, Some(of_the_work)) => of_the_work,
            (None, None) => &self.inner.config.field_manager,
        }
    }

    /// What these objects own, directly or not.
    pub fn descendants(&self, roots: &[Arc<Live>]) -> Vec<Arc<Live>> {
        self.inner.cache.descendants(roots)
    }

    /// True when what has no namespace cannot be seen.
    pub fn is_confined(&self) -> bool {
        !self.inner.config.namespaces.is_empty() && !self.inner.config.cluster_resources
    }

    /// Why an object cannot be looked after here: it lies outside of the namespaces that may be seen.
    pub fn out_of_sight(&self, key: &ObjectKey) -> Option<String> {
        let seen = &self.inner.config.namespaces;
        let ObjectKey { kind, namespace, name, .. } = key;
        if namespace.is_empty() && self.is_confined() {
            return Some(format!(
                "cluster level {kind} \"{name}\" can not be managed when in namespaced mode; set `clusterResources` in the cluster Secret, or leave it out"
            ));
        }
        (!seen.is_empty() && !namespace.is_empty() && !seen.contains(namespace)).then(|| {
            format!(
                "namespace \"{namespace}\" for {kind} \"{name}\" is not managed; add it to `namespaces` of the cluster Secret"
            )
        })
    }

    /// True when all objects of the kind are in the copy: what is not there does not exist.
    pub fn is_read(&self, group: &str, kind: &str) -> bool {
        let pair = (group.to_owned(), kind.to_owned());
        self.inner.kinds.read().expect("no panic while locked").get(&pair) == Some(&Reading::Done)
    }

    /// True while a kind is being read for the first time, or again.
    pub fn is_waiting(&self, group: &str, kind: &str) -> bool {
        let pair = (group.to_owned(), kind.to_owned());
        self.inner.kinds.read().expect("no panic while locked").get(&pair) == Some(&Reading::Waiting)
    }

    /// Kinds that could not be read yet, as `group/kind`; while there are any, nothing may be thought gone.
    pub fn unread_kinds(&self) -> Vec<String> {
        let kinds = self.inner.kinds.read().expect("no panic while locked");
        let unread = kinds.iter().filter(|(_, reading)| **reading != Reading::Done);
        unread.map(|((group, kind), _)| format!("{group}/{kind}")).collect()
    }

    /// By which name objects are tracked from now on. Another rule than before reads everything again.
    pub fn track_by(&self, tracking: Tracking) {
        if self.inner.cache.track_by(tracking) {
            self.read_again();
        }
    }

    /// Keeps which fields these managers own. Asking for a new one reads everything again.
    pub fn retain_managers(&self, names: &[&str]) {
        if !names.is_empty() && self.inner.cache.retain_managers(names) {
            self.read_again();
        }
    }

    fn read_again(&self) {
        {
            let mut kinds = self.inner.kinds.write().expect("no panic while locked");
            kinds.values_mut().for_each(|reading| *reading = Reading::Waiting);
        }
        self.inner.again.notify_one();
    }

    /// Announces changes of these keys to the tracker too, and makes sure that their content is here.
    pub async fn set_interest(&self, tracker: &str, keys: HashSet<ObjectKey>) -> Result<(), ClusterError> {
        for key in self.inner.cache.set_interest(tracker, keys) {
            self.read(&key).await?;
        }
        Ok(())
    }

    /// Waits for changes and takes all of them. One reader only.
    pub async fn changes(&self) -> Vec<Change> {
        self.inner.cache.feed.take().await
    }

    /// How many objects the copy holds.
    pub fn cached_objects(&self) -> usize {
        self.inner.cache.len()
    }
}

pub(crate) async fn client(config: &ClusterConfig) -> Result<kube::Client, ClusterError> {
    let file = match (&config.given, &config.kubeconfig) {
        (Some(given), _) => format!("of {}", given.server),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => "in the pod".to_owned(),
    };
    let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| ClusterError::Kubeconfig {
        file: file.clone(),
        source,
    };
    let unusable = |detail: String| ClusterError::Unreachable { detail };
    let mut keeper = None;
    let reach = config.reach.clone().filter(|_| config.given.is_some());
    let mut connection = match (&config.given, &config.kubeconfig) {
        (Some(given), _) => {
            let (connection, kept) = given.connection().await.map_err(|error| match error {
                Refused::Program(words) => unusable(words),
                Refused::Config(error) => unreadable(error.into()),
            })?;
            keeper = kept;
            connection
        }
        (None, Some(path)) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| unreadable(error.into()))?;
            let options =
                KubeConfigOptions { context: config.context.clone(), ..KubeConfigOptions::default() };
            kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|error| unreadable(error.into()))?
        }
        (None, None) => kube::Config::incluster().map_err(|error| unreadable(error.into()))?,
    };
    if let (Some(reach), Some(host)) = (&reach, connection.cluster_url.host())
        && let Some(why) = reach.refusal_of_literal(host)
    {
        return Err(unusable(why));
    }
    connection.connect_timeout = Some(Duration::from_secs(10));
    // Watches end by themselves before this; plain requests have their own deadline.
    connection.read_timeout = Some(crate::watch::SERVER_TIMEOUT + Duration::from_secs(30));
    connection.write_timeout = Some(Duration::from_secs(30));
    // A credential program of a kubeconfig runs in here, and waits for whatever it likes.
    let making = tokio::task::spawn_blocking(move || make(connection, keeper, reach));
    match tokio::time::timeout(CREDENTIALS, making).await {
        Ok(Ok(Err(error @ kube::Error::Auth(_)))) => Err(unusable(crate::error::describe(&error))),
        Ok(Ok(made)) => made.map_err(|error| unreadable(error.into())),
        Ok(Err(error)) => Err(unreadable(error.into())),
        Err(_) => {
            Err(unusable(format!("its credential program did not end within {} s", CREDENTIALS.as_secs())))
        }
    }
}

fn make(
    connection: kube::Config,
    keeper: Option<Keeper>,
    reach: Option<Reach>,
) -> Result<kube::Client, kube::Error> {
    Ok(match reach {
        // Through a proxy nobody knows what is dialled; the other way refuses one too.
        Some(reach) if connection.proxy_url.is_none() => finished(reach.builder(connection)?, keeper),
        _ => finished(ClientBuilder::try_from(connection)?, keeper),
    })
}

/// The client, which carries a token that a program keeps good.
fn finished<S, B>(builder: ClientBuilder<S>, keeper: Option<Keeper>) -> kube::Client
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error: Into<BoxError>, Future: Send>
        + Send
        + 'static,
    B: http_body::Body<Data = bytes::Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let Some(keeper) = keeper.map(Arc::new) else { return builder.build() };
    let with_token = move |mut request: http::Request<Body>| {
        request.headers_mut().insert(http::header::AUTHORIZATION, keeper.header());
        request
    };
    builder.with_layer(&tower::util::MapRequestLayer::new(with_token)).build()
}

impl Cluster {
    /// A GET of a path, as JSON.
    pub(crate) async fn get_json(&self, path: &str, accept: Option<&str>) -> Result<Value, ClusterError> {
        let mut request = http::Request::get(path);
        if let Some(accept) = accept {
            request = request.header(http::header::ACCEPT, accept);
        }
        let request = request.body(Vec::new()).expect("paths are built from checked parts");
        self.send(request, path).await
    }
}
