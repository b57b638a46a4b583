//! `slipway runtime`: a GitOps runtime as a process of its own, connected to a platform elsewhere; and runtimes as the platform knows them.

mod chart;
mod connected;
mod git;
mod lifecycle;
mod registry;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use slipway_api::Client;
use slipway_model::Secret;
use tokio_util::sync::CancellationToken;

pub(crate) use connected::{Door, connected};

use crate::cli::nouns::{DeleteNames, KeptCommand, ListOptions, OneArguments, run_kept};
use crate::cli::output::OutputArguments;
use crate::up::{log_to_stderr, signalled};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RuntimeArguments {
    #[command(subcommand)]
    command: Option<RuntimeCommand>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Subcommand)]
enum RuntimeCommand {
    /// Run a runtime that connects to a platform; the same as `slipway runtime` with options alone
    Run(Box<RunArguments>),
    /// List all
    List(ListOptions),
    /// Show one
    Get(OneArguments),
    /// Register one; its token is shown once
    Create(registry::CreateArguments),
    /// Call one otherwise; its token and what it reported stay
    Rename {
        name: String,
        to: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Install one in a cluster of your kubeconfig, or finish an installation that was interrupted
    Install(Box<lifecycle::InstallArguments>),
    /// Show an installed one: its state, its pods, its revisions
    Describe(lifecycle::DescribeArguments),
    /// Change an installed one: another version, other values
    Upgrade(Box<lifecycle::UpgradeArguments>),
    /// Go back to an earlier revision of an installed one
    Rollback(lifecycle::RollbackArguments),
    /// Remove an installed one, with all that was made for it; Applications and what they deployed stay
    Uninstall(lifecycle::UninstallArguments),
    /// Print what the pods of an installed one say
    Logs(lifecycle::LogsArguments),
    /// Check an installed one, and say what to do about what is wrong
    Doctor(lifecycle::DescribeArguments),
    /// Change how one is reached
    Set(registry::SetArguments),
    /// Create a new token for one; the old one stops working at once
    Token {
        name: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Revoke the token of one: its connections end at once
    Revoke {
        name: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Delete one or more; nothing changes in their clusters
    Delete(DeleteNames),
    /// Your own Git token at a runtime, and commits with it
    #[command(subcommand)]
    Git(git::GitCommand),
}

#[derive(Args)]
struct RunArguments {
    /// Address of the platform; the runtime connects to it and needs no inbound access
    #[arg(long, env = "SLIPWAY_URL")]
    server: Option<String>,
    /// The runtime's token: `slipway runtime create NAME` prints one. Arguments are seen by others on the machine: prefer the variable, or --token-file
    #[arg(long, env = "SLIPWAY_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File with the token
    #[arg(long, conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// The cluster; the pod's own service account when left out
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Where the Applications and their Secrets are
    #[arg(long, default_value = "argocd")]
    namespace: String,
    /// What people read about the cluster
    #[arg(long, value_name = "WORDS")]
    cluster: Option<String>,
    /// Where mirrors of repositories and rendered manifests are kept
    #[arg(long, default_value = ".slipway/runtime", env = "SLIPWAY_DATA")]
    data: PathBuf,
    /// Where requests come in: an ingress sends them here, the tunnel ends here; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where an ingress, or a mesh, makes this runtime reachable, as it was registered; without it a tunnel does
    #[arg(long, value_name = "URL")]
    ingress_url: Option<String>,
    /// A host that is for webhooks alone: it does not serve the app-proxy
    #[arg(long, value_name = "HOST")]
    external_host: Option<String>,
    /// A service that callers reach below a path of this runtime, as `/workflows=http://argo-server.argo.svc:2746`; may be given several times
    #[arg(long, value_name = "PREFIX=URL")]
    route: Vec<slipway_runtime::Route>,
    /// A namespace whose event sources get webhooks at `/webhooks/NAMESPACE/EVENTSOURCE`; may be given several times
    #[arg(long, value_name = "NAMESPACE")]
    events_namespace: Vec<String>,
    /// Open the tunnel without WebSocket frames around it; proxies on the way may not let it through
    #[arg(long)]
    raw_tunnel: bool,
    /// Connect to a platform on another machine without TLS; anyone on the network path can read and change everything
    #[arg(long, env = "SLIPWAY_PLAIN_HTTP", value_parser = clap::builder::FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
    plain_http: bool,
    /// A file with certificates (PEM) that the platform may show besides those that the system trusts
    #[arg(long, env = "SLIPWAY_CA")]
    ca: Option<PathBuf>,
    /// Where metrics are served; nowhere when left out
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
    /// Only Rollouts whose label argo-rollouts.argoproj.io/controller-instance-id says this
    #[arg(long, default_value = "", value_name = "ID")]
    rollouts_instance_id: String,
    /// Only Workflows whose label workflows.argoproj.io/controller-instanceid says this
    #[arg(long, default_value = "", value_name = "ID")]
    workflows_instance_id: String,
    /// The image with slipway-executor, for outputs of containers of Workflows; those that need it are refused without it
    #[arg(long, value_name = "IMAGE")]
    executor_image: Option<String>,
    /// Name and version of the chart that it was installed by; the chart says so itself
    #[arg(long, env = "SLIPWAY_CHART", value_name = "CHART", hide = true)]
    chart: Option<String>,
    #[command(flatten)]
    engines: EngineOptions,
}

/// What `slipway engine gitops` and a runtime have in common.
#[derive(Args)]
pub(crate) struct EngineOptions {
    /// Allow repositories on this machine's disk (`file://`)
    #[arg(long)]
    allow_local_repositories: bool,
    /// A folder with a plugin.yaml for each config-management plugin
    #[arg(long)]
    plugins: Option<PathBuf>,
    /// A folder with helm, kustomize or jsonnet, which wins over PATH; may be given several times
    #[arg(long)]
    tools: Vec<PathBuf>,
    /// Do not share the Applications with other engines of the namespace: this one is the only one
    #[arg(long)]
    alone: bool,
    /// Seconds without a sign of life after which other engines take this one's Applications over
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=600))]
    lease_seconds: u64,
    /// The Deployment whose pods share the Applications: what they write down for that goes with it
    #[arg(long, env = "SLIPWAY_DEPLOYMENT", value_name = "NAME")]
    deployment: Option<String>,
    /// Answer the argocd CLI in --core mode, on 127.0.0.1:6379 and :8081, where its port-forward ends
    #[arg(long)]
    argocd_core: bool,
    /// Leave this to a controller of Argo CD; may be given several times
    #[arg(long, value_name = "ENGINE", value_parser = slipway_runtime::engine_names())]
    without: Vec<String>,
    /// Ask no private address because an ApplicationSet, a notification, a chart or a managed cluster names it
    #[arg(long)]
    egress_public: bool,
    /// An address that may be asked all the same: a host, an address or a network; may be given several times
    #[arg(long)]
    egress_allow: Vec<String>,
}

impl EngineOptions {
    pub(crate) fn apply(self, config: &mut slipway_runtime::Config) -> anyhow::Result<()> {
        config.allow_local_repositories = self.allow_local_repositories;
        let rules = slipway_runtime::EgressRules::parse(&self.egress_allow)
            .map_err(|error| anyhow::anyhow!("--egress-allow: {error}"))?;
        config.egress = if self.egress_public { rules } else { rules.with_private() };
        config.plugins = self.plugins;
        config.argocd_core = self.argocd_core.then(slipway_runtime::CoreAddresses::default);
        config.tools = self.tools;
        config.engines_off = self.without;
        if !self.alone {
            let mut sharing = slipway_runtime::Sharing::of_folder(&config.data)?;
            sharing.lease = Duration::from_secs(self.lease_seconds);
            sharing.owner = self.deployment.filter(|name| !name.is_empty());
            config.sharing = Some(sharing);
        }
        Ok(())
    }
}

pub(crate) async fn run(arguments: RuntimeArguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        None => work(arguments.run).await,
        Some(RuntimeCommand::Run(run)) => work(*run).await,
        Some(RuntimeCommand::List(options)) => run_kept("runtime", KeptCommand::List(options)).await,
        Some(RuntimeCommand::Get(one)) => run_kept("runtime", KeptCommand::Get(one)).await,
        Some(RuntimeCommand::Delete(names)) => run_kept("runtime", KeptCommand::Delete(names)).await,
        Some(RuntimeCommand::Git(command)) => git::run(command).await,
        Some(RuntimeCommand::Install(arguments)) => lifecycle::install(*arguments).await,
        Some(RuntimeCommand::Describe(arguments)) => lifecycle::describe(arguments).await,
        Some(RuntimeCommand::Upgrade(arguments)) => lifecycle::upgrade(*arguments).await,
        Some(RuntimeCommand::Rollback(arguments)) => lifecycle::rollback(arguments).await,
        Some(RuntimeCommand::Uninstall(arguments)) => lifecycle::uninstall(arguments).await,
        Some(RuntimeCommand::Logs(arguments)) => lifecycle::logs(arguments).await,
        Some(RuntimeCommand::Doctor(arguments)) => lifecycle::doctor(arguments).await,
        Some(RuntimeCommand::Create(create)) => registry::create(create).await,
        Some(RuntimeCommand::Rename { name, to, output }) => registry::rename(&name, to, output).await,
        Some(RuntimeCommand::Set(set)) => registry::set(set).await,
        Some(RuntimeCommand::Token { name, output }) => registry::token(&name, output).await,
        Some(RuntimeCommand::Revoke { name, output }) => registry::revoke(&name, output).await,
    }
}

async fn work(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    let server = arguments
        .server
        .context("give --server, or one of: run, install, list, get, describe, create, rename, set, token, revoke, upgrade, rollback, uninstall, logs, doctor, delete")?;
    crate::runner::check_address(&server, arguments.plain_http, "runtime")?;
    let token = match (&arguments.token, &arguments.token_file) {
        (Some(token), _) => token.clone(),
        (None, Some(path)) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --token-file {}", path.display()))?,
        (None, None) => String::new(),
    };
    let token = token.trim().to_owned();
    // A runtime without one would be refused by the platform, and nobody would look there.
    anyhow::ensure!(
        !token.is_empty(),
        "give the runtime's token in SLIPWAY_TOKEN, --token-file or --token: `slipway runtime create NAME` prints one"
    );
    let ca = arguments
        .ca
        .as_ref()
        .map(|path| std::fs::read(path).with_context(|| format!("cannot read --ca {}", path.display())))
        .transpose()?;
    let client = Client::trusting(&server, Secret::new(token), ca.as_deref()).map_err(anyhow::Error::msg)?;
    crate::private::folder(&arguments.data)?;
    let stop = CancellationToken::new();
    let (stopping, ended) = (stop.clone(), signalled());
    tokio::spawn(async move {
        ended.await;
        tracing::info!("Stopping: completing what is under way.");
        stopping.cancel();
    });
    let mut config = slipway_runtime::Config::new("", arguments.kubeconfig.clone(), arguments.data);
    config.own_log = crate::up::own_log();
    config.namespace = arguments.namespace;
    config.cluster = arguments.cluster.unwrap_or_else(|| match &arguments.kubeconfig {
        Some(path) => format!("the cluster of {}", path.display()),
        None => "the cluster that it runs in".to_owned(),
    });
    if let Some(chart) = arguments.chart {
        (config.installed_by, config.chart) = ("helm".into(), chart);
    }
    config.server = Some(client.clone());
    config.rollouts = Some(slipway_runtime::RolloutsConfig { instance_id: arguments.rollouts_instance_id });
    config.workflows = Some(slipway_runtime::WorkflowsConfig {
        instance_id: arguments.workflows_instance_id,
        executor_image: arguments.executor_image,
        ..slipway_runtime::WorkflowsConfig::default()
    });
    config.listen = arguments.metrics_listen;
    arguments.engines.apply(&mut config)?;
    let listener = tokio::net::TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}: choose another with --listen", arguments.listen))?;
    let door = Door {
        listener,
        external_host: arguments.external_host,
        ingress_url: arguments.ingress_url,
        ca,
        raw_tunnel: arguments.raw_tunnel,
        services: slipway_runtime::Services::new(arguments.route, arguments.events_namespace),
    };
    connected(config, client, door, stop).await?;
    Ok(ExitCode::SUCCESS)
}
