//! `slipway cluster`: clusters that runtimes deploy to besides their own.
//!
//! `add` makes an account in the cluster with the caller's own kubeconfig, and gives its token to the runtime, which tries it and keeps
//! it: the platform hears the cluster's name and address. `remove` makes the runtime forget it; nothing that runs there changes.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde_json::Value;
use slipway_api::Client;
use slipway_api::managed_cluster::{ClusterAdd, ClusterAdded, ClusterRemove, ClusterRemoved, ManagedCluster};
use slipway_api::runtime::Runtime;
use slipway_cluster::{Cluster, ObjectKey, Propagation, Right, WriteOptions};

use super::cluster_account::Account;
use super::nouns::confirm;
use super::output::{OutputArguments, done, print, when};
use super::{context, proxy};
use crate::kube::{Chosen, KubeArguments};

/// For Kubernetes to make the account's token.
const TOKEN_WITHIN: Duration = Duration::from_secs(30);
const NAME_CHARS_MAX: usize = 63;

#[derive(Subcommand)]
pub(crate) enum ClusterCommand {
    /// List the clusters of all runtimes, with how they are reached
    List(OutputArguments),
    /// Let a runtime deploy to a cluster of your kubeconfig
    Add(Box<AddArguments>),
    /// Make a runtime forget a cluster; what runs there stays
    Remove(RemoveArguments),
}

#[derive(Args)]
pub(crate) struct AddArguments {
    /// The runtime; may be left out when there is one
    runtime: Option<String>,
    #[command(flatten)]
    kube: KubeArguments,
    /// What it is called, at most 63 lowercase letters, digits and hyphens; made from the context's name by default
    #[arg(long)]
    name: Option<String>,
    /// The address of its API as the runtime reaches it; that of the kubeconfig by default
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A label of the cluster, for ApplicationSets; may be given several times
    #[arg(long = "label", visible_alias = "labels", value_name = "KEY=VALUE", value_delimiter = ',')]
    labels: Vec<String>,
    /// An annotation of the cluster; may be given several times
    #[arg(
        long = "annotation",
        visible_alias = "annotations",
        value_name = "KEY=VALUE",
        value_delimiter = ','
    )]
    annotations: Vec<String>,
    /// Do not check the cluster's certificate; anyone on the network path can read and change everything
    #[arg(long)]
    skip_tls_validation: bool,
    /// Where the account is made in the cluster
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    system_namespace: String,
    /// Print the manifests that would be applied in the cluster, and change nothing anywhere
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct RemoveArguments {
    /// The cluster's name
    name: String,
    /// The runtime; may be left out when there is one
    #[arg(long)]
    runtime: Option<String>,
    #[command(flatten)]
    kube: KubeArguments,
    /// Where the account is in the cluster
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    system_namespace: String,
    /// Also when Applications still go there
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) async fn run(command: ClusterCommand) -> anyhow::Result<ExitCode> {
    match command {
        ClusterCommand::List(output) => list(output).await?,
        ClusterCommand::Add(arguments) => add(*arguments).await?,
        ClusterCommand::Remove(arguments) => remove(arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(output: OutputArguments) -> anyhow::Result<()> {
    let all: Vec<ManagedCluster> = context::client()?.get("/api/gitops/clusters").await?;
    let row = |one: &ManagedCluster| {
        vec![
            one.name.clone(),
            one.runtime.clone(),
            one.state.clone(),
            one.since.as_deref().map(when).unwrap_or_default(),
            one.server_version.clone(),
            one.applications.to_string(),
            one.server.clone(),
            one.message.clone(),
        ]
    };
    let heads = ["NAME", "RUNTIME", "STATUS", "SINCE", "KUBERNETES", "APPLICATIONS", "SERVER", "MESSAGE"];
    print(
        output.output,
        &all,
        &heads,
        row,
        "No runtime has reported a cluster yet: `slipway runtime --help`.",
    )
}

/// The one that is meant, or the only one.
async fn runtime(client: &Client, named: Option<String>) -> anyhow::Result<String> {
    let all: Vec<Runtime> = client.get("/api/runtimes").await?;
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    match (named, names.as_slice()) {
        (Some(name), names) if names.contains(&name.as_str()) => Ok(name),
        (Some(name), []) => bail!("there is no runtime `{name}`, nor any other"),
        (Some(name), names) => bail!("there is no runtime `{name}`: there are {}", names.join(", ")),
        (None, [one]) => Ok((*one).to_owned()),
        (None, []) => bail!("there is no runtime yet: `slipway runtime create NAME` registers one"),
        (None, names) => bail!("say which runtime: {}", names.join(", ")),
    }
}

async fn add(arguments: AddArguments) -> anyhow::Result<()> {
    let (labels, annotations) = (pairs(&arguments.labels)?, pairs(&arguments.annotations)?);
    let chosen = arguments.kube.choose()?;
    let client = context::client()?;
    let runtime = runtime(&client, arguments.runtime.clone()).await?;
    let account = Account::new(client.base(), &runtime, &arguments.system_namespace);
    if arguments.dry_run {
        let documents: Vec<String> = account.objects().iter().map(slipway_yaml::to_yaml).collect();
        say_part!("{}", documents.join("---\n"));
        note!("Nothing was changed: these would be applied to {}", chosen.words());
        return Ok(());
    }
    let server = arguments.server.clone().unwrap_or_else(|| chosen.context.server.clone());
    let server = server.trim_end_matches('/').to_owned();
    let name = name_of(&client, &runtime, &server, &arguments, &chosen).await?;
    let insecure = arguments.skip_tls_validation || chosen.context.is_insecure;
    let (cluster, _) = chosen.connect().await?;
    chosen.require(&cluster, &account.wanted()).await?;
    let made = account.apply(&cluster).await?;
    let token = match account.token(&cluster, TOKEN_WITHIN).await {
        Ok(token) => token,
        Err(error) => return Err(undone(&account, &cluster, made, error).await),
    };
    let request = ClusterAdd {
        name,
        server,
        token,
        ca_data: if insecure { String::new() } else { chosen.context.authority.clone().unwrap_or_default() },
        insecure,
        labels,
        annotations,
    };
    let body = serde_json::to_value(&request)?;
    let added: ClusterAdded = match proxy::cluster(&client, &runtime, "cluster-add", body).await {
        Ok(added) => added,
        Err(error) if is_refusal(&error) => return Err(undone(&account, &cluster, made, error).await),
        // The runtime may have it: its account must stay then.
        Err(error) => {
            return Err(error.context(
                "the runtime did not answer, and may know the cluster or not: run the same again, or `slipway cluster remove`",
            ));
        }
    };
    let said = format!(
        "Cluster {} ({}, Kubernetes {}) {}: runtime {runtime} deploys to it; Applications name it in spec.destination.name",
        added.name,
        added.server,
        added.server_version,
        if added.outcome == "changed" { "has a new token" } else { "is added" }
    );
    done(arguments.output, &added, &added.name, &said)
}

/// What was made for nothing goes again; what was there before stays.
async fn undone(account: &Account, cluster: &Cluster, made: bool, error: anyhow::Error) -> anyhow::Error {
    if !made {
        return error;
    }
    match account.remove(cluster).await {
        Ok(_) => error.context("the cluster was not added, and nothing of it is left there"),
        Err(other) => {
            error.context(format!("the cluster was not added, and its account there is left ({other:#})"))
        }
    }
}

/// A name that the runtime has for no other cluster.
async fn name_of(
    client: &Client,
    runtime: &str,
    server: &str,
    arguments: &AddArguments,
    chosen: &Chosen,
) -> anyhow::Result<String> {
    if let Some(name) = &arguments.name {
        return Ok(name.clone());
    }
    let known: Vec<ManagedCluster> = client.get("/api/gitops/clusters").await?;
    let known: Vec<_> = known.into_iter().filter(|one| one.runtime == runtime).collect();
    if let Some(same) = known.iter().find(|one| one.server == server) {
        return Ok(same.name.clone());
    }
    let base = sanitised(&chosen.context.name);
    let taken = |name: &str| known.iter().any(|one| one.name == name);
    let numbered = (1..).map(|number| format!("{base}-{number}"));
    Ok(std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(base))
}

/// `arn:aws:eks:eu-1:12:cluster/Prod` → `arn-aws-eks-eu-1-12-cluster-prod`.
fn sanitised(context: &str) -> String {
    let mapped: String = context
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .collect();
    let mapped = mapped.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    // Room for the number of a second one.
    let cut: String = mapped.chars().take(NAME_CHARS_MAX - 4).collect();
    match cut.trim_end_matches('-') {
        "" | "in-cluster" => "cluster".to_owned(),
        name => name.to_owned(),
    }
}

fn pairs(texts: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |text: &String| {
        let (key, value) = text.split_once('=').with_context(|| format!("`{text}` is not KEY=VALUE"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(pair).collect()
}

async fn remove(arguments: RemoveArguments) -> anyhow::Result<()> {
    let client = context::client()?;
    let runtime = runtime(&client, arguments.runtime.clone()).await?;
    let own = arguments.kube.kubeconfig.is_some() || arguments.kube.context.is_some();
    // Before anything is forgotten: a wrong context would leave the account behind.
    let chosen = own.then(|| arguments.kube.choose()).transpose()?;
    if let Some(chosen) = &chosen {
        let known: Vec<ManagedCluster> = client.get("/api/gitops/clusters").await?;
        if let Some(other) = another_at(&known, &runtime, &arguments.name, &chosen.context.server) {
            bail!(
                "{} is cluster {other} of runtime {runtime}, and {} is to be removed: its account is not in there. Give the context of {}",
                chosen.words(),
                arguments.name,
                arguments.name
            );
        }
    }
    let question = format!(
        "Remove cluster {} from runtime {runtime}? What runs there stays, and nobody looks after it any more.",
        arguments.name
    );
    confirm(&question, arguments.yes)?;
    let account = Account::new(client.base(), &runtime, &arguments.system_namespace);
    let at = match &chosen {
        Some(chosen) => Some(chosen.connect().await?.0),
        None => None,
    };
    let body = serde_json::to_value(ClusterRemove { name: arguments.name.clone(), force: arguments.force })?;
    let removed: ClusterRemoved = match proxy::cluster(&client, &runtime, "cluster-remove", body).await {
        Ok(removed) => removed,
        // Removed before, and interrupted then: its account goes now.
        Err(error) if at.is_some() && is_gone(&error) => {
            ClusterRemoved { name: arguments.name.clone(), ..ClusterRemoved::default() }
        }
        Err(error) => return Err(error),
    };
    let rest = match &at {
        Some(cluster) => {
            account.remove(cluster).await?;
            "its account there is removed too".to_owned()
        }
        None => format!(
            "its account {} in namespace {} of the cluster stays: the same command with --context removes it",
            account.name(),
            arguments.system_namespace
        ),
    };
    let said =
        format!("Runtime {runtime} has forgotten cluster {}; what runs there stays; {rest}", removed.name);
    done(arguments.output, &removed, &removed.name, &said)
}

/// The runtime has one account in each of its clusters, all of the same name: what is at this address if not the cluster of this name.
fn another_at<'a>(known: &'a [ManagedCluster], runtime: &str, name: &str, server: &str) -> Option<&'a str> {
    let server = server.trim_end_matches('/');
    let at: Vec<&ManagedCluster> = known
        .iter()
        .filter(|one| one.runtime == runtime && one.server.trim_end_matches('/') == server)
        .collect();
    match at.iter().any(|one| one.name == name) {
        true => None,
        false => at.first().map(|one| one.name.as_str()),
    }
}

/// Whoever was asked said no; anything else, such as silence, says nothing about what was done.
fn is_refusal(error: &anyhow::Error) -> bool {
    let status = error.downcast_ref::<slipway_api::ClientError>().and_then(slipway_api::ClientError::status);
    status.is_some_and(|status| (400..500).contains(&status))
}

fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<slipway_api::ClientError>().is_some_and(|error| error.status() == Some(404))
}

/// Waits until Kubernetes has made the token of an account's Secret.
pub(super) async fn token_of(
    cluster: &Cluster,
    secret: &ObjectKey,
    within: Duration,
) -> anyhow::Result<String> {
    let end = Instant::now() + within;
    loop {
        let found = cluster.read(secret).await?.unwrap_or(Value::Null);
        let token = found["data"]["token"].as_str().and_then(|text| STANDARD.decode(text).ok());
        if let Some(token) =
            token.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|token| !token.is_empty())
        {
            return Ok(token);
        }
        anyhow::ensure!(
            Instant::now() < end,
            "the cluster made no token for {secret} within {} s: do its controllers run?",
            within.as_secs()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Used by [`Account`] to delete one object; `false`: it was not there.
pub(super) async fn gone(cluster: &Cluster, key: &ObjectKey) -> anyhow::Result<bool> {
    let gone = cluster.delete(key, None, Propagation::Background, false).await;
    gone.with_context(|| format!("{key} was not removed"))
}

pub(super) const WRITE: WriteOptions = WriteOptions { dry_run: false, validate: true };

/// Everything that an account is made of, in the words of a question about rights.
pub(super) const fn everywhere(
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
) -> Right<'static> {
    Right { verb, group, resource, namespace: "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_becomes_a_name() {
        for (context, expected) in [
            ("prod", "prod"),
            ("kubernetes-admin@kubernetes", "kubernetes-admin-kubernetes"),
            ("arn:aws:eks:eu-1:12:cluster/Prod_", "arn-aws-eks-eu-1-12-cluster-prod"),
            ("9-lives", "lives"),
            ("§§", "cluster"),
            ("in-cluster", "cluster"),
        ] {
            assert_eq!(sanitised(context), expected, "{context}");
        }
        assert!(sanitised(&"a".repeat(200)).len() < NAME_CHARS_MAX);
        assert!(pairs(&["a".to_owned()]).is_err());
    }

    #[test]
    fn the_account_of_another_cluster_is_not_taken_away() {
        let cluster = |runtime: &str, name: &str, server: &str| ManagedCluster {
            runtime: runtime.into(),
            name: name.into(),
            server: server.into(),
            ..ManagedCluster::default()
        };
        let known = [
            cluster("west", "prod", "https://prod:6443"),
            cluster("west", "test", "https://test:6443"),
            cluster("east", "far", "https://far:6443"),
        ];
        let at = |name, server| another_at(&known, "west", name, server);
        assert_eq!(at("test", "https://test:6443/"), None);
        assert_eq!(at("test", "https://prod:6443"), Some("prod"), "a wrong context");
        assert_eq!(at("gone", "https://prod:6443"), Some("prod"));
        // Added under another address than the kubeconfig has, or of another runtime: nothing is known against it.
        assert_eq!(at("test", "https://10.0.0.1:6443"), None);
        assert_eq!(at("test", "https://far:6443"), None);
    }
}
