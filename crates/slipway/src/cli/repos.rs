//! Repositories of the built-in Git host: what there is, and who may push.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use slipway_api::access::Rule;
use slipway_api::repo::Repository;

use super::context;
use super::output::{Format, OutputArguments, done, print, short};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ReposArguments {
    #[command(flatten)]
    output: OutputArguments,
    #[command(subcommand)]
    command: Option<ReposCommand>,
}

#[derive(Subcommand)]
pub(crate) enum ReposCommand {
    /// List repositories
    List(OutputArguments),
    /// Create an empty repository
    Create {
        /// owner/name
        name: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// List the rules about repositories: who may push, and who may not read
    Rights(OutputArguments),
    /// Let teams, or the builds of a pipeline, push; `slipway rule delete ID` revokes it
    Allow {
        /// owner/name; `*` stands for anything
        name: String,
        #[arg(long = "team")]
        teams: Vec<String>,
        /// Builds of this pipeline; whoever may change the pipeline says what they push
        #[arg(long = "pipeline", conflicts_with = "teams")]
        pipelines: Vec<String>,
        /// Only these branches; `*` stands for anything
        #[arg(long = "branch")]
        branches: Vec<String>,
        /// Only these tags; `*` stands for anything
        #[arg(long = "tag", conflicts_with = "branches")]
        tags: Vec<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
}

pub(crate) async fn run(arguments: ReposArguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        None => list(&arguments.output).await?,
        Some(ReposCommand::List(output)) => list(&output).await?,
        Some(ReposCommand::Create { name, output }) => {
            let made: Repository = context::client()?.post("/api/repos", &json!({"name": name})).await?;
            done(output, &made, &made.name, &format!("Created {}: {}", made.name, made.clone_url))?;
        }
        Some(ReposCommand::Rights(output)) => rights(output.output).await?,
        Some(ReposCommand::Allow { name, teams, pipelines, branches, tags, output }) => {
            if teams.is_empty() == pipelines.is_empty() {
                bail!("name who may push: --team NAME, or --pipeline NAME for its builds");
            }
            let body = allowing(&name, &teams, &pipelines, &branches, &tags);
            let made: Value = context::client()?.post("/api/abac", &body).await?;
            let id = made[0]["id"].as_str().unwrap_or_default();
            done(output, &made[0], id, &format!("Created rule {id}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(output: &OutputArguments) -> anyhow::Result<()> {
    let list: Vec<Repository> = context::client()?.get("/api/repos").await?;
    let row = |repo: &Repository| {
        let sha = |sha: &str| sha.chars().take(8).collect::<String>();
        let head = repo.head.as_ref().map(|head| format!("{} {}", sha(&head.sha), short(&head.message)));
        vec![repo.name.clone(), repo.clone_url.clone(), head.unwrap_or_default()]
    };
    print(output.output, &list, &["NAME", "CLONE URL", "LATEST"], row, "There are no repositories yet.")
}

async fn rights(format: Format) -> anyhow::Result<()> {
    let rules: Vec<Rule> = context::client()?.get("/api/abac?entityType=gitRepository").await?;
    let row = |rule: &Rule| {
        let named = |name: &str| {
            let attributes = rule.spec.entity_attributes.iter().filter(|attribute| attribute.name == name);
            attributes.map(|attribute| attribute.value.clone()).collect::<Vec<_>>().join(" ")
        };
        let or = |text: String, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text };
        let who = match named("PIPELINE") {
            pipelines if pipelines.is_empty() => format!("team {}", rule.team_names.join(" ")),
            pipelines => format!("builds of {pipelines}"),
        };
        let what = match (named("BRANCH"), named("TAG")) {
            (branches, _) if !branches.is_empty() => format!("branches {branches}"),
            (_, tags) if !tags.is_empty() => format!("tags {tags}"),
            _ => "everything".into(),
        };
        vec![rule.id.clone(), or(named("REPOSITORY"), "*"), who, rule.spec.actions.join(" "), what]
    };
    let empty = "There are none: members read every repository, Administrators push.";
    print(format, &rules, &["RULE", "REPOSITORY", "WHO", "MAY", "WHAT"], row, empty)
}

fn allowing(
    name: &str,
    teams: &[String],
    pipelines: &[String],
    branches: &[String],
    tags: &[String],
) -> Value {
    let mut attributes = vec![json!({"name": "REPOSITORY", "value": name})];
    for (kind, values) in [("PIPELINE", pipelines), ("BRANCH", branches), ("TAG", tags)] {
        attributes.extend(values.iter().map(|value| json!({"name": kind, "value": value})));
    }
    json!({"entityType": "gitRepository", "teams": teams, "actions": ["push"], "entityAttributes": attributes})
}
