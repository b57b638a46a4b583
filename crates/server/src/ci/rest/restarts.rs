//! A build once more: from its beginning, from its first failed step, or from a given one.

use axum::Json;
use axum::extract::{Path, State};
use slipway_api::build::{BuildStep, RestartRequest};
use slipway_api::debug::Breakpoints;
use slipway_api::error::ErrorBody;
use slipway_model::BuildId;
use slipway_store::{Tx, pipelines};

use super::builds::find_granted;
use crate::ci::orders::{Order, Restart, RestartPoint};
use crate::ci::start::{self, Asked, Wish};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

/// How a build is started again.
#[derive(Default)]
struct Again {
    from: Option<RestartPoint>,
    debug: bool,
    breakpoints: Breakpoints,
}

/// The same order once more, from the start or from a step.
fn order_again(
    tx: &mut Tx<'_>,
    server: &Server,
    caller: &Caller,
    id: &str,
    again: Again,
) -> Result<BuildId, ApiError> {
    let Again { from, debug, breakpoints } = again;
    let (old, granted) = find_granted(tx, caller, id, if debug { "debug" } else { "run" })?;
    let mut order: Order = old.order()?;
    // Whoever starts it again may not be who debugged it before.
    (order.options.debug, order.options.breakpoints) = (debug, breakpoints);
    let row = pipelines::by_name(tx, caller.scope(), &old.pipeline.to_string())?;
    let pipeline = row.as_ref().map(crate::ci::pipelines::stored).transpose()?;
    if let Some(pipeline) = pipeline.as_ref().filter(|_| debug) {
        for (step, phases) in crate::ci::orders::breakpoints(pipeline) {
            order.options.breakpoints.entry(step).or_insert(phases);
        }
    }
    if from.is_some() {
        if !old.status.is_final() {
            return Err(ApiError::conflict(format!("build `{id}` has not finished: terminate it, or wait")));
        }
        let settings =
            pipeline.as_ref().and_then(|pipeline| pipeline.spec.settings().ok()).unwrap_or_default();
        if settings.permit_restart_from_failed_steps == Some(false) {
            return Err(ApiError::forbidden(
                "the pipeline does not allow restarts from a step: restart it from the beginning",
            ));
        }
        if let Some(RestartPoint::Step(name)) = &from {
            let steps: Vec<BuildStep> = old.steps()?;
            if !steps.iter().any(|step| step.name == *name) {
                return Err(ApiError::not_found(format!("step `{name}` of build `{id}`")));
            }
        }
    }
    let word = if from.is_some() { "restart-from-step" } else { "restart" };
    order.initiator = Some(crate::ci::orders::initiator(&caller.principal));
    order.restart = Some(Restart { build: old.id.to_string(), from });
    let entry = Entry::new(word, "build", old.id, &old.pipeline_name);
    let asked = Asked { granted, wish: Wish::Restart, caller, entry };
    let made = match (&row, &pipeline) {
        (Some(row), Some(pipeline)) => {
            let of = start::Current { row, pipeline };
            start::start(server, tx, caller.scope(), of, &order, asked)
        }
        // Its pipeline is gone; what was ordered is all there is to know.
        _ => start::again(server, tx, caller.scope(), &old, &order, asked),
    };
    Ok(made?)
}

/// Start a build again with the same commit and variables. The answer is the id of the new build.
#[utoipa::path(get, path = "/api/builds/rebuild/{id}", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn restart(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let inner = server.clone();
    let made = server.change(move |tx| order_again(tx, &inner, &caller, &id, Again::default())).await?;
    Ok(Json(made.to_string()))
}

/// Start a build again: from the beginning, from the first failed step, or from a given one.
#[utoipa::path(post, path = "/api/builds/{id}/restart", tag = "builds", params(("id" = String, Path)), request_body = RestartRequest,
    responses((status = 200, body = String), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn restart_from(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(request): Json<RestartRequest>,
) -> Result<Json<String>, ApiError> {
    let from = match (request.from_step.filter(|name| !name.is_empty()), request.from_failed) {
        (Some(name), _) => Some(RestartPoint::Step(name)),
        (None, true) => Some(RestartPoint::FirstFailed),
        (None, false) => None,
    };
    crate::ci::rest::debug::check(&request.breakpoints)?;
    let debug = request.debug || !request.breakpoints.is_empty();
    let again = Again { from, debug, breakpoints: request.breakpoints };
    let inner = server.clone();
    let made = server.change(move |tx| order_again(tx, &inner, &caller, &id, again)).await?;
    Ok(Json(made.to_string()))
}
