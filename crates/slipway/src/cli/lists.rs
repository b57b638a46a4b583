//! Pipelines and repositories.

use std::process::ExitCode;

use slipway_api::pipeline::PipelineList;
use slipway_api::repo::Repository;

use super::context;
use super::output::{OutputArguments, print, short};

pub(crate) async fn pipelines(output: &OutputArguments) -> anyhow::Result<ExitCode> {
    let list: PipelineList = context::client()?.get("/api/pipelines?limit=10000").await?;
    let row = |pipeline: &slipway_api::pipeline::Pipeline| {
        let triggers = pipeline.spec.triggers.iter().map(|trigger| trigger.repo.clone()).collect::<Vec<_>>();
        vec![pipeline.metadata.name.clone(), triggers.join(","), pipeline.metadata.updated_at.clone()]
    };
    print(
        output.output,
        &list.docs,
        &["NAME", "BUILT ON PUSH TO", "UPDATED"],
        row,
        "There are no pipelines yet.",
    )?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn repos(output: &OutputArguments) -> anyhow::Result<ExitCode> {
    let list: Vec<Repository> = context::client()?.get("/api/repos").await?;
    let row = |repo: &Repository| {
        let head = repo.head.as_ref().map(|head| format!("{} {}", &head.sha[..8], short(&head.message)));
        vec![repo.name.clone(), repo.clone_url.clone(), head.unwrap_or_default()]
    };
    print(output.output, &list, &["NAME", "CLONE URL", "LATEST"], row, "There are no repositories yet.")?;
    Ok(ExitCode::SUCCESS)
}
