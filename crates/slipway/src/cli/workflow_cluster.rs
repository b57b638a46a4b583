//! `slipway workflow submit|list|get|wait|stop|…`: Workflows in a cluster, by its API alone.
//!
//! What orders write is decided in the room `workflow`; here they are sent, and answers are printed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{ObjectKey, Propagation, WriteOptions};
use slipway_crd::names::GROUP;
use slipway_crd::workflow::{CronWorkflow, Workflow};
use slipway_workflow::cron;
use slipway_workflow::lint::{self, Library};
use slipway_workflow::orders::{self, Order};

use super::kube_session::{ClusterArguments, Many, One, Session};
use super::offline::read as read_file;
use super::output::{self, OutputArguments};

pub(super) const KIND: &str = "Workflow";

#[derive(clap::Args)]
pub(crate) struct SubmitArguments {
    /// Files with Workflows, or - for standard input
    #[arg(required_unless_present = "from")]
    files: Vec<PathBuf>,
    /// Begin what is in the cluster already: cronwf/NAME, workflowtemplate/NAME or clusterworkflowtemplate/NAME
    #[arg(long, value_name = "KIND/NAME", conflicts_with = "files")]
    from: Option<String>,
    /// The template that it begins with, if it is not the one that the object names
    #[arg(long, requires = "from")]
    entrypoint: Option<String>,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    output: OutputArguments,
    /// NAME=VALUE of a parameter of the workflow
    #[arg(long = "parameter", short = 'p', value_parser = parameter)]
    parameters: Vec<(String, String)>,
    /// Wait until they have ended, so many seconds at most: exit 1 when one did not succeed
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

#[derive(clap::Args)]
pub(crate) struct WaitArguments {
    #[command(flatten)]
    one: One,
    /// So many seconds at most
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u64,
}

pub(super) fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Creates what is in the files, after everything in them was found to be right, or what an object of the cluster says.
pub(crate) async fn submit(arguments: SubmitArguments) -> anyhow::Result<ExitCode> {
    let written =
        if arguments.from.is_none() { checked_objects(&arguments.files, KIND)? } else { Vec::new() };
    let session = Session::open(&arguments.cluster).await?;
    let objects = match &arguments.from {
        Some(from) => vec![of_cluster(&session, from, arguments.entrypoint.as_deref()).await?],
        None => written,
    };
    let mut made = Vec::new();
    for object in objects {
        let object = with_parameters(object, &arguments.parameters)?;
        made.push(create(&session, object).await?);
    }
    let mut ended = Vec::new();
    for workflow in made {
        let metadata = &workflow.metadata;
        note!("workflow {} submitted", metadata.name);
        ended.push(match arguments.wait {
            Some(seconds) => until_ended(&session, &metadata.namespace, &metadata.name, seconds).await?,
            None => workflow,
        });
    }
    print_all(&arguments.output, &ended)?;
    let well = arguments.wait.is_none() || ended.iter().all(|one| one.status.phase == "Succeeded");
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) async fn create(session: &Session, mut object: Value) -> anyhow::Result<Workflow> {
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = session.namespace.as_str().into();
    }
    let answer = session.cluster.create(&object, WriteOptions::default()).await?;
    Ok(serde_json::from_value(answer)?)
}

/// The objects of a kind, if nothing in the files is wrong.
pub(super) fn checked_objects(files: &[PathBuf], kind: &str) -> anyhow::Result<Vec<Value>> {
    let texts: Vec<(&PathBuf, String)> =
        files.iter().map(|file| Ok((file, read_file(file)?))).collect::<anyhow::Result<_>>()?;
    let mut library = Library::default();
    texts.iter().for_each(|(_, text)| library.add(text));
    let (mut wrong, mut objects) = (Vec::new(), Vec::new());
    for (file, text) in &texts {
        let report = lint::check(text, &library);
        if report.errors() > 0 {
            wrong.extend(report.findings.iter().map(|finding| format!("{}:{finding}", file.display())));
            continue;
        }
        let all = slipway_yaml::load_all_json(text).unwrap_or_default().into_iter();
        objects.extend(all.map(|(object, _)| object).filter(|object| object["kind"] == kind));
    }
    anyhow::ensure!(wrong.is_empty(), "nothing was written\n{}", wrong.join("\n"));
    anyhow::ensure!(!objects.is_empty(), "there is no {kind} in these files");
    Ok(objects)
}

/// `cronwf/NAME`, and its like.
async fn of_cluster(session: &Session, from: &str, entrypoint: Option<&str>) -> anyhow::Result<Value> {
    let (kind, name) = from.split_once('/').context("write KIND/NAME, for example cronwf/nightly")?;
    let (kind, cluster) = match kind.to_lowercase().as_str() {
        "cronwf" | "cwf" | "cronworkflow" | "cronworkflows" => ("CronWorkflow", false),
        "workflowtemplate" | "workflowtemplates" | "wftmpl" => ("WorkflowTemplate", false),
        "clusterworkflowtemplate" | "clusterworkflowtemplates" | "cwft" => ("ClusterWorkflowTemplate", true),
        other => anyhow::bail!("`{other}` is neither cronwf, workflowtemplate nor clusterworkflowtemplate"),
    };
    let namespace = if cluster { "" } else { session.namespace.as_str() };
    let found = session.cluster.read(&ObjectKey::new(GROUP, kind, namespace, name)).await?;
    let found = found.with_context(|| format!("there is no {kind} {name}"))?;
    let mut object = if kind == "CronWorkflow" {
        cron::workflow(&serde_json::from_value::<CronWorkflow>(found)?)
    } else {
        let label = if cluster { "cluster-workflow-template" } else { "workflow-template" };
        json!({"apiVersion": slipway_crd::names::API_VERSION, "kind": KIND,
            "metadata": {"labels": {(format!("workflows.argoproj.io/{label}")): name}},
            "spec": {"workflowTemplateRef": {"name": name, "clusterScope": cluster}}})
    };
    object["metadata"]["generateName"] = format!("{name}-").into();
    if let Some(entrypoint) = entrypoint {
        object["spec"]["entrypoint"] = entrypoint.into();
    }
    Ok(object)
}

fn with_parameters(mut object: Value, parameters: &[(String, String)]) -> anyhow::Result<Value> {
    let list = &mut object["spec"]["arguments"]["parameters"];
    if list.is_null() {
        *list = json!([]);
    }
    let list = list.as_array_mut().context("spec.arguments.parameters is no list")?;
    for (name, value) in parameters {
        match list.iter_mut().find(|one| one["name"] == name.as_str()) {
            Some(known) => known["value"] = value.as_str().into(),
            None => list.push(json!({"name": name, "value": value})),
        }
    }
    if list.is_empty()
        && let Some(spec) = object["spec"].as_object_mut()
    {
        spec.remove("arguments");
    }
    Ok(object)
}

pub(crate) async fn list(arguments: Many) -> anyhow::Result<ExitCode> {
    let session = Session::open(&arguments.cluster).await?;
    let mut all: Vec<Workflow> = session.list_as(KIND, session.listed(&arguments)).await?;
    all.sort_by(|one, other| other.metadata.creation_timestamp.cmp(&one.metadata.creation_timestamp));
    print_all(&arguments.output, &all)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print_all(format: &OutputArguments, all: &[Workflow]) -> anyhow::Result<()> {
    let rows: Vec<Value> = all.iter().map(summary).collect();
    let cells = ["name", "namespace", "phase", "progress", "started", "message"];
    output::print(
        format.output,
        &rows,
        &["NAME", "NAMESPACE", "STATUS", "PROGRESS", "STARTED", "MESSAGE"],
        |row| cells.iter().map(|cell| cell_of(row, cell)).collect(),
        "There are no Workflows.",
    )
}

pub(super) fn cell_of(row: &Value, cell: &str) -> String {
    let text = row[cell].as_str().unwrap_or_default();
    if cell == "started" && !text.is_empty() { output::when(text) } else { text.to_owned() }
}

fn summary(workflow: &Workflow) -> Value {
    let (metadata, status) = (&workflow.metadata, &workflow.status);
    let phase = match status.phase.as_str() {
        "" => "Pending",
        "Running" if workflow.spec.suspend == Some(true) => "Running (suspended)",
        phase => phase,
    };
    json!({"name": metadata.name, "namespace": metadata.namespace, "phase": phase, "progress": status.progress,
        "started": status.started_at, "finished": status.finished_at, "message": status.message})
}

/// One Workflow with its nodes, in the order in which they began.
pub(crate) async fn get(one: One) -> anyhow::Result<ExitCode> {
    let session = Session::open(&one.cluster).await?;
    let workflow = read(&session, &session.namespace, &one.name).await?;
    show(&one, &workflow)?;
    Ok(ExitCode::SUCCESS)
}

fn show(one: &One, workflow: &Workflow) -> anyhow::Result<()> {
    let mut nodes: Vec<_> = workflow.status.nodes.values().collect();
    nodes.sort_by(|a, b| (&a.started_at, &a.name).cmp(&(&b.started_at, &b.name)));
    let rows: Vec<Value> = nodes
        .iter()
        .map(|node| {
            json!({"name": node.name, "type": node.r#type, "phase": node.phase, "template": node.template_name,
                "started": node.started_at, "finished": node.finished_at, "message": node.message})
        })
        .collect();
    let whole = json!({"workflow": summary(workflow), "nodes": rows});
    output::print_one(one.output.output, &whole, &one.name, || {
        for (label, name) in
            [("Name", "name"), ("Status", "phase"), ("Progress", "progress"), ("Message", "message")]
        {
            let text = whole["workflow"][name].as_str().unwrap_or_default();
            if !text.is_empty() {
                say!("{label}: {text}");
            }
        }
        let cells = ["name", "type", "phase", "template", "started", "message"];
        output::print(
            one.output.output,
            &rows,
            &["NODE", "TYPE", "STATUS", "TEMPLATE", "STARTED", "MESSAGE"],
            |row| cells.iter().map(|cell| cell_of(row, cell)).collect(),
            "It has no nodes yet.",
        )
    })
}

pub(crate) async fn wait(arguments: WaitArguments) -> anyhow::Result<ExitCode> {
    let one = &arguments.one;
    let session = Session::open(&one.cluster).await?;
    let ended = until_ended(&session, &session.namespace, &one.name, arguments.timeout).await?;
    show(one, &ended)?;
    Ok(if ended.status.phase == "Succeeded" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) async fn give(one: One, order: Order) -> anyhow::Result<ExitCode> {
    let session = Session::open(&one.cluster).await?;
    let workflow = read(&session, &session.namespace, &one.name).await?;
    let patch = orders::patch(order, &workflow, Timestamp::now()).map_err(anyhow::Error::msg)?;
    write(&session, &one, &patch).await
}

/// Writes, and prints what the workflow is then.
pub(super) async fn write(session: &Session, one: &One, patch: &Value) -> anyhow::Result<ExitCode> {
    let target = json!({"apiVersion": slipway_crd::names::API_VERSION, "kind": KIND,
        "metadata": {"namespace": session.namespace, "name": one.name}});
    let answer = session.cluster.merge(&target, patch, WriteOptions::default()).await?;
    print_all(&one.output, &[serde_json::from_value(answer)?])?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn delete(one: One) -> anyhow::Result<ExitCode> {
    let session = Session::open(&one.cluster).await?;
    let workflow = read(&session, &session.namespace, &one.name).await?;
    let key = ObjectKey::new(GROUP, KIND, &session.namespace, &one.name);
    let uid = Some(workflow.metadata.uid.as_str());
    session.cluster.delete(&key, uid, Propagation::Background, false).await?;
    print_all(&one.output, &[workflow])?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn read(session: &Session, namespace: &str, name: &str) -> anyhow::Result<Workflow> {
    let object = session.cluster.read(&ObjectKey::new(GROUP, KIND, namespace, name)).await?;
    let object = object.with_context(|| format!("there is no Workflow {name} in namespace {namespace}"))?;
    Ok(serde_json::from_value(object)?)
}

async fn until_ended(
    session: &Session,
    namespace: &str,
    name: &str,
    seconds: u64,
) -> anyhow::Result<Workflow> {
    let mut phase = "Pending".to_owned();
    let has_ended = |object: &Value| {
        phase = object["status"]["phase"].as_str().unwrap_or("Pending").to_owned();
        object["status"]["finishedAt"].is_string()
    };
    let key = ObjectKey::new(GROUP, KIND, namespace, name);
    let ended = session.cluster.until(&key, has_ended);
    let Ok(ended) = tokio::time::timeout(Duration::from_secs(seconds), ended).await else {
        anyhow::bail!("workflow {name} has not ended after {seconds} s: it is {phase}");
    };
    let ended = ended?.with_context(|| format!("there is no Workflow {name} in namespace {namespace}"))?;
    Ok(serde_json::from_value(ended)?)
}
