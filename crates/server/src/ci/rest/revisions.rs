//! The states that a pipeline had: list, compare, go back.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{Pipeline, PipelineDiff, PipelineRevision};
use slipway_store::{StoreError, Tx, pipelines, projects};
use utoipa::IntoParams;

use crate::ci::pipelines::stored;
use crate::ci::rest::pipelines::{find, put, shown};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::seams;

/// Revisions of a pipeline, newest first.
#[utoipa::path(get, path = "/api/pipelines/{name}/revisions", tag = "revisions", params(("name" = String, Path)),
    responses((status = 200, body = [PipelineRevision]), (status = 404, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Vec<PipelineRevision>>, ApiError> {
    let found = server
        .look(move |tx| {
            let row = find(tx, &caller, &name, "read")?;
            let all = pipelines::revisions(tx, row.id)?.into_iter().map(|revision| PipelineRevision {
                revision: revision.revision,
                name: revision.name,
                author: revision.author,
                at: seams::rfc3339(revision.at_ms),
            });
            Ok(all.collect())
        })
        .await?;
    Ok(Json(found))
}

fn at(tx: &mut Tx<'_>, row: &pipelines::Pipeline, number: i64) -> Result<pipelines::Pipeline, ApiError> {
    let found = pipelines::revision_of(tx, row.id, number)?
        .ok_or_else(|| ApiError::not_found(format!("revision {number} of pipeline `{}`", row.name)))?;
    Ok(pipelines::Pipeline {
        name: found.name,
        body: found.body,
        revision: found.revision,
        updated_ms: found.at_ms,
        ..row.clone()
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffQuery {
    from: i64,
    /// The current one when left out.
    to: Option<i64>,
}

/// Two revisions of a pipeline as text, without secrets.
#[utoipa::path(get, path = "/api/pipelines/{name}/diff", tag = "revisions", params(("name" = String, Path), DiffQuery),
    responses((status = 200, body = PipelineDiff), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn diff(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<DiffQuery>,
) -> Result<Json<PipelineDiff>, ApiError> {
    let found = server
        .look(move |tx| {
            let row = find(tx, &caller, &name, "read")?;
            let projects = projects::list(tx, caller.scope())?;
            let mut text = |number: i64| -> Result<String, ApiError> {
                let mut pipeline = shown(&at(tx, &row, number)?, &projects)?;
                // What differs by itself is no news.
                pipeline.metadata.updated_at.clear();
                pipeline.metadata.revision = 0;
                let value = serde_json::to_value(&pipeline).map_err(StoreError::corrupt)?;
                Ok(slipway_yaml::to_yaml(&value))
            };
            let (from, to) = (query.from, query.to.unwrap_or(row.revision));
            Ok(PipelineDiff { from, to, before: text(from)?, after: text(to)? })
        })
        .await?;
    Ok(Json(found))
}

/// Restore an earlier revision. It becomes a new revision.
#[utoipa::path(post, path = "/api/pipelines/{name}/revisions/{revision}/restore", tag = "revisions",
    params(("name" = String, Path), ("revision" = i64, Path)),
    responses((status = 200, body = Pipeline), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn restore(
    State(server): State<Server>,
    caller: Caller,
    Path((name, revision)): Path<(String, String)>,
) -> Result<Json<Pipeline>, ApiError> {
    let inner = server.clone();
    let restored = server
        .change(move |tx| {
            let row = find(tx, &caller, &name, "update")?;
            let number = revision.parse().map_err(|_| ApiError::not_found(format!("revision {revision}")))?;
            let old = stored(&at(tx, &row, number)?)?;
            put(tx, &inner, &caller, &name, old, Some(row.revision), "restore")
        })
        .await?;
    Ok(Json(restored))
}
