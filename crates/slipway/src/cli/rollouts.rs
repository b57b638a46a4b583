//! `slipway rollout`: Rollouts and analysis templates in files, without a cluster; those in one are in `rollout_cluster`.

use std::process::ExitCode;

use serde_json::{Value, json};
use slipway_rollout::lint;
use slipway_rollout::orders::Order;
use slipway_rollout::{conformance, preview};

use super::checked::{self, FileArguments};
use super::kube_session::{Many, One};
use super::offline::read;
use super::output;
use super::rollout_cluster as online;

#[derive(clap::Subcommand)]
pub(crate) enum RolloutCommand {
    /// Check Rollouts, analysis templates and experiments: exit 0 when valid, 1 with findings, 2 when a file cannot be read
    Lint(FileArguments),
    /// Print the pods and weights that each step of a canary leads to
    Preview(FileArguments),
    /// Show a Rollout of a cluster, its versions, and why it is not moving
    Get(One),
    /// List the Rollouts of a cluster
    List(Many),
    /// Print how a Rollout fares: exit 1 when it is Degraded
    Status(online::StatusArguments),
    /// Print what comes next and what it waits for, without doing it
    Plan(One),
    /// Go on: over a pause, or to the next step
    Promote(online::PromoteArguments),
    /// Go back to the stable version
    Abort(One),
    /// Begin an aborted update again
    Retry(One),
    /// Hold an update where it is; `promote` goes on
    Pause(One),
    /// Replace all pods, a few at a time
    Restart(One),
    /// Go back to an earlier revision
    Undo(online::UndoArguments),
    /// Change the images of containers
    SetImage(online::SetImageArguments),
}

/// Those that need no cluster; `None`: it needs one.
pub(crate) fn run(command: &RolloutCommand) -> Option<anyhow::Result<ExitCode>> {
    match command {
        RolloutCommand::Lint(arguments) => Some(check(arguments)),
        RolloutCommand::Preview(arguments) => Some(show(arguments)),
        _ => None,
    }
}

pub(crate) async fn run_online(command: RolloutCommand) -> anyhow::Result<ExitCode> {
    match command {
        RolloutCommand::Lint(arguments) => check(&arguments),
        RolloutCommand::Preview(arguments) => show(&arguments),
        RolloutCommand::Get(one) => online::get(one).await,
        RolloutCommand::List(arguments) => online::list(arguments).await,
        RolloutCommand::Status(arguments) => online::status(arguments).await,
        RolloutCommand::Plan(one) => online::show_plan(one).await,
        RolloutCommand::Promote(arguments) => online::promote(arguments).await,
        RolloutCommand::Abort(one) => online::give(one, Order::Abort).await,
        RolloutCommand::Retry(one) => online::give(one, Order::Retry).await,
        RolloutCommand::Pause(one) => online::give(one, Order::Pause).await,
        RolloutCommand::Restart(one) => online::give(one, Order::Restart).await,
        RolloutCommand::Undo(arguments) => online::undo(arguments).await,
        RolloutCommand::SetImage(arguments) => online::set_image(arguments).await,
    }
}

fn check(arguments: &FileArguments) -> anyhow::Result<ExitCode> {
    checked::lint(arguments, "Rollout, analysis or experiment", |text, _| lint::check(text))
}

fn text(value: &Value, key: &str) -> String {
    match &value[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn show(arguments: &FileArguments) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for file in &arguments.files {
        let manifests = read(file)?;
        // What is wrong has no steps worth showing, and its numbers may be anything.
        let report = lint::check(&manifests);
        if report.errors() > 0 {
            let lines: Vec<String> =
                report.findings.iter().map(|finding| format!("{}:{finding}", file.display())).collect();
            anyhow::bail!("{}", lines.join("\n"));
        }
        let documents = slipway_yaml::load_all_json(&manifests).map_err(|errors| {
            let lines: Vec<String> =
                errors.iter().map(|error| format!("{}:{error}", file.display())).collect();
            anyhow::anyhow!("{}", lines.join("\n"))
        })?;
        for (document, place) in documents.into_iter().filter(|(document, _)| document["kind"] == "Rollout") {
            let name = text(&document["metadata"], "name");
            let rollout = serde_json::from_value(document).map_err(|error| {
                anyhow::anyhow!(
                    "{}:{}: Rollout {name} cannot be read: {error}; `slipway rollout lint` says where",
                    file.display(),
                    place.line
                )
            })?;
            let Some(steps) = preview::steps(&rollout) else {
                note!("note: Rollout {name} is no canary: it has no steps");
                continue;
            };
            rows.extend(steps.iter().enumerate().map(|(at, row)| {
                json!({"rollout": name, "step": format!("{}/{}", at + 1, steps.len()), "what": row.step, "weight": row.weight,
                    "new": row.sizes.new, "stable": row.sizes.stable, "mostPods": row.most_pods, "fewestAvailable": row.fewest_available})
            }));
        }
    }
    let cells = ["rollout", "step", "what", "weight", "new", "stable", "mostPods", "fewestAvailable"];
    output::print(
        arguments.output.output,
        &rows,
        &["ROLLOUT", "STEP", "WHAT", "WEIGHT", "NEW", "STABLE", "MOST PODS", "FEWEST AVAILABLE"],
        |row| cells.iter().map(|cell| text(row, cell)).collect(),
        "There is no canary in it.",
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Rows of acceptance data; the lines to print, and how many rows were judged as they should be.
pub(super) fn compare(rows: &str) -> anyhow::Result<slipway_yaml::suite::Verdict> {
    let rows: Result<Vec<Value>, _> =
        rows.lines().filter(|line| !line.is_empty()).map(serde_json::from_str).collect();
    Ok(conformance::run(&rows?))
}
