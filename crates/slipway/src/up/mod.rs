//! `slipway up`: every role in one process on one machine. The runner and the runtime in it dial the
//! server over HTTP with keys of their own, as they would from anywhere else.

mod agents;
mod demo;
mod existing;
mod image;
mod ready;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use slipway_api::Client;
use slipway_runtime::OwnLog;
use slipway_server::{Config, EgressRules, Network, Seams, Server};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Long enough for answers under way, short enough for somebody who waits.
const DRAIN: Duration = Duration::from_secs(5);
/// For what is noted after the last answer, should the database not answer.
pub(crate) const LAST_NOTES: Duration = Duration::from_secs(2);
/// For asking the container engine what is left.
const COUNTING: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct UpArguments {
    /// Where everything is kept
    #[arg(long, default_value = ".slipway", env = "SLIPWAY_DATA")]
    data: PathBuf,
    /// Where the server listens; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8080", env = "SLIPWAY_LISTEN")]
    listen: SocketAddr,
    /// How to say that it is ready: text for people, or one line of JSON for programs
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Use a cluster of this kubeconfig instead of the embedded one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use this context's cluster instead of the embedded one; with --kubeconfig its current one by default, without it $KUBECONFIG or ~/.kube/config is read
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Where Applications and their Secrets are in that cluster [default: argocd]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Where builds run
    #[arg(long, value_enum, default_value_t = Executor::Auto)]
    executor: Executor,
    /// Do not make the demo repositories, pipeline and Application
    #[arg(long)]
    no_demo: bool,
    /// The image with slipway-executor, for outputs of containers of Workflows; those that need it are refused without it
    #[arg(long, value_name = "IMAGE")]
    executor_image: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
}

/// Whom the server believes and whom it may call.
#[derive(Args)]
pub(crate) struct NetworkArguments {
    /// A proxy in front whose X-Forwarded-For is believed; as often as needed
    #[arg(long = "trusted-proxy", env = "SLIPWAY_TRUSTED_PROXIES", value_delimiter = ',')]
    trusted_proxies: Vec<std::net::IpAddr>,
    /// A host, address or network inside that the server may call (an identity provider, say); as often as needed
    #[arg(long, env = "SLIPWAY_EGRESS_ALLOW", value_delimiter = ',')]
    egress_allow: Vec<String>,
    /// `none`: the server opens no connection to anybody, its database, broker, cache and other processes aside; what needs one is refused
    /// and says so
    #[arg(long, env = "SLIPWAY_EGRESS", value_enum, default_value_t = Egress::Checked, conflicts_with = "egress_allow")]
    egress: Egress,
    /// Seconds without a word from a runner after which its builds go to others; it stops them itself before that
    #[arg(long, default_value_t = slipway_server::Network::RUNNER_SILENCE_SECONDS, value_parser = clap::value_parser!(u32).range(10..))]
    runner_silence: u32,
    /// Below it every tunnel of a runtime has a host of its own (a wildcard in DNS points here); without it tunnels are paths of the platform's address
    #[arg(long, env = "SLIPWAY_TUNNEL_DOMAIN", value_name = "HOST[:PORT]")]
    tunnel_domain: Option<String>,
    /// The image with the slipway binary and git that Codefresh runners start for a build
    #[arg(long, default_value = slipway_server::Network::RUNNER_IMAGE, env = "SLIPWAY_RUNNER_IMAGE")]
    runner_image: String,
    /// A file, or an https address, that says which releases there are: `slipway version --check` and the API tell of updates from it
    #[arg(long, env = "SLIPWAY_RELEASE_FEED", value_name = "FILE|URL")]
    release_feed: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Egress {
    /// Public addresses, and what `--egress-allow` names
    Checked,
    /// Nobody
    None,
}

impl NetworkArguments {
    pub(crate) fn read(self) -> anyhow::Result<Network> {
        Ok(Network {
            trusted_proxies: self.trusted_proxies,
            egress_allowed: EgressRules::parse(&self.egress_allow)
                .map_err(|error| anyhow!("--egress-allow: {error}"))?,
            egress_none: self.egress == Egress::None,
            runner_silence_seconds: Some(self.runner_silence),
            runner_image: Some(self.runner_image),
            tunnel_domain: self.tunnel_domain.filter(|domain| !domain.is_empty()),
            peer_url: None,
            release_feed: self.release_feed.filter(|place| !place.is_empty()),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Executor {
    /// Podman, else Docker, else the host
    Auto,
    Podman,
    Docker,
    /// Processes in Linux namespaces
    Host,
}

pub(crate) async fn up(arguments: UpArguments) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    let of_somebody = arguments.kubeconfig.is_some() || arguments.context.is_some();
    anyhow::ensure!(
        of_somebody || arguments.namespace.is_none(),
        "--namespace is for a cluster of your own: give --kubeconfig or --context"
    );
    crate::private::folder(&arguments.data)?;
    let data = arguments.data.canonicalize()?;
    let _lock = lock(&data)?;
    // Before anything is made: a cluster that cannot be used leaves nothing behind.
    let existing = match of_somebody {
        true => {
            let kube = crate::kube::KubeArguments {
                kubeconfig: arguments.kubeconfig.clone(),
                context: arguments.context.clone(),
            };
            let namespace = arguments.namespace.as_deref().unwrap_or("argocd");
            Some(existing::prepare(&kube, namespace, &data).await?)
        }
        false => None,
    };
    // Its pods run images of this machine, which a cluster elsewhere cannot pull.
    let with_demo = !arguments.no_demo && existing.is_none();
    let listener = tokio::net::TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}: choose another with --listen", arguments.listen))?;
    let url = format!("http://{}", reachable(listener.local_addr()?));
    let stop = CancellationToken::new();
    let network = arguments.network.read()?;
    let config = Config { data: data.clone(), public_url: url.clone(), network };
    let server = Server::open(config, Seams::system(), stop.clone())?;
    let first = server.first_start("admin@slipway.local").await?;
    let account = server.first_account().await?.context("the database has no account")?;
    if with_demo {
        demo::seed(&server, account).await.context("cannot make the demo")?;
    }
    let keys = agents::keys(&server, account, &data).await?;

    let (kubeconfig, cluster_words) = match &existing {
        Some(existing) => (
            existing.chosen.file.clone(),
            format!("{}, Kubernetes {}", existing.chosen.words(), existing.version),
        ),
        None => embedded(&data, &stop).await?,
    };
    let mut config =
        slipway_runtime::Config::new(agents::RUNTIME, Some(kubeconfig.clone()), data.join("runtime"));
    config.own_log = own_log();
    let platform = Client::new(&url, keys.runtime);
    config.server = Some(platform.clone());
    config.rollouts = Some(slipway_runtime::RolloutsConfig::default());
    config.workflows = Some(slipway_runtime::WorkflowsConfig {
        executor_image: arguments.executor_image.clone(),
        ..slipway_runtime::WorkflowsConfig::default()
    });
    config.cluster.clone_from(&cluster_words);
    config.installed_by = "up".into();
    if let Some(existing) = &existing {
        config.context = Some(existing.chosen.context.name.clone());
        config.namespace.clone_from(&existing.namespace);
    }
    let app = slipway_server::router(&server);
    let serving = tokio::spawn(slipway_server::serve(listener, app, stop.clone()));
    let mut roles = tokio::task::JoinSet::new();
    let follow_up = server.clone();
    roles.spawn(async move { follow_up.run().await });
    let (runtime_stop, git_key) = (stop.clone(), keys.git.clone());
    // As any other: it dials the server, and callers come through its tunnel.
    let door = crate::runtime::Door {
        listener: tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?,
        external_host: None,
        ingress_url: None,
        ca: None,
        raw_tunnel: false,
        services: slipway_runtime::Services::new(Vec::new(), Vec::new()),
    };
    roles.spawn(async move {
        if let Err(error) = crate::runtime::connected(config, platform, door, runtime_stop).await {
            tracing::error!(error = format!("{error:#}"), "The GitOps runtime has stopped.");
        }
    });
    let choice = match arguments.executor {
        Executor::Auto => slipway_runner::ExecutorChoice::Auto,
        Executor::Podman => slipway_runner::ExecutorChoice::Podman,
        Executor::Docker => slipway_runner::ExecutorChoice::Docker,
        Executor::Host => slipway_runner::ExecutorChoice::Host,
    };
    let mut runner =
        slipway_runner::Config::new(agents::RUNNER, Client::new(&url, keys.runner), data.join("runner"));
    let with_image = with_demo && choice != slipway_runner::ExecutorChoice::Host;
    runner.executor = choice;
    // Steps that run on the host do not see the platform's own files.
    runner.hide = vec![data.clone()];
    let runner_stop = stop.clone();
    roles.spawn(async move {
        // Steps of the demo run in this image, so it is there before the first build is taken.
        if with_image {
            image::ensure_demo_base().await;
        }
        if let Err(error) = slipway_runner::run(runner, runner_stop).await {
            tracing::error!(error = format!("{error:#}"), "The runner has stopped.");
        }
    });
    if with_demo || existing.is_some() {
        let into = demo::Into::new(&kubeconfig, existing.as_ref());
        let (url, stop) = (url.clone(), stop.clone());
        roles.spawn(async move { demo::deploy(&into, &url, &git_key, &stop).await });
    }
    let ended = signalled();
    ready::announce(
        arguments.output,
        &url,
        first.as_ref(),
        &data,
        &kubeconfig,
        &cluster_words,
        existing.as_ref(),
        with_demo,
    )?;

    ended.await;
    tracing::info!("Stopping: completing the requests in progress.");
    stop.cancel();
    let drained = async {
        let _ = serving.await;
        while roles.join_next().await.is_some() {}
    };
    let _ = tokio::time::timeout(DRAIN, drained).await;
    let _ = tokio::time::timeout(LAST_NOTES, server.finish()).await;
    server.close();
    if existing.is_none() {
        left_running(&data).await;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn devcluster(
    data: PathBuf,
    listen: SocketAddr,
    kubeconfig: Option<PathBuf>,
) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    let stop = CancellationToken::new();
    let kubeconfig = kubeconfig.unwrap_or_else(|| data.join("kubeconfig"));
    let config = slipway_devcluster::Config { data, listen, kubeconfig, engine: None };
    let running = slipway_devcluster::start(config, stop.clone()).await?;
    let ended = signalled();
    say!(
        "The embedded cluster is for one machine, for trying out and testing; docs/devcluster.md lists what is not in it."
    );
    say!("API         {}", running.url);
    say!(
        "Pods        {}",
        running
            .engine
            .as_deref()
            .map_or_else(|why| format!("will not run: {why}"), |by| format!("run by {by}"))
    );
    say!("Try         kubectl --kubeconfig {} get nodes", running.kubeconfig.display());
    ended.await;
    stop.cancel();
    running.stopped().await;
    Ok(ExitCode::SUCCESS)
}

/// Pods outlive their cluster on purpose; whoever stops the platform hears that they do.
async fn left_running(data: &Path) {
    let cluster = data.join("cluster");
    let counting = slipway_devcluster::count_containers(&cluster, None);
    match tokio::time::timeout(COUNTING, counting).await {
        Ok(Ok(0)) => {}
        Ok(Ok(count)) => note!(
            "{count} containers of pods keep running; `slipway down --data {}` removes them",
            data.display()
        ),
        _ => note!(
            "Containers of pods may keep running; `slipway down --data {}` removes them",
            data.display()
        ),
    }
}

pub(crate) async fn down(data: &Path, remove: bool) -> anyhow::Result<ExitCode> {
    let data = data.canonicalize().with_context(|| format!("there is no folder {}", data.display()))?;
    let _lock = lock(&data)?;
    let elsewhere = existing::down(&data, remove).await?;
    anyhow::ensure!(
        elsewhere || !remove,
        "--remove is for a platform on a cluster of your own; this one has put nothing into any"
    );
    // A platform that never had an embedded cluster has no containers to ask an engine about.
    if !data.join("cluster").exists() {
        return Ok(ExitCode::SUCCESS);
    }
    let removed = slipway_devcluster::remove_containers(&data.join("cluster"), None).await?;
    say!("Removed {removed} containers; the data in {} stays", data.display());
    Ok(ExitCode::SUCCESS)
}

/// The GitOps engine alone: no control plane, nothing but the cluster and its repositories.
pub(crate) async fn engine(config: slipway_runtime::Config) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    let stop = CancellationToken::new();
    let (stopping, ended) = (stop.clone(), signalled());
    tokio::spawn(async move {
        ended.await;
        stopping.cancel();
    });
    slipway_runtime::run(config, stop).await?;
    Ok(ExitCode::SUCCESS)
}

async fn embedded(data: &Path, stop: &CancellationToken) -> anyhow::Result<(PathBuf, String)> {
    let kubeconfig = data.join("kubeconfig");
    let config = slipway_devcluster::Config {
        data: data.join("cluster"),
        listen: "127.0.0.1:0".parse().expect("a loopback address"),
        kubeconfig: kubeconfig.clone(),
        engine: None,
    };
    let running =
        slipway_devcluster::start(config, stop.clone()).await.context("the embedded cluster cannot start")?;
    let pods = match &running.engine {
        Ok(engine) => format!("pods run by {engine}"),
        Err(why) => format!("pods stay Pending: {why}"),
    };
    Ok((kubeconfig, format!("the embedded cluster, {pods}")))
}

/// Held until the process ends, however it ends.
fn lock(data: &Path) -> anyhow::Result<std::fs::File> {
    let file = std::fs::File::create(data.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            bail!("another slipway uses {}: stop it, or give --data another folder", data.display())
        }
        Err(std::fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

/// An address that listens everywhere is reached here by loopback.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    address
}

pub(crate) fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SLIPWAY_LOG")
        .or_else(|_| tracing_subscriber::EnvFilter::try_from_default_env())
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,slipway=info"));
    let own = own_log().layer().with_filter(LevelFilter::INFO);
    let printed = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(filter);
    let _ = tracing_subscriber::registry().with(printed).with(own).try_init();
    if std::env::var("SLIPWAY_TOOLS_SEE_THIS_MACHINE").is_ok_and(|word| word == "yes") {
        slipway_cage::permit_open_files();
    }
    match slipway_cage::level() {
        Ok(slipway_cage::Level::Filter) => {
            tracing::warn!(
                "git, helm and other tools can read everything that this process can read, as configured."
            );
        }
        Ok(level) => tracing::info!(by = level.describe(), "git, helm and other tools are confined."),
        Err(error) => tracing::error!(%error, "Not starting git, helm and other tools."),
    }
}

/// What this process says of its work, as its runtime shows it to Administrators.
pub(crate) fn own_log() -> Arc<OwnLog> {
    static KEPT: LazyLock<Arc<OwnLog>> = LazyLock::new(Arc::default);
    KEPT.clone()
}

/// Listens for the signals that end a process from this call on, not from the first poll: whoever reads "ready" may
/// signal at once.
pub(crate) fn signalled() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("signals work");
    let mut interrupt = signal(SignalKind::interrupt()).expect("signals work");
    async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
