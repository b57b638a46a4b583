//! Applications as they were last reported, and runners.

use axum::Json;
use axum::extract::{Path, Query, State};
use slipway_api::application::{Application, ApplicationList};
use slipway_api::error::ErrorBody;
use slipway_api::runtime::Runner;
use slipway_store::builds;

use crate::ctx::Server;
use crate::gitops::application_filter::{Filter, ListQuery};
use crate::gitops::applications::{self as shown, visible};
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::seams;

/// An agent that was not heard of for this long is shown as offline.
const OFFLINE_AFTER_MS: i64 = 45_000;

/// Applications of all runtimes: a page of those that match, and counts by state.
#[utoipa::path(get, path = "/api/applications", tag = "gitops", params(ListQuery),
    responses((status = 200, body = ApplicationList), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<ApplicationList>, ApiError> {
    let filter = Filter::read(&query)?;
    let visible = server.store().read(move |tx| visible(tx, &caller, query.name.as_deref())).await?;
    Ok(Json(filter.page(visible)))
}

/// One Application with its resource tree and history.
#[utoipa::path(get, path = "/api/applications/{runtime}/{namespace}/{name}", tag = "gitops",
    params(("runtime" = String, Path), ("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Application), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path((runtime, namespace, name)): Path<(String, String, String)>,
) -> Result<Json<Application>, ApiError> {
    let found = server.look(move |tx| shown::one(tx, &caller, &runtime, &namespace, &name)).await?;
    Ok(Json(found))
}

/// Build runners.
#[utoipa::path(get, path = "/api/runners", tag = "builds", responses((status = 200, body = [Runner]), (status = 401, body = ErrorBody)))]
pub(crate) async fn runners(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<Runner>>, ApiError> {
    let (scope, now_ms) = (caller.scope(), server.now_ms());
    let rows = server.store().read(move |tx| builds::runners(tx, scope)).await?;
    let shown = rows.into_iter().map(|row| Runner {
        name: row.name,
        version: row.version,
        executor: row.executor,
        online: now_ms - row.last_seen_ms < OFFLINE_AFTER_MS,
        last_seen: seams::rfc3339(row.last_seen_ms),
    });
    Ok(Json(shown.collect()))
}
