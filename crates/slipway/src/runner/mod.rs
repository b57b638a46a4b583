//! `slipway runner`: an agent as a process of its own; and its installation in a cluster.

mod install;
mod manifests;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use slipway_api::agent::{CreateRunner, RunnerToken};
use slipway_model::Secret;
use slipway_runner::{ExecutorChoice, KubernetesConfig, Storage};
use tokio_util::sync::CancellationToken;

use crate::cli::context;
use crate::cli::output::{OutputArguments, done};
use crate::up::{log_to_stderr, signalled};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RunnerArguments {
    #[command(subcommand)]
    command: Option<RunnerCommand>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Subcommand)]
enum RunnerCommand {
    /// Create a registration token, valid for one hour and one runner
    Token {
        /// Its name, and the runtime environment that pipelines ask for
        name: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Install a runner in a cluster, with everything it needs and no more
    Install(Box<install::InstallArguments>),
    /// Remove a runner from its cluster and from the server
    Uninstall(install::UninstallArguments),
}

#[derive(Args)]
struct RunArguments {
    /// Address of the server; the runner connects to it and needs no inbound access
    #[arg(long, env = "SLIPWAY_URL")]
    server: Option<String>,
    /// Registration token, needed once: `slipway runner token NAME` prints one
    #[arg(long, env = "SLIPWAY_RUNNER_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File with the token
    #[arg(long, conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// Data folder of this runner: builds, volumes, logs and its key
    #[arg(long, default_value = ".slipway/runner", env = "SLIPWAY_DATA")]
    data: PathBuf,
    /// Maximum number of builds at the same time
    #[arg(long, default_value_t = 2)]
    capacity: u32,
    /// Run this one build and end with it: what pods of a Codefresh runner do, with a token that is for that build
    #[arg(long, value_name = "ID", conflicts_with = "capacity")]
    build: Option<String>,
    /// Where steps run
    #[arg(long, value_enum, default_value = "auto")]
    executor: Executor,
    /// For host: folders that steps may read besides the system's own
    #[arg(long)]
    read_only: Vec<PathBuf>,
    /// Connect to a server on another machine without TLS; anyone on the network path can read and change everything
    #[arg(long, env = "SLIPWAY_PLAIN_HTTP", value_parser = clap::builder::FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
    plain_http: bool,
    /// A file with certificates (PEM) that the server may show besides those that the system trusts: a private authority's
    #[arg(long, env = "SLIPWAY_CA")]
    ca: Option<PathBuf>,
    /// Minutes that a step may stay paused at a breakpoint
    #[arg(long, default_value_t = 15, env = "SLIPWAY_DEBUG_MINUTES")]
    debug_minutes: u32,
    /// A folder with definitions of step types (kind: step-type)
    #[arg(long)]
    step_types: Option<PathBuf>,
    /// A set of public keys (`slipway sign --new-key` prints one): pipelines that nobody signed with one of them are not run
    #[arg(long)]
    trust: Option<PathBuf>,
    /// Cluster that deploy steps may use, as NAME=KUBECONFIG; repeatable
    #[arg(long = "cluster", value_parser = cluster)]
    clusters: Vec<(String, PathBuf)>,
    /// What caches of dependencies may take of the disk, in GiB, and layers of images on Kubernetes once more; 0 keeps none
    #[arg(long, default_value_t = 10)]
    cache_gib: u64,
    #[command(flatten)]
    kubernetes: KubernetesArguments,
}

fn cluster(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("it is NAME=KUBECONFIG")?;
    Ok((name.to_owned(), path.into()))
}

#[derive(Clone, Copy, ValueEnum)]
enum Executor {
    /// Podman, else Docker, else the host
    Auto,
    Podman,
    Docker,
    /// Sandboxed processes of this machine
    Host,
    /// One pod per step
    Kubernetes,
}

// For --executor kubernetes. Not a doc comment: clap would take it for the whole command.
#[derive(Args, Clone)]
struct KubernetesArguments {
    /// The cluster; the pod's own service account by default
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    #[arg(long)]
    context: Option<String>,
    /// Namespace of the pods of steps
    #[arg(long, default_value = "slipway", env = "SLIPWAY_NAMESPACE")]
    namespace: String,
    /// The claim that is mounted at --data; without it, runner and node are taken to be the same machine
    #[arg(long)]
    claim: Option<String>,
    /// The only node that can mount the storage
    #[arg(long, env = "SLIPWAY_NODE")]
    node: Option<String>,
    /// CPU limit of every step, as Kubernetes writes it (2, 500m)
    #[arg(long)]
    cpu: Option<String>,
    /// Memory limit of every step, as Kubernetes writes it (4Gi)
    #[arg(long)]
    memory: Option<String>,
    /// Secrets of the namespace with registries' credentials, for images of steps
    #[arg(long = "image-pull-secret")]
    image_pull_secrets: Vec<String>,
    /// Builds images: has buildah and a shell
    #[arg(long, default_value = KubernetesConfig::BUILDER_IMAGE)]
    builder_image: String,
    /// Where images go that a build step names no registry for: host[:port][/prefix]
    #[arg(long)]
    registry: Option<String>,
    /// Registries without TLS
    #[arg(long = "insecure-registry")]
    insecure_registries: Vec<String>,
    /// A Docker config.json with credentials of registries, for image steps
    #[arg(long)]
    registry_config: Option<PathBuf>,
}

impl From<KubernetesArguments> for KubernetesConfig {
    fn from(arguments: KubernetesArguments) -> Self {
        let storage = arguments.claim.map_or(Storage::Host, Storage::Claim);
        Self {
            context: arguments.context,
            node: arguments.node,
            image_pull_secrets: arguments.image_pull_secrets,
            cpu: arguments.cpu,
            memory: arguments.memory,
            builder_image: arguments.builder_image,
            registry: arguments.registry,
            insecure_registries: arguments.insecure_registries,
            registry_config: arguments.registry_config,
            ..Self::new(arguments.kubeconfig, arguments.namespace, storage)
        }
    }
}

pub(crate) async fn run(arguments: RunnerArguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Some(RunnerCommand::Token { name, output }) => {
            let token = token(&name).await?;
            note!(
                "Runner {} can register until {} with this token; it is shown once:",
                token.name,
                token.expires
            );
            done(output, &token, &token.name, &token.token)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(RunnerCommand::Install(arguments)) => install::install(*arguments).await,
        Some(RunnerCommand::Uninstall(arguments)) => install::uninstall(arguments).await,
        None => work(arguments.run).await,
    }
}

async fn token(name: &str) -> anyhow::Result<RunnerToken> {
    Ok(context::client()?.post("/api/runners", &CreateRunner { name: name.to_owned() }).await?)
}

/// An agent's key and other people's secrets do not travel in clear, unless somebody says so.
pub(crate) fn check_address(server: &str, plain_http: bool, agent: &str) -> anyhow::Result<()> {
    let url: reqwest::Url = server.parse().with_context(|| format!("`{server}` is no address"))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    anyhow::ensure!(
        url.scheme() == "https" || (url.scheme() == "http" && (here || plain_http)),
        "{server} is not https: everybody on the way could read the {agent}'s key and change what it does. Use https, or --plain-http where nobody is on the way"
    );
    Ok(())
}

async fn work(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    let server = arguments.server.context("give --server, or one of: token, install, uninstall")?;
    check_address(&server, arguments.plain_http, "runner")?;
    let token = match (&arguments.token, &arguments.token_file) {
        (Some(token), _) => Some(token.clone()),
        // It is removed when it has done its work; that is no error.
        (None, Some(path)) => std::fs::read_to_string(path).ok(),
        (None, None) => None,
    };
    let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()).map(Secret::new);
    let stop = CancellationToken::new();
    let (stopping, ended) = (stop.clone(), signalled());
    tokio::spawn(async move {
        ended.await;
        stopping.cancel();
    });
    let ca = arguments
        .ca
        .as_ref()
        .map(|path| std::fs::read(path).with_context(|| format!("cannot read --ca {}", path.display())))
        .transpose()?;
    let registering = slipway_runner::registered(&server, token.as_ref(), &arguments.data, ca.as_deref());
    let (name, client) = tokio::select! {
        registered = registering => registered?,
        () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
    };
    let mut config = slipway_runner::Config::new(name, client, arguments.data);
    config.ca = ca.map(|pem| String::from_utf8_lossy(&pem).into_owned());
    config.capacity = if arguments.build.is_some() { 1 } else { arguments.capacity.max(1) };
    config.only = arguments.build;
    config.read_only = arguments.read_only;
    config.step_types = arguments.step_types;
    config.trust = arguments.trust;
    config.cache_bytes_max = arguments.cache_gib.saturating_mul(1 << 30);
    config.pause = std::time::Duration::from_secs(u64::from(arguments.debug_minutes.max(1)) * 60);
    config.clusters = arguments.clusters.into_iter().collect();
    config.executor = match arguments.executor {
        Executor::Auto => ExecutorChoice::Auto,
        Executor::Podman => ExecutorChoice::Podman,
        Executor::Docker => ExecutorChoice::Docker,
        Executor::Host => ExecutorChoice::Host,
        Executor::Kubernetes => ExecutorChoice::Kubernetes(Box::new(arguments.kubernetes.into())),
    };
    slipway_runner::run(config, stop).await?;
    Ok(ExitCode::SUCCESS)
}
