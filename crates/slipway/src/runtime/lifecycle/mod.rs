//! A runtime in a cluster, from its installation to its removal: `slipway runtime install|describe|upgrade|rollback|logs|doctor|uninstall`.
//!
//! In: a name, the caller's own kubeconfig and their sign-in at the platform. Every step looks at what is there and makes what is
//! missing, so that a command that was interrupted anywhere is finished by running it again. What is made in the cluster has a
//! mark ([`crate::kube::marks`]), by which it is found when it is to go; Applications and what they deployed are never touched.

mod apply;
mod checks;
mod install;
mod look;
mod progress;
mod remove;
mod state;
#[cfg(test)]
mod tests;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::output::OutputArguments;
use crate::kube::KubeArguments;
use state::Site;

#[derive(Args, Clone)]
pub(crate) struct SiteArguments {
    /// The runtime's name: at most 38 lowercase letters, digits and hyphens
    name: String,
    #[command(flatten)]
    kube: KubeArguments,
    /// Where it runs, and where its Applications are
    #[arg(short, long, default_value = "argocd")]
    namespace: String,
}

impl SiteArguments {
    fn site(&self) -> Site {
        Site { name: self.name.clone(), namespace: self.namespace.clone() }
    }
}

/// What may be said of an installation, and changed by an upgrade.
#[derive(Args, Clone, Default)]
pub(crate) struct ValueArguments {
    /// The image with the slipway binary, without its tag
    #[arg(long, value_name = "REPOSITORY")]
    image: Option<String>,
    /// The version to run; that of this program by default
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Processes that share the Applications
    #[arg(long)]
    replicas: Option<u32>,
    /// A file with values of the chart slipway-runtime; may be given several times
    #[arg(long, value_name = "FILE")]
    values: Vec<PathBuf>,
    /// A value of the chart slipway-runtime, as in `resources.requests.memory=1Gi`; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
}

#[derive(Args)]
pub(crate) struct InstallArguments {
    #[command(flatten)]
    site: SiteArguments,
    /// Address of the platform as seen from pods; that of the context in use by default
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The platform has no TLS; anyone on the network path can read and change everything
    #[arg(long)]
    plain_http: bool,
    /// A file with certificates (PEM) that the platform may show besides those that the image trusts
    #[arg(long, env = "SLIPWAY_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// How browsers and CLIs reach it
    #[arg(long, value_enum, default_value_t = AccessMode::Tunnel)]
    access_mode: AccessMode,
    /// The address at which an ingress, a gateway or something of your own leads to it
    #[arg(long, visible_alias = "ingress-url", value_name = "URL")]
    ingress_host: Option<String>,
    /// The class of the Ingress that is made
    #[arg(long, value_name = "CLASS")]
    ingress_class: Option<String>,
    /// The Gateway that the route is attached to
    #[arg(long, value_name = "NAME")]
    gateway_name: Option<String>,
    /// The Gateway's namespace; the runtime's own by default
    #[arg(long, value_name = "NAMESPACE")]
    gateway_namespace: Option<String>,
    /// A host for webhooks alone: it does not serve the app-proxy
    #[arg(long, value_name = "HOST")]
    external_host: Option<String>,
    /// Addresses and networks from which its tunnel may be used; from everywhere by default
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    ips_allow_list: Vec<String>,
    /// Labels of the namespace, if it is made
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    namespace_labels: Vec<String>,
    /// Do not ask whether the cluster is new enough, allows what is needed, and has a node that is ready
    #[arg(long)]
    skip_cluster_checks: bool,
    #[command(flatten)]
    values: ValueArguments,
    #[command(flatten)]
    waiting: WaitingArguments,
    /// Print the objects and change nothing
    #[arg(short, long, value_enum)]
    output: Option<Manifests>,
}

#[derive(Args, Clone)]
pub(crate) struct WaitingArguments {
    /// For how long it is waited until the runtime is online
    #[arg(long, default_value = "8m", value_name = "TIME", value_parser = duration)]
    wait_timeout: Duration,
    /// Progress as lines of JSON on standard output
    #[arg(long)]
    silent: bool,
}

#[derive(Args)]
pub(crate) struct UpgradeArguments {
    #[command(flatten)]
    site: SiteArguments,
    #[command(flatten)]
    values: ValueArguments,
    #[command(flatten)]
    waiting: WaitingArguments,
}

#[derive(Args)]
pub(crate) struct RollbackArguments {
    #[command(flatten)]
    site: SiteArguments,
    /// The revision to go back to; the last one before that was online by default (`slipway runtime describe` lists them)
    revision: Option<u32>,
    #[command(flatten)]
    waiting: WaitingArguments,
}

#[derive(Args)]
pub(crate) struct UninstallArguments {
    #[command(flatten)]
    site: SiteArguments,
    /// Leave the runtime registered at the platform
    #[arg(long)]
    cluster_only: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Progress as lines of JSON on standard output
    #[arg(long)]
    silent: bool,
}

#[derive(Args)]
pub(crate) struct DescribeArguments {
    #[command(flatten)]
    site: SiteArguments,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct LogsArguments {
    #[command(flatten)]
    site: SiteArguments,
    /// Ask the runtime itself instead, through the platform, however it was installed
    #[arg(long, conflicts_with_all = ["follow", "download"])]
    own: bool,
    /// With --own: of this component alone, such as applications, app-proxy, reports or tunnel
    #[arg(long, requires = "own", default_value = "")]
    component: String,
    /// Go on printing what is new
    #[arg(short, long)]
    follow: bool,
    /// Only so many of the last lines of each pod
    #[arg(long, default_value_t = 1000, value_name = "LINES")]
    tail: u64,
    /// Write the whole log of each pod into this archive (.tar) instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["follow", "tail"])]
    download: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AccessMode {
    /// Through the connection that the runtime opens
    Tunnel,
    /// By an Ingress that is made
    Ingress,
    /// By an HTTPRoute that is made
    Gateway,
    /// By something of your own, such as a mesh
    Url,
}

#[derive(Clone, Copy, ValueEnum)]
enum Manifests {
    Yaml,
    Json,
}

fn duration(text: &str) -> Result<Duration, String> {
    let nanos = slipway_dialect::duration::nanos(text)?;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| format!("`{text}` is not a time to wait"))
}

pub(crate) async fn install(arguments: InstallArguments) -> anyhow::Result<ExitCode> {
    install::install(arguments).await
}

pub(crate) async fn upgrade(arguments: UpgradeArguments) -> anyhow::Result<ExitCode> {
    install::upgrade(arguments).await
}

pub(crate) async fn rollback(arguments: RollbackArguments) -> anyhow::Result<ExitCode> {
    install::rollback(arguments).await
}

pub(crate) async fn uninstall(arguments: UninstallArguments) -> anyhow::Result<ExitCode> {
    remove::uninstall(arguments).await
}

pub(crate) async fn describe(arguments: DescribeArguments) -> anyhow::Result<ExitCode> {
    look::describe(arguments).await
}

pub(crate) async fn logs(arguments: LogsArguments) -> anyhow::Result<ExitCode> {
    look::logs(arguments).await
}

pub(crate) async fn doctor(arguments: DescribeArguments) -> anyhow::Result<ExitCode> {
    look::doctor(arguments).await
}
