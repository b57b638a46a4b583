//! `slipway build list`: which builds, in which format, and what changes of them.

use clap::Args;
use serde_json::Value;
use slipway_api::Client;
use slipway_api::build::{Build, BuildPage};

use super::changes::{Changes, patiently};
use super::nouns::part;
use super::output::{Format, OutputArguments, print, short, when};
use super::watch::{WatchArguments, Watched};

#[derive(Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    watch: WatchArguments,
    /// Maximum number of builds
    #[arg(short = 'n', long, default_value_t = 25)]
    limit: u32,
    /// Only builds with this status: pending, running, pending-approval, success, error, terminated, delayed, …
    #[arg(long)]
    status: Option<String>,
    /// Only builds of this pipeline, by name
    #[arg(long)]
    pipeline: Option<String>,
    /// Only builds of this branch
    #[arg(short, long)]
    branch: Option<String>,
    /// Only builds that this trigger started, by its name
    #[arg(long)]
    trigger: Option<String>,
    /// Only builds of commits whose id begins with this
    #[arg(long)]
    revision: Option<String>,
    /// Only builds created at or after this date or RFC 3339 time
    #[arg(long)]
    since: Option<String>,
    /// Only builds created before this date or RFC 3339 time
    #[arg(long)]
    until: Option<String>,
}

const HEADS: [&str; 13] = [
    "ID",
    "STATUS",
    "BUILD",
    "BRANCH",
    "REVISION",
    "COMMIT",
    "CREATED",
    "STARTED BY",
    "AUTHOR",
    "TRIGGER",
    "RUNNER",
    "STARTED",
    "FINISHED",
];
/// What is shown unless the table is wide.
const NARROW: usize = 7;

pub(crate) async fn list(client: &Client, arguments: ListArguments) -> anyhow::Result<()> {
    let query = query(client, &arguments).await?;
    let path = format!("/api/workflow?{}", query.join("&"));
    let format = arguments.output.output;
    let columns = if format == Format::Wide { HEADS.len() } else { NARROW };
    let row = |build: &Build| cells(build).into_iter().take(columns).collect();
    if arguments.watch.watch {
        return watch(client, &path, format, &HEADS[..columns], row).await;
    }
    let nothing = if query.len() > 1 {
        "No build matches."
    } else {
        "There are no builds yet: push to a repository, or use `slipway run`."
    };
    print(format, &fetch(client, &path).await?, &HEADS[..columns], row, nothing)
}

async fn query(client: &Client, arguments: &ListArguments) -> anyhow::Result<Vec<String>> {
    let mut query = vec![format!("limit={}", arguments.limit)];
    if let Some(name) = &arguments.pipeline {
        let pipeline: Value = client.get(&format!("/api/pipelines/{}", part(name))).await?;
        let id = pipeline["metadata"]["id"].as_str().unwrap_or_default();
        query.push(format!("pipeline={}", part(id)));
    }
    for (name, value) in [
        ("status", &arguments.status),
        ("branchName", &arguments.branch),
        ("pipelineTriggerId", &arguments.trigger),
        ("revision", &arguments.revision),
        ("startDate", &arguments.since),
        ("endDate", &arguments.until),
    ] {
        query.extend(value.iter().map(|value| format!("{name}={}", part(value))));
    }
    Ok(query)
}

async fn fetch(client: &Client, path: &str) -> anyhow::Result<Vec<Build>> {
    Ok(client.get::<BuildPage>(path).await?.workflows.docs)
}

/// Ends only with the command, or with an error that does not pass by itself.
async fn watch(
    client: &Client,
    path: &str,
    format: Format,
    heads: &[&str],
    row: impl Fn(&Build) -> Vec<String>,
) -> anyhow::Result<()> {
    let mut changes = Changes::open(client, "build").await?;
    let mut watched = Watched::new(format, heads, row, |build: &Build| build.id.clone());
    loop {
        // The newest first on a page; below one another the newest come last.
        let mut builds = patiently(async || fetch(client, path).await).await?;
        if watched.has_begun() {
            builds.reverse();
        }
        watched.some(&builds)?;
        changes.next().await?;
    }
}

fn cells(build: &Build) -> Vec<String> {
    let text = |value: &Option<String>| value.as_deref().map(short).unwrap_or_default();
    let time = |value: &Option<String>| value.as_deref().map(when).unwrap_or_default();
    let sha = build.revision.as_deref().map(|sha| sha.chars().take(8).collect()).unwrap_or_default();
    let by = build.initiator.as_ref().map(|initiator| initiator.name.clone());
    vec![
        build.id.clone(),
        build.status.clone(),
        format!("{}#{}", build.pipeline_name, build.number),
        text(&build.branch_name),
        sha,
        text(&build.commit_message),
        when(&build.created),
        text(&by),
        text(&build.committer),
        text(&build.pipeline_trigger_name),
        text(&build.runner),
        time(&build.started),
        time(&build.finished),
    ]
}
