//! `slipway workflow retry|resubmit|node set|logs`: what is done to Workflows that ran, or that wait for somebody.

use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use slipway_cluster::{LogOptions, ObjectKey, Propagation};
use slipway_workflow::identity::pod_name;
use slipway_workflow::orders::{self, Said, Selector};

use super::kube_session::{ClusterArguments, One, Session};
use super::workflow_cluster::{create, parameter, print_all, read, write};

/// How long pods of failed nodes may take to go.
const GOING: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct AgainArguments {
    #[command(flatten)]
    one: One,
    /// NAME=VALUE: another value of a parameter of the workflow
    #[arg(long = "parameter", short = 'p', value_parser = parameter)]
    parameters: Vec<(String, String)>,
}

#[derive(clap::Subcommand)]
pub(crate) enum NodeCommand {
    /// Say how a pause ends, or what values it leaves
    Set(SetArguments),
}

#[derive(clap::Args)]
pub(crate) struct SetArguments {
    #[command(flatten)]
    one: One,
    /// Which pauses, as displayName=approve; all that there are when left out
    #[arg(long, default_value = "", value_name = "FIELD=VALUE,…")]
    node_field_selector: String,
    /// Succeeded, Failed or Error
    #[arg(long, default_value = "")]
    phase: String,
    /// What people read about it
    #[arg(long, default_value = "")]
    message: String,
    /// NAME=VALUE of an output parameter
    #[arg(long = "output-parameter", short = 'p', value_parser = parameter)]
    outputs: Vec<(String, String)>,
}

#[derive(clap::Args)]
pub(crate) struct LogsArguments {
    /// The Workflow
    name: String,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// The container
    #[arg(long, short, default_value = "main")]
    container: String,
    /// Only this many of the last lines of each pod
    #[arg(long)]
    tail: Option<u64>,
}

/// Goes on from where it failed. Pods of failed nodes are gone first, because new ones have their names.
pub(crate) async fn retry(arguments: AgainArguments) -> anyhow::Result<ExitCode> {
    let one = &arguments.one;
    let session = Session::open(&one.cluster).await?;
    let workflow = read(&session, &session.namespace, &one.name).await?;
    let again =
        orders::retry(&workflow, &arguments.parameters, Timestamp::now()).map_err(anyhow::Error::msg)?;
    for pod in &again.pods {
        let key = ObjectKey::new("", "Pod", &session.namespace, pod);
        match session.cluster.delete_within(&key, None, Propagation::Background, Some(0)).await {
            Err(error) if error.is_not_found() => continue,
            other => drop(other?),
        }
        let gone = session.cluster.until(&key, |_| false);
        match tokio::time::timeout(GOING, gone).await {
            Ok(gone) => drop(gone?),
            Err(_) => anyhow::bail!("pod {pod} does not go; nothing was changed"),
        }
    }
    write(&session, one, &again.patch).await
}

/// A new Workflow of the same spec.
pub(crate) async fn resubmit(arguments: AgainArguments) -> anyhow::Result<ExitCode> {
    let one = &arguments.one;
    let session = Session::open(&one.cluster).await?;
    let workflow = read(&session, &session.namespace, &one.name).await?;
    let object = orders::submitted_again(&workflow, &arguments.parameters);
    let made = create(&session, object).await?;
    print_all(&one.output, &[made])?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn node(command: NodeCommand) -> anyhow::Result<ExitCode> {
    let NodeCommand::Set(arguments) = command;
    let one = &arguments.one;
    let which = Selector::parse(&arguments.node_field_selector).map_err(anyhow::Error::msg)?;
    let outputs = arguments.outputs.iter().cloned().collect();
    let said = Said { phase: arguments.phase.clone(), message: arguments.message.clone(), outputs };
    let session = Session::open(&one.cluster).await?;
    let workflow = read(&session, &session.namespace, &one.name).await?;
    let patch = orders::set(&workflow, &which, &said, Timestamp::now()).map_err(anyhow::Error::msg)?;
    write(&session, one, &patch).await
}

/// What its pods printed, in the order in which they began; a pod that is gone has no log.
pub(crate) async fn logs(arguments: LogsArguments) -> anyhow::Result<ExitCode> {
    let session = Session::open(&arguments.cluster).await?;
    let workflow = read(&session, &session.namespace, &arguments.name).await?;
    let mut nodes: Vec<_> = workflow.status.nodes.values().filter(|node| node.r#type == "Pod").collect();
    nodes.sort_by(|a, b| (&a.started_at, &a.name).cmp(&(&b.started_at, &b.name)));
    let options =
        LogOptions { container: arguments.container.clone(), tail: arguments.tail, ..LogOptions::default() };
    for node in nodes {
        let template = node.template_ref.as_ref().map_or(&node.template_name, |one| &one.template);
        let pod = pod_name(&workflow.metadata.name, &node.name, template);
        let mut lines = match session.cluster.pod_logs(&session.namespace, &pod, &options).await {
            Ok(lines) => lines,
            Err(error) => {
                note!("{}: {error}", node.display_name);
                continue;
            }
        };
        while let Some(line) = lines.next().await {
            say!("{}: {}", node.display_name, crate::say::cell(&line?));
        }
    }
    Ok(ExitCode::SUCCESS)
}
