//! Builds: list, look, terminate, restart.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_api::build::{Build, BuildCan, BuildDocs, BuildPage, BuildStep, Progress, ProgressLocation};
use slipway_api::error::ErrorBody;
use slipway_model::BuildId;
use slipway_store::builds::{self, Filter, NewBuild};
use slipway_store::{Scope, StoreError, Tx, logs};
use utoipa::IntoParams;

use crate::auth::Caller;
use crate::ctx::Server;
use crate::error::ApiError;
use crate::orders::Order;
use crate::trail::Entry;
use crate::{limits, seams};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Id of the pipeline.
    pipeline: Option<String>,
    status: Option<String>,
    limit: Option<i64>,
    /// From 1.
    page: Option<i64>,
}

/// Builds, newest first.
#[utoipa::path(get, path = "/api/workflow", tag = "builds", params(ListQuery),
    responses((status = 200, body = BuildPage), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<BuildPage>, ApiError> {
    let limit = query.limit.unwrap_or(25).clamp(1, 500);
    let pipeline = query
        .pipeline
        .map(|id| {
            id.parse().map_err(|_| ApiError::bad_request(format!("`{id}` is not the id of a pipeline")))
        })
        .transpose()?;
    let offset = (query.page.unwrap_or(1).max(1) - 1).saturating_mul(limit);
    let found = server.store().read(move |tx| {
        let pipelines = super::pipelines::readable(tx, &caller)?;
        let filter = Filter { pipeline, pipelines, status: query.status, limit, offset };
        let waits = waits_for_limit(tx, caller.scope(), caller.trail.now_ms())?;
        Ok((builds::list(tx, caller.scope(), &filter)?, waits))
    });
    let ((rows, total), waits) = found.await?;
    let docs = rows.into_iter().map(|row| explained(row, waits.as_deref())).collect::<Result<_, _>>()?;
    Ok(Json(BuildPage { workflows: BuildDocs { docs, total } }))
}

/// Why no build can start, when a limit of the account is the reason.
fn waits_for_limit(tx: &mut Tx<'_>, scope: Scope, now_ms: i64) -> Result<Option<String>, StoreError> {
    match limits::free_builds(tx, scope, now_ms)? {
        0 => limits::refusal(tx, scope, "parallelBuilds"),
        _ => Ok(None),
    }
}

fn explained(row: builds::Build, waits: Option<&str>) -> Result<Build, ApiError> {
    let waiting = row.status == slipway_model::BuildStatus::Pending && row.message.is_none();
    let mut build = shown(row)?;
    if let Some(why) = waits.filter(|_| waiting) {
        build.message = Some(format!("waiting: {why}"));
    }
    Ok(build)
}

pub(crate) fn shown(row: builds::Build) -> Result<Build, ApiError> {
    let order: Order = row.order()?;
    let steps: Vec<BuildStep> = row.steps()?;
    let commit = order.commit;
    let repo = commit.as_ref().and_then(|commit| commit.repo.split_once('/'));
    let finished = row.status.is_final();
    let message = row.message.or_else(|| {
        let waiting = row.status == slipway_model::BuildStatus::Pending;
        waiting.then(|| "waiting for a runner that is free".to_owned())
    });
    Ok(Build {
        id: row.id.to_string(),
        status: row.status.as_str().into(),
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
        can: BuildCan { terminate: !finished && !row.terminate, restart: finished },
    })
}

fn parse(id: &str) -> Result<BuildId, ApiError> {
    id.parse().map_err(|_| ApiError::not_found(format!("build `{id}`")))
}

pub(crate) async fn find(server: &Server, caller: &Caller, id: &str) -> Result<builds::Build, ApiError> {
    let (caller, id) = (caller.clone(), id.to_owned());
    server.look(move |tx| find_in(tx, &caller, &id, "read")).await
}

/// The build, if the caller may do this to its pipeline.
fn find_in(tx: &mut Tx<'_>, caller: &Caller, id: &str, action: &str) -> Result<builds::Build, ApiError> {
    let (what, parsed) = (format!("build `{id}`"), parse(id)?);
    let row = builds::by_id(tx, caller.scope(), parsed)?.ok_or_else(|| ApiError::not_found(&what))?;
    super::pipelines::require_by_id(tx, caller, row.pipeline, action, &what)?;
    Ok(row)
}

/// One build with its steps.
#[utoipa::path(get, path = "/api/builds/{id}", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = Build), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Build>, ApiError> {
    let (row, held, waits) = server
        .look(move |tx| {
            let row = find_in(tx, &caller, &id, "read")?;
            let waits = waits_for_limit(tx, caller.scope(), caller.trail.now_ms())?;
            let held = logs::held(tx, row.id)?;
            Ok((row, held, waits))
        })
        .await?;
    let mut build = explained(row, waits.as_deref())?;
    for step in &mut build.steps {
        step.log_bytes = held.get(&step.name).copied().unwrap_or(0);
    }
    Ok(Json(build))
}

/// Start the same order again: same commit, same variables. The answer is the new build's id.
#[utoipa::path(get, path = "/api/builds/rebuild/{id}", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn restart(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let (new_id, now_ms) = (server.seams().new_id(), server.now_ms());
    let made = server
        .change(move |tx| {
            let old = find_in(tx, &caller, &id, "run")?;
            let order: Order = old.order()?;
            let cause = format!("restart:{new_id}");
            let new = NewBuild {
                id: new_id,
                pipeline: old.pipeline,
                pipeline_name: &old.pipeline_name,
                order: &order,
                cause: &cause,
            };
            let made = builds::create(tx, caller.scope(), &new, now_ms)?;
            let entry = Entry::new("restart", "build", old.id, &old.pipeline_name).after(made);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(made)
        })
        .await?;
    Ok(Json(made.to_string()))
}

/// Where a build's logs are followed.
#[utoipa::path(get, path = "/api/progress/{id}", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = Progress), (status = 404, body = ErrorBody)))]
pub(crate) async fn progress(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Progress>, ApiError> {
    let row = find(&server, &caller, &id).await?;
    let url = format!("{}/api/builds/{}/logs", server.public_url(), row.id);
    Ok(Json(Progress {
        id: row.id.to_string(),
        account: row.account.to_string(),
        status: row.status.as_str().into(),
        location: ProgressLocation { kind: "slipway".into(), url: Some(url) },
    }))
}

/// Terminate a build. One that has ended stays as it is.
#[utoipa::path(delete, path = "/api/progress/{id}", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn terminate(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let (now_ms, ended) = (server.now_ms(), id.clone());
    server
        .change(move |tx| {
            let row = find_in(tx, &caller, &id, "run")?;
            builds::terminate(tx, caller.scope(), row.id, &caller.principal.display_name(), now_ms)?;
            let entry = Entry::new("terminate", "build", row.id, &row.pipeline_name);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(())
        })
        .await?;
    Ok(Json(ended))
}
