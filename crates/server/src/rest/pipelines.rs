//! Pipelines: read, make, replace, delete, check and run.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_access::Who;
use slipway_api::agent::TriggerCommit;
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{Pipeline, PipelineList, RunRequest};
use slipway_store::builds::{self, NewBuild};
use slipway_store::{git, pipelines};
use utoipa::IntoParams;

use crate::auth::Caller;
use crate::ctx::Server;
use crate::error::ApiError;
use crate::orders::{self, Order};
use crate::seams;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Part of the name.
    id: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// Pipelines by name.
#[utoipa::path(get, path = "/api/pipelines", tag = "pipelines", params(ListQuery),
    responses((status = 200, body = PipelineList), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<PipelineList>, ApiError> {
    let scope = caller.scope();
    let rows = server.store().read(move |tx| pipelines::list(tx, scope)).await?;
    let part = query.id.unwrap_or_default();
    let matching: Vec<_> = rows.iter().filter(|row| row.name.contains(&part)).collect();
    let page = matching.iter().skip(query.offset.unwrap_or(0)).take(query.limit.unwrap_or(25));
    let docs = page.map(|row| shown(row)).collect::<Result<_, _>>()?;
    Ok(Json(PipelineList { docs, count: i64::try_from(matching.len()).unwrap_or(i64::MAX) }))
}

fn stored(row: &pipelines::Pipeline) -> Result<Pipeline, ApiError> {
    let body: Pipeline = serde_json::from_str(&row.body).map_err(slipway_store::StoreError::corrupt)?;
    Ok(body)
}

fn shown(row: &pipelines::Pipeline) -> Result<Pipeline, ApiError> {
    let mut pipeline = stored(row)?;
    pipeline.metadata.id = row.id.to_string();
    pipeline.metadata.name.clone_from(&row.name);
    pipeline.metadata.project = row.name.split_once('/').map_or("default", |(project, _)| project).to_owned();
    pipeline.metadata.revision = row.revision;
    pipeline.metadata.created_at = seams::rfc3339(row.created_ms);
    pipeline.metadata.updated_at = seams::rfc3339(row.updated_ms);
    orders::mask_variables(&mut pipeline.spec.variables);
    Ok(pipeline)
}

async fn find(server: &Server, caller: &Caller, name: &str) -> Result<pipelines::Pipeline, ApiError> {
    let (scope, wanted) = (caller.scope(), name.to_owned());
    let row = server.store().read(move |tx| pipelines::by_name(tx, scope, &wanted)).await?;
    row.ok_or_else(|| ApiError::not_found(format!("pipeline `{name}`")))
}

/// One pipeline, by name or id.
#[utoipa::path(get, path = "/api/pipelines/{name}", tag = "pipelines", params(("name" = String, Path)),
    responses((status = 200, body = Pipeline), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Pipeline>, ApiError> {
    shown(&find(&server, &caller, &name).await?).map(Json)
}

fn check_name(name: &str) -> Result<(), ApiError> {
    let good = !name.is_empty()
        && name.len() <= 200
        && !name.chars().any(char::is_control)
        && !name.starts_with('/');
    if good {
        Ok(())
    } else {
        Err(ApiError::bad_request("a pipeline needs a name such as `project/pipeline`"))
    }
}

/// Make a pipeline.
#[utoipa::path(post, path = "/api/pipelines", tag = "pipelines", request_body = Pipeline,
    responses((status = 200, body = Pipeline), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(mut pipeline): Json<Pipeline>,
) -> Result<Json<Pipeline>, ApiError> {
    check_name(&pipeline.metadata.name)?;
    orders::seal_variables(&server, caller.principal.account, &mut pipeline.spec.variables, &[]);
    let now_ms = server.now_ms();
    let row = pipelines::Pipeline {
        id: server.seams().new_id(),
        name: pipeline.metadata.name.clone(),
        body: serde_json::to_string(&pipeline).map_err(|error| ApiError::bad_request(error.to_string()))?,
        revision: 0,
        created_ms: now_ms,
        updated_ms: now_ms,
    };
    let (scope, kept) = (caller.scope(), row.clone());
    server.store().write(move |tx| pipelines::create(tx, scope, &kept)).await?;
    shown(&row).map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplaceQuery {
    disable_revision_check: Option<bool>,
}

/// Replace a pipeline. Without `disableRevisionCheck` its `metadata.revision` must be the current one.
#[utoipa::path(put, path = "/api/pipelines/{name}", tag = "pipelines", params(("name" = String, Path), ReplaceQuery), request_body = Pipeline,
    responses((status = 200, body = Pipeline), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn replace(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<ReplaceQuery>,
    Json(mut pipeline): Json<Pipeline>,
) -> Result<Json<Pipeline>, ApiError> {
    check_name(&pipeline.metadata.name)?;
    let known = find(&server, &caller, &name).await?;
    let old = stored(&known)?.spec.variables;
    orders::seal_variables(&server, caller.principal.account, &mut pipeline.spec.variables, &old);
    let expect = (query.disable_revision_check != Some(true)).then_some(pipeline.metadata.revision);
    let body = serde_json::to_string(&pipeline).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let (scope, id, now_ms, renamed) =
        (caller.scope(), known.id, server.now_ms(), pipeline.metadata.name.clone());
    server
        .store()
        .write(move |tx| pipelines::replace(tx, scope, id, &renamed, &body, expect, now_ms))
        .await?;
    shown(&find(&server, &caller, &id.to_string()).await?).map(Json)
}

/// Delete a pipeline. Its builds stay.
#[utoipa::path(delete, path = "/api/pipelines/{name}", tag = "pipelines", params(("name" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<String>, ApiError> {
    let (scope, id) = (caller.scope(), find(&server, &caller, &name).await?.id);
    server.store().write(move |tx| pipelines::delete(tx, scope, id)).await?;
    Ok(Json(id.to_string()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunQuery {
    /// The same id gives the same build, so that a call may be repeated.
    req_id: Option<String>,
}

/// Start a build. The answer is its id.
#[utoipa::path(post, path = "/api/pipelines/run/{name}", tag = "pipelines", params(("name" = String, Path), RunQuery), request_body = RunRequest,
    responses((status = 200, body = String), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn run(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<RunQuery>,
    Json(mut request): Json<RunRequest>,
) -> Result<Json<String>, ApiError> {
    let row = find(&server, &caller, &name).await?;
    let pipeline = stored(&row)?;
    orders::seal_variables(
        &server,
        caller.principal.account,
        &mut request.variables,
        &pipeline.spec.variables,
    );
    let commit = commit_for(&server, &caller, &pipeline, &request).await?;
    let order = Order::new(&pipeline, commit, request.variables, false)?;
    let id = server.seams().new_id();
    let cause = query.req_id.map_or_else(|| format!("run:{id}"), |req_id| format!("request:{req_id}"));
    let (scope, now_ms) = (caller.scope(), server.now_ms());
    let made = server
        .store()
        .write(move |tx| {
            let new =
                NewBuild { id, pipeline: row.id, pipeline_name: &row.name, order: &order, cause: &cause };
            builds::create(tx, scope, &new, now_ms)
        })
        .await?;
    Ok(Json(made.to_string()))
}

/// A run by hand builds the head of a branch of the repository that its trigger (the first, unless named) watches.
async fn commit_for(
    server: &Server,
    caller: &Caller,
    pipeline: &Pipeline,
    request: &RunRequest,
) -> Result<Option<TriggerCommit>, ApiError> {
    let triggers = &pipeline.spec.triggers;
    let trigger = match &request.trigger {
        Some(wanted) => Some(
            triggers
                .iter()
                .find(|trigger| {
                    &trigger.name == wanted
                        || trigger.other.get("id").and_then(|id| id.as_str()) == Some(wanted)
                })
                .ok_or_else(|| ApiError::not_found(format!("trigger `{wanted}`")))?,
        ),
        None => triggers.first(),
    };
    let repo_name = trigger
        .map(|trigger| trigger.repo.clone())
        .or_else(|| pipeline.spec.spec_template.as_ref()?.repo.clone());
    let Some(repo_name) = repo_name else { return Ok(None) };
    let (scope, wanted) = (caller.scope(), repo_name.clone());
    let found = server.store().read(move |tx| {
        let Some(repo) = git::by_name(tx, scope, &wanted)? else { return Ok(None) };
        let refs = git::known_refs(tx, repo.id)?;
        Ok(Some((repo, refs)))
    });
    let Some((repo, refs)) = found.await? else { return Ok(None) };
    let branch = request.branch.clone().unwrap_or_else(|| repo.default_branch.clone());
    let head = refs.get(&format!("refs/heads/{branch}"));
    let sha = request.sha.clone().or_else(|| head.map(|head| head.sha.clone()));
    let Some(sha) = sha else {
        return Err(ApiError::bad_request(format!(
            "`{repo_name}` has no branch `{branch}`: push it, or name another"
        )));
    };
    let by = match &caller.principal.who {
        Who::User { name, .. } => name.clone(),
        _ => caller.principal.display_name(),
    };
    let known = head.filter(|head| head.sha == sha);
    Ok(Some(TriggerCommit {
        repo: repo_name,
        branch,
        author: known.map_or(by, |head| head.author.clone()),
        message: known.map(|head| head.message.clone()).unwrap_or_default(),
        sha,
        trigger_name: trigger.map(|trigger| trigger.name.clone()).unwrap_or_default(),
    }))
}
