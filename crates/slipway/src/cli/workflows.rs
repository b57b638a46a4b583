//! `slipway workflow`: Workflows, their templates and schedules in files, without a cluster; those in one are in `workflow_cluster`.

use std::process::ExitCode;

use serde_json::{Value, json};
use slipway_crd::workflow::Workflow;
use slipway_workflow::conformance;
use slipway_workflow::lint::{self, Library};
use slipway_workflow::orders::Order;
use slipway_workflow::plan::{self, Played};

use super::checked::{self, FileArguments};
use super::kube_session::{Many, One};
use super::output;
use super::workflow_again::{self as again, AgainArguments, LogsArguments, NodeCommand};
use super::workflow_cluster as online;
use super::workflow_cron::{self as cron, CronCommand};

#[derive(clap::Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Check Workflows, their templates and schedules: exit 0 when valid, 1 with findings, 2 when a file cannot be read
    ///
    /// Templates that one file refers to are looked for in all of them. What is in none is not missed: it may be in the cluster.
    Lint(FileArguments),
    /// Print the pods that Workflows make, and in which order, if every pod succeeds
    Preview(FileArguments),
    /// Create the Workflows of files in a cluster
    Submit(online::SubmitArguments),
    /// List the Workflows of a cluster, newest first
    List(Many),
    /// Show a Workflow of a cluster and its nodes
    Get(One),
    /// Wait until a Workflow has ended: exit 1 when it did not succeed
    Wait(online::WaitArguments),
    /// Begin nothing new; exit handlers run
    Stop(One),
    /// End everything at once
    Terminate(One),
    /// Begin nothing new until it is resumed
    Suspend(One),
    /// Go on, over every pause that there is now
    Resume(One),
    /// Go on with a Workflow that failed, from where it failed
    Retry(AgainArguments),
    /// Create a new Workflow of the same spec
    Resubmit(AgainArguments),
    /// Nodes of a Workflow
    #[command(subcommand)]
    Node(NodeCommand),
    /// Print what the pods of a Workflow printed
    Logs(LogsArguments),
    /// CronWorkflows: Workflows that begin by the clock
    #[command(subcommand)]
    Cron(CronCommand),
    /// Delete a Workflow and its pods
    Delete(One),
}

/// Those that need no cluster; `None`: it needs one.
pub(crate) fn run(command: &WorkflowCommand) -> Option<anyhow::Result<ExitCode>> {
    match command {
        WorkflowCommand::Lint(arguments) => Some(check(arguments)),
        WorkflowCommand::Preview(arguments) => Some(preview(arguments)),
        _ => None,
    }
}

pub(crate) async fn run_online(command: WorkflowCommand) -> anyhow::Result<ExitCode> {
    match command {
        WorkflowCommand::Lint(arguments) => check(&arguments),
        WorkflowCommand::Preview(arguments) => preview(&arguments),
        WorkflowCommand::Submit(arguments) => online::submit(arguments).await,
        WorkflowCommand::List(arguments) => online::list(arguments).await,
        WorkflowCommand::Get(one) => online::get(one).await,
        WorkflowCommand::Wait(arguments) => online::wait(arguments).await,
        WorkflowCommand::Stop(one) => online::give(one, Order::Stop).await,
        WorkflowCommand::Terminate(one) => online::give(one, Order::Terminate).await,
        WorkflowCommand::Suspend(one) => online::give(one, Order::Suspend).await,
        WorkflowCommand::Resume(one) => online::give(one, Order::Resume).await,
        WorkflowCommand::Retry(arguments) => again::retry(arguments).await,
        WorkflowCommand::Resubmit(arguments) => again::resubmit(arguments).await,
        WorkflowCommand::Node(command) => again::node(command).await,
        WorkflowCommand::Logs(arguments) => again::logs(arguments).await,
        WorkflowCommand::Cron(command) => cron::run(command).await,
        WorkflowCommand::Delete(one) => online::delete(one).await,
    }
}

fn check(arguments: &FileArguments) -> anyhow::Result<ExitCode> {
    checked::lint(
        arguments,
        "Workflow, WorkflowTemplate, ClusterWorkflowTemplate or CronWorkflow",
        |text, all| {
            let mut library = Library::default();
            all.iter().for_each(|(_, other)| library.add(other));
            lint::check(text, &library)
        },
    )
}

/// Played with pods that succeed at once; a pause is over at once, too.
fn preview(arguments: &FileArguments) -> anyhow::Result<ExitCode> {
    let (texts, unreadable) = checked::texts(arguments);
    anyhow::ensure!(!unreadable, "not every file can be read");
    let (mut library, mut templates, mut workflows) =
        (Library::default(), plan::Library::default(), Vec::new());
    texts.iter().for_each(|(_, text)| library.add(text));
    for (file, text) in &texts {
        let report = lint::check(text, &library);
        if report.errors() > 0 {
            let lines: Vec<String> =
                report.findings.iter().map(|finding| format!("{}:{finding}", file.display())).collect();
            anyhow::bail!("{}", lines.join("\n"));
        }
        for (object, _) in slipway_yaml::load_all_json(text).unwrap_or_default() {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            let Ok(mut object) = serde_json::from_value::<Workflow>(object) else { continue };
            match kind.as_str() {
                "Workflow" => {
                    if object.metadata.name.is_empty() {
                        object.metadata.name = object.metadata.generate_name.trim_end_matches('-').to_owned();
                    }
                    workflows.push(object);
                }
                "WorkflowTemplate" => templates.add(false, &object.metadata.name, object.spec),
                "ClusterWorkflowTemplate" => templates.add(true, &object.metadata.name, object.spec),
                _ => {}
            }
        }
    }
    let mut rows = Vec::new();
    let mut failed = false;
    for workflow in &workflows {
        let played = plan::play(workflow, &templates, &|_| 0);
        if played.status.phase != "Succeeded" {
            let why = if played.stuck { "it does not end" } else { &played.status.message };
            note!("error: workflow {}: {why}", workflow.metadata.name);
            failed = true;
        }
        rows.extend(rows_of(&workflow.metadata.name, &played));
    }
    let cells = ["workflow", "round", "node", "pod", "image"];
    output::print(
        arguments.output.output,
        &rows,
        &["WORKFLOW", "ROUND", "NODE", "POD", "IMAGE"],
        |row| cells.iter().map(|cell| text(&row[*cell])).collect(),
        "No pod is made.",
    )?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn rows_of(workflow: &str, played: &Played) -> Vec<Value> {
    let row = |round: usize, pod: &Value| {
        let metadata = &pod["metadata"];
        json!({"workflow": workflow, "round": round + 1, "node": metadata["annotations"]["workflows.argoproj.io/node-name"],
            "pod": metadata["name"], "image": pod["spec"]["containers"][0]["image"]})
    };
    let rounds = played.rounds.iter().enumerate();
    rounds.flat_map(|(round, pods)| pods.iter().map(move |pod| row(round, pod))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Rows of acceptance data.
pub(super) fn compare(rows: &str) -> anyhow::Result<slipway_yaml::suite::Verdict> {
    let rows: Result<Vec<Value>, _> =
        rows.lines().filter(|line| !line.is_empty()).map(serde_json::from_str).collect();
    Ok(conformance::run(&rows?))
}
