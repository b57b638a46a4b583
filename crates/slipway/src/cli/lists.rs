//! Pipelines.

use std::process::ExitCode;

use slipway_api::pipeline::PipelineList;

use super::context;
use super::output::{OutputArguments, print};

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
