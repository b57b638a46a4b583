//! Builds: list, show, start, stop, restart, and their logs.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use futures::StreamExt;
use serde_json::json;
use slipway_api::Client;
use slipway_api::build::{Build, BuildPage, LogChunk, RestartRequest};
use slipway_runner::ExecutorChoice;

use super::context;
use super::output::{OutputArguments, print, short};

#[derive(Subcommand)]
pub(crate) enum BuildCommand {
    /// List builds, newest first
    List {
        #[command(flatten)]
        output: OutputArguments,
        /// How many
        #[arg(long, default_value_t = 25)]
        limit: u32,
    },
    /// Show a build and its steps
    Get {
        id: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Stop a build
    Terminate { id: String },
    /// Start a build again: same commit, same variables
    Restart {
        id: String,
        /// Stop at breakpoints, and after a step that fails
        #[arg(long)]
        debug: bool,
        /// STEP[:before|after|override], as often as needed; implies --debug
        #[arg(long = "breakpoint")]
        breakpoints: Vec<String>,
    },
    /// Open a shell in a paused step, where it runs; waits until one is paused
    Debug {
        id: String,
        /// Which step; the first that is paused when left out
        #[arg(long)]
        step: Option<String>,
    },
    /// Let a paused step go on
    Continue {
        id: String,
        #[arg(long)]
        step: Option<String>,
    },
    /// Set breakpoints of a build that runs: STEP[:before|after|override]
    Break {
        id: String,
        #[arg(required = true)]
        breakpoints: Vec<String>,
    },
    /// Wait until a build has ended: exit 0 on success, 1 on error, 2 when terminated
    Wait { id: String },
}

#[derive(Args)]
pub(crate) struct LogsArguments {
    /// Id of the build; the latest one when left out
    build: Option<String>,
    /// Go on until the build has ended
    #[arg(short, long)]
    follow: bool,
    /// Only this step
    #[arg(long)]
    step: Option<String>,
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// A pipeline file (runs here, needs no server), or the name of a pipeline, `project/pipeline` (runs there)
    pipeline: String,
    #[arg(short, long)]
    branch: Option<String>,
    #[arg(short, long)]
    sha: Option<String>,
    /// NAME=VALUE, as often as needed
    #[arg(short, long = "variable")]
    variables: Vec<String>,
    /// Print the build's id and do not follow its log
    #[arg(short, long)]
    detach: bool,
    /// Stop at breakpoints, and after a step that fails: `slipway build debug` opens a shell there
    #[arg(long)]
    debug: bool,
    /// STEP[:before|after|override], as often as needed; implies --debug
    #[arg(long = "breakpoint")]
    breakpoints: Vec<String>,
    /// For a file: where its steps run
    #[arg(long, value_enum, default_value = "auto")]
    executor: Executor,
    /// For a file: leave the volume and the logs behind
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Executor {
    /// Podman, else Docker, else the host
    Auto,
    Podman,
    Docker,
    /// Sandboxed processes of this machine
    Host,
}

impl From<Executor> for ExecutorChoice {
    fn from(executor: Executor) -> Self {
        match executor {
            Executor::Auto => Self::Auto,
            Executor::Podman => Self::Podman,
            Executor::Docker => Self::Docker,
            Executor::Host => Self::Host,
        }
    }
}

pub(crate) async fn run(command: BuildCommand) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    match command {
        BuildCommand::List { output, limit } => {
            let page: BuildPage = client.get(&format!("/api/workflow?limit={limit}")).await?;
            let row = |build: &Build| {
                let text = |value: &Option<String>| value.as_deref().map(short).unwrap_or_default();
                let sha =
                    build.revision.as_deref().map(|sha| sha.chars().take(8).collect()).unwrap_or_default();
                let (branch, commit) = (text(&build.branch_name), text(&build.commit_message));
                vec![
                    build.id.clone(),
                    build.status.clone(),
                    build.pipeline_name.clone(),
                    branch,
                    sha,
                    commit,
                    build.created.clone(),
                ]
            };
            let heads = ["ID", "STATUS", "PIPELINE", "BRANCH", "REVISION", "COMMIT", "CREATED"];
            print(
                output.output,
                &page.workflows.docs,
                &heads,
                row,
                "There are no builds yet: push to a repository, or use `slipway run`.",
            )?;
        }
        BuildCommand::Get { id, output } => {
            let build: Build = client.get(&format!("/api/builds/{id}")).await?;
            let why = build.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            note!("{} {} is {}{why}", build.pipeline_name, build.id, build.status);
            let row = |step: &slipway_api::build::BuildStep| {
                let message = step.message.clone().unwrap_or_default();
                vec![step.name.clone(), step.kind.clone(), step.status.clone(), message]
            };
            print(
                output.output,
                &build.steps,
                &["STEP", "TYPE", "STATUS", "MESSAGE"],
                row,
                "No step has started yet.",
            )?;
        }
        BuildCommand::Terminate { id } => {
            client.delete::<String>(&format!("/api/progress/{id}")).await?;
            say!("Build {id} is being terminated");
        }
        BuildCommand::Restart { id, debug, breakpoints } => {
            let breakpoints = super::debug::breakpoints(&breakpoints)?;
            let again = RestartRequest { debug, breakpoints, ..RestartRequest::default() };
            say!("{}", client.post::<_, String>(&format!("/api/builds/{id}/restart"), &again).await?)
        }
        BuildCommand::Debug { id, step } => return super::debug::shell(&client, &id, step).await,
        BuildCommand::Continue { id, step } => return super::debug::go_on(&client, &id, step).await,
        BuildCommand::Break { id, breakpoints } => {
            return super::debug::set(&client, &id, &breakpoints).await;
        }
        BuildCommand::Wait { id } => {
            follow(&client, &id, None, false).await?;
            return ended(&client, &id).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn start(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let mut pairs = Vec::new();
    for pair in &arguments.variables {
        let Some((key, value)) = pair.split_once('=') else { bail!("`{pair}` is not NAME=VALUE") };
        pairs.push((key.to_owned(), value.to_owned()));
    }
    if std::path::Path::new(&arguments.pipeline).is_file() {
        return crate::local::run(crate::local::Order {
            file: arguments.pipeline.into(),
            variables: pairs,
            branch: arguments.branch,
            executor: arguments.executor.into(),
            keep: arguments.keep,
        })
        .await;
    }
    let client = context::client()?;
    let variables: Vec<_> = pairs.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    let mut body = json!({"branch": arguments.branch, "sha": arguments.sha, "variables": variables});
    let breakpoints = super::debug::breakpoints(&arguments.breakpoints)?;
    let debug = arguments.debug || !breakpoints.is_empty();
    if debug {
        body["options"] = json!({"debug": true, "breakpoints": breakpoints});
    }
    let name = arguments.pipeline.replace('/', "%2F");
    let verb = if debug { "debug" } else { "run" };
    let id: String = client.post(&format!("/api/pipelines/{verb}/{name}"), &body).await?;
    if arguments.detach {
        say!("{id}");
        return Ok(ExitCode::SUCCESS);
    }
    note!("Build {id}");
    follow(&client, &id, None, true).await?;
    ended(&client, &id).await
}

pub(crate) async fn logs(arguments: LogsArguments) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    let id = match arguments.build {
        Some(id) => id,
        None => {
            let page: BuildPage = client.get("/api/workflow?limit=1").await?;
            let Some(build) = page.workflows.docs.into_iter().next() else {
                bail!("there are no builds yet")
            };
            note!("Build {} of {}", build.id, build.pipeline_name);
            build.id
        }
    };
    if arguments.follow {
        follow(&client, &id, arguments.step.as_deref(), true).await?;
        return ended(&client, &id).await;
    }
    let whole: serde_json::Value = client.get(&format!("/api/builds/{id}/logs")).await?;
    let mut pieces: Vec<(&String, &String, &str)> = Vec::new();
    for (step, log) in whole["steps"].as_object().into_iter().flatten() {
        for (seq, text) in log["logs"].as_object().into_iter().flatten() {
            pieces.push((seq, step, text.as_str().unwrap_or_default()));
        }
    }
    pieces.sort();
    let mut printer = Printer::new(arguments.step.as_deref());
    pieces.iter().try_for_each(|(_, step, text)| printer.print(step, text))?;
    Ok(ExitCode::SUCCESS)
}

async fn ended(client: &Client, id: &str) -> anyhow::Result<ExitCode> {
    let build: Build = client.get(&format!("/api/builds/{id}")).await?;
    let why = build.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    note!("Build {id} ended with {}{why}", build.status);
    Ok(match build.status.as_str() {
        "success" => ExitCode::SUCCESS,
        "error" => ExitCode::from(1),
        "terminated" => ExitCode::from(2),
        _ => ExitCode::from(100),
    })
}

/// Follows to the end, over lost connections and restarts of the server.
async fn follow(client: &Client, id: &str, step: Option<&str>, show: bool) -> anyhow::Result<()> {
    let mut printer = Printer::new(step);
    let mut last_seq = 0;
    let mut failures = 0;
    loop {
        let request = client.request(reqwest::Method::GET, &format!("/api/builds/{id}/logs/stream"));
        match client.send(request.header("last-event-id", last_seq.to_string())).await {
            Ok(response) => {
                failures = 0;
                if stream(response, &mut printer, &mut last_seq, show).await? {
                    return Ok(());
                }
            }
            Err(error) if error.next() == slipway_model::Next::NeedsHuman => return Err(error.into()),
            Err(error) if failures >= 60 => return Err(error.into()),
            Err(_) => failures += 1,
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// `true` when the build has ended, `false` when the connection has.
async fn stream(
    response: reqwest::Response,
    printer: &mut Printer<'_>,
    last_seq: &mut i64,
    show: bool,
) -> anyhow::Result<bool> {
    let mut bytes = response.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(Ok(part)) = bytes.next().await {
        buffer.extend_from_slice(&part);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = buffer.drain(..end + 2).collect();
            let event = String::from_utf8_lossy(&event);
            if event.lines().any(|line| line == "event: end") {
                return Ok(true);
            }
            let data: String = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
            if let Ok(chunk) = serde_json::from_str::<LogChunk>(&data) {
                *last_seq = chunk.seq;
                if show {
                    printer.print(&chunk.step, &chunk.text)?;
                }
            }
        }
    }
    Ok(false)
}

/// A heading whenever the step changes.
struct Printer<'a> {
    only: Option<&'a str>,
    current: String,
}

impl<'a> Printer<'a> {
    fn new(only: Option<&'a str>) -> Self {
        Self { only, current: String::new() }
    }

    fn print(&mut self, step: &str, text: &str) -> std::io::Result<()> {
        if self.only.is_some_and(|only| only != step) {
            return Ok(());
        }
        if self.current != step {
            say!("── {step} ──");
            step.clone_into(&mut self.current);
        }
        say_part!("{text}");
        Ok(())
    }
}
