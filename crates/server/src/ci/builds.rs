//! A build as pages and clients see it.

use crate::ci::orders::Order;
use crate::http::error::ApiError;
use crate::seams;
use slipway_api::build::{Build, BuildCan, BuildStep};
use slipway_model::BuildStatus;
use slipway_store::builds::{self};

pub(crate) fn shown(row: builds::Build) -> Result<Build, ApiError> {
    let order: Order = row.order()?;
    let steps: Vec<BuildStep> = row.steps()?;
    let restart_of = order.restart.as_ref().map(|restart| restart.build.clone());
    let asks = !row.terminate && steps.iter().any(|step| step.status == "pending-approval");
    let some_step = |status: &str| steps.iter().any(|step| step.status == status);
    let denied = row.status == BuildStatus::Error && some_step("denied") && !some_step("error");
    // What somebody refused is not gone on with.
    let failed = row.status == BuildStatus::Error && !steps.is_empty() && !denied;
    let commit = order.commit;
    let pull_request = commit.as_ref().and_then(|commit| commit.pull_request.clone());
    let repo = commit.as_ref().and_then(|commit| commit.repo.split_once('/'));
    let finished = row.status.is_final();
    let message = row.message.or_else(|| {
        let waiting = row.status == BuildStatus::Pending;
        waiting.then(|| "waiting for a free runner".to_owned())
    });
    let id = row.id.to_string();
    Ok(Build {
        number: row.number,
        short_id: id[id.len() - SHORT..].to_owned(),
        initiator: order.initiator,
        variables: Vec::new(),
        outcome: denied.then(|| "denied".to_owned()),
        id,
        status: if row.delayed { BuildStatus::Delayed } else { row.status }.as_str().into(),
        created: seams::rfc3339(row.created_ms),
        started: row.started_ms.map(seams::rfc3339),
        finished: row.finished_ms.map(seams::rfc3339),
        pipeline_name: row.pipeline_name,
        service_id: row.pipeline.to_string(),
        repo_owner: repo.map(|(owner, _)| owner.to_owned()),
        repo_name: repo.map(|(_, name)| name.to_owned()),
        branch_name: commit.as_ref().map(|commit| commit.branch.clone()),
        revision: commit.as_ref().map(|commit| commit.sha.clone()),
        commit_message: commit.as_ref().map(|commit| commit.message.clone()),
        committer: commit.as_ref().map(|commit| commit.author.clone()),
        pipeline_trigger_id: commit.as_ref().map(|commit| commit.trigger_name.clone()),
        pipeline_trigger_name: commit.map(|commit| commit.trigger_name),
        webhook_triggered: order.webhook,
        progress: row.id.to_string(),
        message,
        executor: row.executor,
        runner: row.runner,
        steps,
        approvals: Vec::new(),
        annotations: Default::default(),
        images: Vec::new(),
        priority: row.priority,
        restart_of,
        pull_request,
        can: BuildCan {
            terminate: !finished && !row.terminate,
            restart: finished,
            restart_from_failed: failed,
            approve: asks && !finished,
            debug: !finished && !row.terminate,
        },
    })
}

/// So many digits of a build's id are shown to people: the last, because the first are the time.
pub(crate) const SHORT: usize = 8;
