//! Pipelines: read, make, replace, delete, check and run.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_access::{Entity, Role, Rule, Who, decide_on};
use slipway_api::agent::TriggerCommit;
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{Pipeline, PipelineList, RunRequest};
use slipway_model::PipelineId;
use slipway_store::builds::{self, NewBuild};
use slipway_store::{StoreError, Tx, git, pipelines};
use utoipa::IntoParams;

use crate::access;
use crate::auth::Caller;
use crate::ctx::Server;
use crate::error::ApiError;
use crate::orders::{self, Order};
use crate::seams;
use crate::trail::Entry;

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
    let rows = server
        .store()
        .read(move |tx| {
            let rules = access::rules_about(tx, &caller, "pipeline")?;
            let mut rows = pipelines::list(tx, caller.scope())?;
            rows.retain(|row| reads(&caller, &rules, row));
            Ok(rows)
        })
        .await?;
    let part = query.id.unwrap_or_default();
    let matching: Vec<_> = rows.iter().filter(|row| row.name.contains(&part)).collect();
    let page = matching.iter().skip(query.offset.unwrap_or(0)).take(query.limit.unwrap_or(25));
    let docs = page.map(|row| shown(row)).collect::<Result<_, _>>()?;
    Ok(Json(PipelineList { docs, count: i64::try_from(matching.len()).unwrap_or(i64::MAX) }))
}

fn reads(caller: &Caller, rules: &[Rule], row: &pipelines::Pipeline) -> bool {
    let Ok(body) = serde_json::from_str::<Pipeline>(&row.body) else { return false };
    decide_on(&caller.principal, rules, "read", &access::pipeline_entity(&row.name, &body)).allowed
}

/// The pipelines whose builds the caller may see; `None` when it is all of them.
pub(crate) fn readable(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Vec<PipelineId>>, StoreError> {
    if caller.principal.role() == Some(Role::Administrator) {
        return Ok(None);
    }
    let rules = access::rules_about(tx, caller, "pipeline")?;
    let all = pipelines::list(tx, caller.scope())?;
    let some: Vec<_> = all.iter().filter(|row| reads(caller, &rules, row)).map(|row| row.id).collect();
    Ok((some.len() < all.len()).then_some(some))
}

/// A build goes by its pipeline. One whose pipeline is gone goes by a pipeline without tags.
pub(crate) fn require_by_id(
    tx: &mut Tx<'_>,
    caller: &Caller,
    pipeline: PipelineId,
    action: &str,
    what: &str,
) -> Result<(), ApiError> {
    match pipelines::by_name(tx, caller.scope(), &pipeline.to_string())? {
        Some(row) => {
            let body = stored(&row)?;
            access::require(tx, caller, action, "read", &access::pipeline_entity(&row.name, &body), what)?
        }
        None => {
            let gone = Entity { kind: "pipeline", name: "(deleted)", ..Entity::default() };
            access::require(tx, caller, action, "read", &gone, what)?
        }
    }
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

/// The pipeline, if the caller may do this to it.
fn find(tx: &mut Tx<'_>, caller: &Caller, name: &str, action: &str) -> Result<pipelines::Pipeline, ApiError> {
    let what = format!("pipeline `{name}`");
    let row = pipelines::by_name(tx, caller.scope(), name)?.ok_or_else(|| ApiError::not_found(&what))?;
    let body = stored(&row)?;
    access::require(tx, caller, action, "read", &access::pipeline_entity(&row.name, &body), &what)??;
    Ok(row)
}

/// One pipeline, by name or id.
#[utoipa::path(get, path = "/api/pipelines/{name}", tag = "pipelines", params(("name" = String, Path)),
    responses((status = 200, body = Pipeline), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Pipeline>, ApiError> {
    Ok(Json(server.look(move |tx| shown(&find(tx, &caller, &name, "read")?)).await?))
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
    let key = server.data_key(caller.principal.account).await?;
    orders::seal_variables(&key, server.seams(), caller.principal.account, &mut pipeline.spec.variables, &[]);
    let now_ms = server.now_ms();
    let row = pipelines::Pipeline {
        id: server.seams().new_id(),
        name: pipeline.metadata.name.clone(),
        body: serde_json::to_string(&pipeline).map_err(|error| ApiError::bad_request(error.to_string()))?,
        revision: 0,
        created_ms: now_ms,
        updated_ms: now_ms,
    };
    let made = server
        .change(move |tx| {
            let entity = access::pipeline_entity(&row.name, &pipeline);
            access::refuse(access::may(tx, &caller, "create", &entity)?, true, &row.name)?;
            pipelines::create(tx, caller.scope(), &row)?;
            let made = shown(&row)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("create", "pipeline", row.id, &row.name).after(&made),
            )?;
            Ok(made)
        })
        .await?;
    Ok(Json(made))
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
    let key = server.data_key(caller.principal.account).await?;
    let inner = server.clone();
    let changed = server
        .change(move |tx| {
            let known = find(tx, &caller, &name, "update")?;
            let old = stored(&known)?.spec.variables;
            orders::seal_variables(
                &key,
                inner.seams(),
                caller.principal.account,
                &mut pipeline.spec.variables,
                &old,
            );
            // Tags decide who may what: nobody tags a pipeline into or out of reach without the right to.
            let entity = access::pipeline_entity(&pipeline.metadata.name, &pipeline);
            access::refuse(access::may(tx, &caller, "update", &entity)?, true, &name)?;
            let expect = (query.disable_revision_check != Some(true)).then_some(pipeline.metadata.revision);
            let body =
                serde_json::to_string(&pipeline).map_err(|error| ApiError::bad_request(error.to_string()))?;
            let (id, scope) = (known.id, caller.scope());
            pipelines::replace(tx, scope, id, &pipeline.metadata.name, &body, expect, inner.now_ms())?;
            let row = pipelines::by_name(tx, scope, &id.to_string())?
                .ok_or_else(|| ApiError::not_found(format!("pipeline `{name}`")))?;
            let after = shown(&row)?;
            let entry = Entry::new("update", "pipeline", id, &row.name).before(shown(&known)?).after(&after);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(after)
        })
        .await?;
    Ok(Json(changed))
}

/// Delete a pipeline. Its builds stay.
#[utoipa::path(delete, path = "/api/pipelines/{name}", tag = "pipelines", params(("name" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<String>, ApiError> {
    let id = server
        .change(move |tx| {
            let row = find(tx, &caller, &name, "delete")?;
            pipelines::delete(tx, caller.scope(), row.id)?;
            let entry = Entry::new("delete", "pipeline", row.id, &row.name).before(shown(&row)?);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(row.id)
        })
        .await?;
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
    let (asking, wanted) = (caller.clone(), name.clone());
    let row = server.look(move |tx| find(tx, &asking, &wanted, "run")).await?;
    let pipeline = stored(&row)?;
    let key = server.data_key(caller.principal.account).await?;
    let account = caller.principal.account;
    orders::seal_variables(&key, server.seams(), account, &mut request.variables, &pipeline.spec.variables);
    let commit = commit_for(&server, &caller, &pipeline, &request).await?;
    let order = Order::new(&pipeline, commit, request.variables, false)?;
    let id = server.seams().new_id();
    let cause = query.req_id.map_or_else(|| format!("run:{id}"), |req_id| format!("request:{req_id}"));
    let now_ms = server.now_ms();
    let made = server
        .change(move |tx| {
            // Asked again where it counts: the right may have gone since.
            let row = find(tx, &caller, &name, "run")?;
            let new =
                NewBuild { id, pipeline: row.id, pipeline_name: &row.name, order: &order, cause: &cause };
            let made = builds::create(tx, caller.scope(), &new, now_ms)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("run", "pipeline", row.id, &row.name).after(made),
            )?;
            Ok(made)
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
