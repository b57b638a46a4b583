//! `slipway workflow cron list|get|create|suspend|resume|delete`: CronWorkflows of a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{ObjectKey, Propagation, WriteOptions};
use slipway_crd::names::{API_VERSION, GROUP};
use slipway_crd::workflow::CronWorkflow;
use slipway_workflow::cron::{Schedules, since};

use super::kube_session::{ClusterArguments, Many, One, Session};
use super::output::{self, OutputArguments};
use super::workflow_cluster::{cell_of, checked_objects};

const KIND: &str = "CronWorkflow";

#[derive(clap::Subcommand)]
pub(crate) enum CronCommand {
    /// List the CronWorkflows of a cluster
    List(Many),
    /// Show a CronWorkflow: when it ran, when it runs next, what is wrong with it
    Get(One),
    /// Create the CronWorkflows of files
    Create(CreateArguments),
    /// Begin nothing until it is resumed
    Suspend(One),
    /// Begin Workflows again; those that were missed are not made up for
    Resume(One),
    /// Delete a CronWorkflow and its Workflows
    Delete(One),
}

#[derive(clap::Args)]
pub(crate) struct CreateArguments {
    /// Files with CronWorkflows, or - for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) async fn run(command: CronCommand) -> anyhow::Result<ExitCode> {
    match command {
        CronCommand::List(arguments) => {
            let session = Session::open(&arguments.cluster).await?;
            let all: Vec<CronWorkflow> = session.list_as(KIND, session.listed(&arguments)).await?;
            print_all(&arguments.output, &all)
        }
        CronCommand::Get(one) => {
            let session = Session::open(&one.cluster).await?;
            show(&one, &read(&session, &one.name).await?)
        }
        CronCommand::Create(arguments) => create(arguments).await,
        CronCommand::Suspend(one) => suspend(one, true).await,
        CronCommand::Resume(one) => suspend(one, false).await,
        CronCommand::Delete(one) => {
            let session = Session::open(&one.cluster).await?;
            let cron = read(&session, &one.name).await?;
            let key = ObjectKey::new(GROUP, KIND, &session.namespace, &one.name);
            let uid = Some(cron.metadata.uid.as_str());
            session.cluster.delete(&key, uid, Propagation::Background, false).await?;
            print_all(&one.output, &[cron])
        }
    }
}

async fn create(arguments: CreateArguments) -> anyhow::Result<ExitCode> {
    let objects = checked_objects(&arguments.files, KIND)?;
    let session = Session::open(&arguments.cluster).await?;
    let mut made = Vec::new();
    for mut object in objects {
        if object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = session.namespace.as_str().into();
        }
        let answer = session.cluster.create(&object, WriteOptions::default()).await?;
        made.push(serde_json::from_value(answer)?);
    }
    print_all(&arguments.output, &made)
}

async fn suspend(one: One, suspended: bool) -> anyhow::Result<ExitCode> {
    let session = Session::open(&one.cluster).await?;
    read(&session, &one.name).await?;
    let target = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"namespace": session.namespace, "name": one.name}});
    let patch = json!({"spec": {"suspend": suspended}});
    let answer = session.cluster.merge(&target, &patch, WriteOptions::default()).await?;
    print_all(&one.output, &[serde_json::from_value(answer)?])
}

async fn read(session: &Session, name: &str) -> anyhow::Result<CronWorkflow> {
    let object = session.cluster.read(&ObjectKey::new(GROUP, KIND, &session.namespace, name)).await?;
    let object = object
        .with_context(|| format!("there is no CronWorkflow {name} in namespace {}", session.namespace))?;
    Ok(serde_json::from_value(object)?)
}

fn summary(cron: &CronWorkflow) -> Value {
    let schedules = Schedules::of(&cron.spec);
    let next = match &schedules {
        Ok(schedules) if !cron.spec.suspend && cron.status.phase != "Stopped" => {
            schedules.next(since(cron), Timestamp::now())
        }
        _ => None,
    };
    let written = schedules.map(|schedules| schedules.written()).unwrap_or_else(|why| why);
    let wrong: Vec<&str> = cron.status.conditions.iter().map(|one| one.message.as_str()).collect();
    json!({"name": cron.metadata.name, "namespace": cron.metadata.namespace, "schedules": written,
        "suspended": cron.spec.suspend.to_string(), "last": cron.status.last_scheduled_time, "next": next.map(|next| next.to_string()),
        "active": cron.status.active.len().to_string(), "succeeded": cron.status.succeeded.to_string(),
        "failed": cron.status.failed.to_string(), "phase": cron.status.phase, "message": wrong.join("; ")})
}

fn print_all(format: &OutputArguments, all: &[CronWorkflow]) -> anyhow::Result<ExitCode> {
    let rows: Vec<Value> = all.iter().map(summary).collect();
    let cells = ["name", "namespace", "schedules", "suspended", "last", "next", "active", "message"];
    output::print(
        format.output,
        &rows,
        &["NAME", "NAMESPACE", "SCHEDULES", "SUSPENDED", "LAST", "NEXT", "ACTIVE", "MESSAGE"],
        |row| cells.iter().map(|cell| time_or(row, cell)).collect(),
        "There are no CronWorkflows.",
    )?;
    Ok(ExitCode::SUCCESS)
}

fn time_or(row: &Value, cell: &str) -> String {
    match row[cell].as_str() {
        Some(text) if matches!(cell, "last" | "next") => output::when(text),
        _ => cell_of(row, cell),
    }
}

fn show(one: &One, cron: &CronWorkflow) -> anyhow::Result<ExitCode> {
    let whole = summary(cron);
    output::print_one(one.output.output, &whole, &one.name, || {
        for (label, name) in [
            ("Name", "name"),
            ("Schedules", "schedules"),
            ("Suspended", "suspended"),
            ("Phase", "phase"),
            ("Last", "last"),
            ("Next", "next"),
            ("Active", "active"),
            ("Succeeded", "succeeded"),
            ("Failed", "failed"),
            ("Message", "message"),
        ] {
            let text = whole[name].as_str().unwrap_or_default();
            if !text.is_empty() {
                say!("{label}: {text}");
            }
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}
