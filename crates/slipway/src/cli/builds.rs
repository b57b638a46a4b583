//! Builds: list, show, start, stop, restart, and their logs.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use futures::StreamExt;
use serde_json::{Value, json};
use slipway_api::Client;
use slipway_api::auth::User;
use slipway_api::build::{Build, BuildPage, LogChunk, RestartRequest};
use slipway_runner::ExecutorChoice;

use super::build_list::ListArguments;
use super::context;
use super::nouns::part;
use super::output::{Format, OutputArguments, done, print, print_one};

/// Which build: its id, the short id that pages show, or its number as `PIPELINE#NUMBER`
#[derive(Args)]
pub(crate) struct Which {
    /// Id, short id, or PIPELINE#NUMBER (for example demo/demo-app#17)
    id: String,
}

#[derive(Subcommand)]
pub(crate) enum BuildCommand {
    /// List builds, newest first
    List(ListArguments),
    /// Show a build and its steps
    Get {
        #[command(flatten)]
        build: Which,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Print or follow the log of a build (your own latest one by default)
    Logs(LogsArguments),
    /// Terminate a build
    Terminate {
        #[command(flatten)]
        build: Which,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Start a build again with the same commit and variables
    Restart {
        #[command(flatten)]
        build: Which,
        /// Stop at breakpoints, and after a step that fails
        #[arg(long)]
        debug: bool,
        /// Breakpoint as STEP[:before|after|override]; repeatable; implies --debug
        #[arg(long = "breakpoint")]
        breakpoints: Vec<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Open a shell in a paused step; waits until a step is paused
    Debug {
        #[command(flatten)]
        build: Which,
        /// Name of the step; the first paused one by default
        #[arg(long)]
        step: Option<String>,
    },
    /// Let a paused step continue
    Continue {
        #[command(flatten)]
        build: Which,
        /// Name of the step; the first paused one by default
        #[arg(long)]
        step: Option<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Set breakpoints of a running build: STEP[:before|after|override]
    Break {
        #[command(flatten)]
        build: Which,
        #[arg(required = true)]
        breakpoints: Vec<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Wait until a build has ended: exit 0 on success, 1 on error, 2 when terminated
    Wait {
        #[command(flatten)]
        build: Which,
        #[command(flatten)]
        output: OutputArguments,
    },
}

#[derive(Args)]
pub(crate) struct LogsArguments {
    /// Id, short id, or PIPELINE#NUMBER of the build; by default your latest one among the last 100 builds, else the latest
    build: Option<String>,
    /// Follow the log until the build has ended
    #[arg(short, long)]
    follow: bool,
    /// Only the log of this step
    #[arg(long)]
    step: Option<String>,
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// A pipeline file (runs on this machine, needs no server), or the name of a pipeline on the server: project/pipeline
    pipeline: String,
    /// Branch to build; of a file, the branch that the build sees
    #[arg(short, long)]
    branch: Option<String>,
    /// Commit to build
    #[arg(short, long)]
    sha: Option<String>,
    /// Variable as NAME=VALUE; repeatable
    #[arg(short, long = "variable")]
    variables: Vec<String>,
    /// Print the id of the build and return, without following its log
    #[arg(short, long)]
    detach: bool,
    /// Stop at breakpoints, and after a step that fails: `slipway build debug` opens a shell there
    #[arg(long)]
    debug: bool,
    /// Breakpoint as STEP[:before|after|override]; repeatable; implies --debug
    #[arg(long = "breakpoint")]
    breakpoints: Vec<String>,
    /// For a file: where its steps run
    #[arg(long, value_enum, default_value = "auto")]
    executor: Executor,
    /// For a file: keep the volume and the logs
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
    if let BuildCommand::Logs(arguments) = command {
        return logs(arguments).await;
    }
    let client = context::client()?;
    match command {
        BuildCommand::List(arguments) => super::build_list::list(&client, arguments).await?,
        BuildCommand::Get { build, output } => {
            let build: Build = client.get(&format!("/api/builds/{}", find(&client, &build).await?)).await?;
            let show = || {
                let why = build.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
                note!("{} {} is {}{why}", build.pipeline_name, build.id, build.status);
                let row = |step: &slipway_api::build::BuildStep| {
                    let message = step.message.clone().unwrap_or_default();
                    vec![step.name.clone(), step.kind.clone(), step.status.clone(), message]
                };
                let heads = ["STEP", "TYPE", "STATUS", "MESSAGE"];
                print(Format::Table, &build.steps, &heads, row, "No step has started yet.")
            };
            print_one(output.output, &build, &build.id, show)?;
        }
        BuildCommand::Terminate { build, output } => {
            let id = find(&client, &build).await?;
            let answer = client.delete::<Value>(&format!("/api/progress/{id}")).await?;
            done(output, &answer, &id, &format!("Terminating build {id}"))?;
        }
        BuildCommand::Restart { build, debug, breakpoints, output } => {
            let id = find(&client, &build).await?;
            let breakpoints = super::debug::breakpoints(&breakpoints)?;
            let again = RestartRequest { debug, breakpoints, ..RestartRequest::default() };
            let new: String = client.post(&format!("/api/builds/{id}/restart"), &again).await?;
            done(output, &json!({"id": new, "restartOf": id}), &new, &new)?;
        }
        BuildCommand::Debug { build, step } => {
            return super::debug::shell(&client, &find(&client, &build).await?, step).await;
        }
        BuildCommand::Continue { build, step, output } => {
            return super::debug::go_on(&client, &find(&client, &build).await?, step, output).await;
        }
        BuildCommand::Break { build, breakpoints, output } => {
            return super::debug::set(&client, &find(&client, &build).await?, &breakpoints, output).await;
        }
        BuildCommand::Wait { build, output } => {
            let id = find(&client, &build).await?;
            follow(&client, &id, None, false).await?;
            let build: Build = client.get(&format!("/api/builds/{id}")).await?;
            print_one(output.output, &build, &id, || Ok(()))?;
            return Ok(ended(&build));
        }
        BuildCommand::Logs(_) => unreachable!("answered above"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The id of a build that is named by its id, by the end of it that pages show, or by its number.
async fn find(client: &Client, build: &Which) -> anyhow::Result<String> {
    resolve(client, &build.id).await
}

const ID_CHARS: usize = 24;
/// One's own builds are looked for among so many.
const OWN_AMONG: u32 = 100;

async fn resolve(client: &Client, text: &str) -> anyhow::Result<String> {
    let text = text.trim();
    if text.len() == ID_CHARS && text.chars().all(|c| c.is_ascii_hexdigit()) {
        return Ok(text.to_owned());
    }
    match client.get::<Build>(&format!("/api/builds/{}", part(text))).await {
        Ok(build) => Ok(build.id),
        Err(error) if error.status() == Some(404) => {
            bail!("there is no build `{text}`: `slipway build list` shows them")
        }
        Err(error) => Err(error.into()),
    }
}

/// A text that means a file, whether or not it is there.
fn is_file_name(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.ends_with(".yml") || lower.ends_with(".yaml") || text.starts_with("./") || text.starts_with('/')
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
    if is_file_name(&arguments.pipeline) {
        bail!("no such file: {}", arguments.pipeline);
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
    note!("Build {id} of {}", arguments.pipeline);
    follow(&client, &id, None, true).await?;
    ended_now(&client, &id).await
}

pub(crate) async fn logs(arguments: LogsArguments) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    let id = match &arguments.build {
        Some(text) => resolve(&client, text).await?,
        None => latest(&client).await?,
    };
    let build: Build = client.get(&format!("/api/builds/{id}")).await?;
    note!("Build {id} of {} ({})", build.pipeline_name, build.status);
    if arguments.follow {
        follow(&client, &id, arguments.step.as_deref(), true).await?;
        return ended_now(&client, &id).await;
    }
    let whole: Value = client.get(&format!("/api/builds/{id}/logs")).await?;
    let mut printer = Printer::new(arguments.step.as_deref());
    for (step, text) in in_order(&build, &whole) {
        printer.print(&step, &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The logs of a build in the order of its page: what comes before the steps first, then each step whole.
fn in_order(build: &Build, whole: &Value) -> Vec<(String, String)> {
    let mut logs: Vec<(i64, String, String)> = Vec::new();
    for (step, log) in whole["steps"].as_object().into_iter().flatten() {
        let mut pieces: Vec<(i64, &str)> = log["logs"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(seq, text)| (seq.parse().unwrap_or(0), text.as_str().unwrap_or_default()))
            .collect();
        pieces.sort();
        let first = pieces.first().map_or(0, |(seq, _)| *seq);
        logs.push((first, step.clone(), pieces.iter().map(|(_, text)| *text).collect()));
    }
    let place = |step: &str| build.steps.iter().position(|known| known.name == step);
    // What is no step of the pipeline came first.
    logs.sort_by_key(|(first, step, _)| (place(step).map_or(0, |at| at + 1), *first));
    logs.into_iter().map(|(_, step, text)| (step, text)).collect()
}

/// The caller's own latest build, else the latest of all.
async fn latest(client: &Client) -> anyhow::Result<String> {
    let user: User = client.get("/api/user").await?;
    let page: BuildPage = client.get(&format!("/api/workflow?limit={OWN_AMONG}")).await?;
    let builds = page.workflows.docs;
    let own = builds.iter().find(|build| is_of(build, &user)).or(builds.first());
    match own {
        Some(build) => Ok(build.id.clone()),
        None => bail!("there are no builds yet: push to a repository, or use `slipway run`"),
    }
}

/// Whether the caller started it, or pushed what did.
fn is_of(build: &Build, user: &User) -> bool {
    let Some(initiator) = &build.initiator else { return false };
    let pushed = initiator.by.as_deref().is_some_and(|by| by == user.user_name || by == user.email);
    let started = matches!(initiator.kind.as_str(), "user" | "service-account");
    pushed || (started && initiator.name == user.user_name)
}

async fn ended_now(client: &Client, id: &str) -> anyhow::Result<ExitCode> {
    Ok(ended(&client.get(&format!("/api/builds/{id}")).await?))
}

fn ended(build: &Build) -> ExitCode {
    let why = build.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    note!("Build {} ended with {}{why}", build.id, build.status);
    match build.status.as_str() {
        "success" => ExitCode::SUCCESS,
        "error" => ExitCode::from(1),
        "terminated" => ExitCode::from(2),
        _ => ExitCode::from(100),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_from_pipelines_by_their_names() {
        assert!(is_file_name("missing.yml") && is_file_name("./x") && !is_file_name("demo/demo-app"));
    }

    #[test]
    fn logs_are_printed_as_the_page_shows_them() {
        let steps = ["clone", "test", "commit"].map(|name| json!({"name": name, "title": name, "type": "freestyle", "status": "success", "attempt": 1, "logBytes": 0}));
        let build: Build = serde_json::from_value(
            json!({"id": "b", "status": "success", "created": "", "pipelineName": "p",
            "serviceId": "", "webhookTriggered": false, "progress": "b", "steps": steps}),
        )
        .unwrap();
        let logs = json!({"steps": {
            "commit": {"logs": {"11": "c"}},
            "Initializing Process": {"logs": {"1": "i"}},
            "test": {"logs": {"9": "t1 ", "10": "t2 ", "12": "t3"}},
            "clone": {"logs": {"3": "k"}},
        }});
        let order = in_order(&build, &logs);
        let shown: Vec<(&str, &str)> =
            order.iter().map(|(step, text)| (step.as_str(), text.as_str())).collect();
        assert_eq!(
            shown,
            [("Initializing Process", "i"), ("clone", "k"), ("test", "t1 t2 t3"), ("commit", "c")]
        );
    }
}
