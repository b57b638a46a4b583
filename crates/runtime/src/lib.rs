//! Room `runtime`: the engine loops of a cluster, its app-proxy and its reports.
//!
//! In: a kubeconfig, a data folder, and (if there is one) a client of the control plane. Applications in the cluster
//! are observed, compared, synced and reported on; the pure rooms decide, this one fetches, applies and writes
//! down. It dials the control plane and the repositories; nobody dials it but browsers, through the app-proxy.

mod app_proxy;
mod changes;
mod clusters;
mod compat;
mod context;
mod engines;
mod front;
mod github_tokens;
mod inventory;
mod listen;
mod metrics;
mod offline;
mod own_log;
mod plugins;
mod pushes;
mod report;
mod resync;
mod run;
mod services;
mod settings;
mod tunnel;
mod webhook;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use slipway_cluster::{Cluster, ClusterConfig, ClusterError};
use slipway_model::Backoff;
use slipway_source::{
    ChartCache, ChartError, ChartLimits, GitCache, GitError, GitOptions, RenderError, RenderLimits, Renderer,
};
use tokio_util::sync::CancellationToken;

pub use app_proxy::{app_proxy_graphql, app_proxy_router};
use compat::argocd_core;
pub use compat::argocd_core::CoreAddresses;
use context::Context;
pub use engines::engine_names;
pub use front::{Front, front_router, serve_front};
pub use offline::{RenderOffline, render_offline};
pub use own_log::OwnLog;
pub use plugins::PluginsError;
pub use services::{Route, Services};
pub use slipway_net::Rules as EgressRules;
pub use slipway_reconcile::{Sharing, SharingError};
pub use tunnel::{TunnelCounts, TunnelDial, TunnelState, keep_tunnel, keep_tunnel_inside};

/// Everything the runtime has to be told.
#[derive(Clone)]
pub struct Config {
    pub name: String,
    /// Where Applications and their Secrets live; `argocd` where users come from Argo CD.
    pub namespace: String,
    /// None: the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig; none: its current one.
    pub context: Option<String>,
    /// Mirrors and rendered manifests. It may be lost; it costs time, not truth.
    pub data: PathBuf,
    /// The control plane; none: the engine runs alone.
    pub server: Option<slipway_api::Client>,
    pub version: String,
    /// Where browsers reach the app-proxy, as an administrator says; empty: through a tunnel.
    pub ingress_url: String,
    /// What this process says of its work.
    pub own_log: Arc<OwnLog>,
    /// How its tunnel fares, told by whoever keeps it.
    pub tunnel: Arc<TunnelCounts>,
    /// What is deployed to, in a sentence.
    pub cluster: String,
    /// How it came here, for whoever looks at the list of runtimes: `up`, `helm` or `process`.
    pub installed_by: String,
    /// Name and version of the chart that it was installed by.
    pub chart: String,
    /// A folder with a `plugin.yaml` for each config-management plugin.
    pub plugins: Option<PathBuf>,
    /// Folders with helm, kustomize and jsonnet; they win over PATH.
    pub tools: Vec<PathBuf>,
    /// How the Applications are shared with other engines; none: this engine is alone.
    pub sharing: Option<Sharing>,
    /// Engines that do not run here, by their names in `GET /engines` (`applications`, `application-sets`, …). Their custom
    /// resources are reported all the same: somebody else may look after them.
    pub engines_off: Vec<String>,
    /// Rollouts are carried out; none: somebody else does it, or nobody.
    pub rollouts: Option<RolloutsConfig>,
    /// Workflows are carried out; none: somebody else does it, or nobody.
    pub workflows: Option<WorkflowsConfig>,
    /// Called before each write to the cluster; for tests that kill.
    pub before_write: Option<slipway_cluster::BeforeWrite>,
    /// Where metrics are served and webhooks come in.
    pub listen: Option<SocketAddr>,
    /// Where the `argocd` CLI is answered in `--core` mode; none: nowhere.
    pub argocd_core: Option<CoreAddresses>,
    /// Allow repositories on this machine's disk.
    pub allow_local_repositories: bool,
    /// Which addresses are asked because an ApplicationSet, a notification, a chart or a cluster's Secret names them. Services inside of the
    /// cluster are the normal case, so that without a word private addresses are; those from which a machine gets its
    /// own credentials never are.
    pub egress: slipway_net::Rules,
    /// Applications looked at at once.
    pub workers: usize,
    /// The safety net: every application is looked at this often even when nothing was heard.
    pub resync: Duration,
}

/// How Rollouts are looked after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutsConfig {
    /// Only those whose label `argo-rollouts.argoproj.io/controller-instance-id` says this; empty: only those without it.
    pub instance_id: String,
}

/// How Workflows are looked after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkflowsConfig {
    /// Only those whose label `workflows.argoproj.io/controller-instanceid` says this; empty: only those without it.
    pub instance_id: String,
    /// Only those of this namespace; none: of all.
    pub namespace: Option<String>,
    /// The image with the program that captures what containers leave; none: Workflows that need it are refused.
    pub executor_image: Option<String>,
}

impl Config {
    pub fn new(name: impl Into<String>, kubeconfig: Option<PathBuf>, data: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            namespace: "argocd".into(),
            kubeconfig,
            context: None,
            data: data.into(),
            server: None,
            version: env!("CARGO_PKG_VERSION").into(),
            ingress_url: String::new(),
            own_log: Arc::default(),
            tunnel: Arc::default(),
            cluster: String::new(),
            installed_by: "process".into(),
            chart: String::new(),
            plugins: None,
            sharing: None,
            engines_off: Vec::new(),
            rollouts: None,
            workflows: None,
            before_write: None,
            listen: None,
            argocd_core: None,
            tools: Vec::new(),
            allow_local_repositories: false,
            egress: slipway_net::Rules::default().with_private(),
            workers: 16,
            resync: Duration::from_secs(180),
        }
    }

    /// Which Rollouts, analyses and experiments are looked after: those with this id on them; empty: those without one.
    pub(crate) fn rollouts_instance_id(&self) -> String {
        self.rollouts.as_ref().map(|rollouts| rollouts.instance_id.clone()).unwrap_or_default()
    }

    /// What is switched off where Rollouts alone are looked after.
    pub fn all_but_rollouts() -> Vec<String> {
        Self::all_but(engines::OF_ROLLOUTS)
    }

    /// The same for Workflows.
    pub fn all_but_workflows() -> Vec<String> {
        Self::all_but(engines::OF_WORKFLOWS)
    }

    fn all_but(ours: &[&str]) -> Vec<String> {
        let others = engines::all_names().into_iter().filter(|name| !ours.contains(name));
        others.map(str::to_owned).collect()
    }

    /// Whether an engine does not run in this process.
    pub(crate) fn is_off(&self, engine: &str) -> bool {
        (engines::OF_ROLLOUTS.contains(&engine) && self.rollouts.is_none())
            || (engines::OF_WORKFLOWS.contains(&engine) && self.workflows.is_none())
            || self.engines_off.iter().any(|off| off == engine)
    }
}

/// Why the runtime cannot run at all. A cluster that is away is not among these: it is waited for.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error(transparent)]
    Plugins(#[from] plugins::PluginsError),
    #[error(transparent)]
    Cluster(ClusterError),
    #[error("cannot listen on {address}; choose another with --listen")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(
        "cannot listen on {address}, where the argocd CLI looks in --core mode; free it, or leave --argocd-core out"
    )]
    Core { address: SocketAddr, source: std::io::Error },
}

/// The runtime before and while it runs.
pub struct Runtime {
    config: Config,
    handle: Handle,
}

/// What the app-proxy needs of the runtime; empty until the cluster was reached.
#[derive(Clone, Default)]
pub struct Handle {
    pub(crate) running: Arc<OnceLock<Arc<app_proxy::Running>>>,
}

impl Handle {
    /// True when the engine watches its cluster.
    pub fn is_ready(&self) -> bool {
        self.running.get().is_some()
    }
}

impl Runtime {
    pub fn new(config: Config) -> Self {
        Self { config, handle: Handle::default() }
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs until the token is cancelled.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), RuntimeError> {
        let Self { config, handle } = self;
        let listener = match config.listen {
            Some(address) => Some(listen::bind(address).await?),
            None => None,
        };
        let core = match config.argocd_core {
            Some(addresses) => Some(argocd_core::bind(addresses).await?),
            None => None,
        };
        let options = GitOptions {
            allow_local: config.allow_local_repositories,
            egress: config.egress.clone(),
            ..GitOptions::default()
        };
        let git = Arc::new(GitCache::open(config.data.join("mirrors"), options)?);
        let charts = Arc::new(
            ChartCache::open(config.data.join("charts"), ChartLimits::default())?
                .reaching(config.egress.clone()),
        );
        let renderer = Renderer::new(git, config.data.join("rendered"), RenderLimits::default())?;
        let renderer = renderer.with_charts(charts).with_tools(config.tools.clone());
        renderer.set_plugins(plugins::read(config.plugins.as_deref())?);
        let Some((cluster, version)) = connect(&config, &shutdown).await? else { return Ok(()) };
        cluster.start(shutdown.clone()).await;
        if shutdown.is_cancelled() {
            return Ok(());
        }
        let context = Context::new(config, cluster, renderer, version);
        let peers = engines::Peers::new(&context);
        let pushes = Arc::new(pushes::Pushes::new(&context));
        let webhooks = Arc::new(webhook::Webhooks::new(&context, pushes.clone()));
        // The only place that sets it, once.
        let running = app_proxy::Running::new(&context, peers.applications.clone(), webhooks.clone());
        let _ = handle.running.set(Arc::new(running));
        tracing::info!(runtime = %context.config.name, namespace = %context.config.namespace, "The runtime is ready.");
        if let Some(listener) = listener {
            let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
            tracing::info!(%address, "Metrics and webhooks are served.");
            let serving = listen::serve(context.clone(), webhooks, listener, shutdown.clone());
            tokio::spawn(async move {
                if let Err(error) = serving.await {
                    tracing::error!(%error, "Metrics and webhooks are not served any more.");
                }
            });
        }
        if let Some(listeners) = core {
            let core = Arc::new(argocd_core::Core::new(&context, peers.applications.clone()));
            tokio::spawn(argocd_core::serve(core, listeners, shutdown.clone()));
        }
        run::run(context, &peers, pushes, shutdown).await;
        Ok(())
    }
}

/// [`Runtime::new`] and [`Runtime::run`] for those who need no app-proxy.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), RuntimeError> {
    Runtime::new(config).run(shutdown).await
}

/// Waits for the cluster as long as it takes; `None`: it was time to stop first.
async fn connect(
    config: &Config,
    shutdown: &CancellationToken,
) -> Result<Option<(Cluster, String)>, RuntimeError> {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_millis(6_400));
    loop {
        match connect_once(config).await {
            Ok(connected) => return Ok(Some(connected)),
            Err(error @ ClusterError::Kubeconfig { .. }) => return Err(RuntimeError::Cluster(error)),
            Err(error) => {
                if backoff.failures() == 0 {
                    tracing::warn!(%error, "The cluster cannot be used yet; trying again.");
                }
                tokio::select! {
                    () = shutdown.cancelled() => return Ok(None),
                    () = tokio::time::sleep(backoff.failed()) => {}
                }
            }
        }
    }
}

/// The definitions of what this process looks after.
fn definitions(config: &Config) -> Vec<serde_json::Value> {
    let is_on = |engine: &&str| !config.is_off(engine);
    let (rollouts, workflows) = (engines::OF_ROLLOUTS, engines::OF_WORKFLOWS);
    let names = engines::all_names();
    let mut gitops = names.iter().filter(|name| !rollouts.contains(name) && !workflows.contains(name));
    let gitops = if gitops.any(is_on) { slipway_crd::manifests() } else { Vec::new() };
    let rollouts = if rollouts.iter().any(is_on) { slipway_crd::rollout_manifests() } else { Vec::new() };
    let workflows = if workflows.iter().any(is_on) { slipway_crd::workflow_manifests() } else { Vec::new() };
    gitops.into_iter().chain(rollouts).chain(workflows).collect()
}

async fn connect_once(config: &Config) -> Result<(Cluster, String), ClusterError> {
    let mut connection = ClusterConfig::new(config.kubeconfig.clone());
    connection.context.clone_from(&config.context);
    connection.subscriptions = engines::subscriptions_at_home(config);
    connection.tracking = settings::tracking_by(None);
    connection.before_write.clone_from(&config.before_write);
    let cluster = Cluster::connect(connection).await?;
    cluster.ensure_definitions(&definitions(config)).await?;
    let namespace = serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": config.namespace}});
    if cluster.read(&slipway_cluster::ObjectKey::new("", "Namespace", "", &config.namespace)).await?.is_none()
    {
        match cluster.create(&namespace, slipway_cluster::WriteOptions::default()).await {
            Err(error) if !error.already_exists() => return Err(error),
            _ => {}
        }
    }
    let version = cluster.version().await?;
    Ok((cluster, version))
}
