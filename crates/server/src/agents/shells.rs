//! Bytes of shells, as the runner of their build gives and takes them. It dials, so both are calls of its own.

use axum::Json;
use axum::extract::{Path, State};
use slipway_api::debug::{ShellBytes, ShellInputWanted, ShellOutput};
use slipway_api::error::ErrorBody;
use slipway_store::builds::{self, Holder};
use slipway_store::debug;

use super::deadline;
use super::runner::{build_id, fenced, runner_name};
use crate::ci::shells::{self, Way};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;

/// The build is this runner's, and the shell is one that a person asked for in it.
async fn checked(
    server: &Server,
    caller: &Caller,
    id: &str,
    shell: &str,
    epoch: i64,
) -> Result<(), ApiError> {
    let runner = runner_name(caller)?.to_owned();
    let (scope, build, wanted) = (caller.scope(), build_id(id)?, shell.to_owned());
    let found = server.store().read(move |tx| {
        builds::is_held(tx, scope, build, Holder { runner: &runner, epoch })?;
        debug::by_id(tx, build, &wanted)
    });
    match found.await.map_err(|error| fenced(error, id))? {
        Some(order) if order.action == "shell" => Ok(()),
        _ => Err(ApiError::not_found(format!("shell `{shell}`"))),
    }
}

/// What a shell printed. It is not stored.
#[utoipa::path(post, path = "/api/agent/runner/builds/{id}/shells/{shell}/output", tag = "agents",
    params(("id" = String, Path), ("shell" = String, Path)), request_body = ShellOutput,
    responses((status = 200, body = bool), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn shell_output(
    State(server): State<Server>,
    caller: Caller,
    Path((id, shell)): Path<(String, String)>,
    Json(said): Json<ShellOutput>,
) -> Result<Json<bool>, ApiError> {
    checked(&server, &caller, &id, &shell, said.epoch).await?;
    let runner = runner_name(&caller)?;
    let account = caller.scope().account();
    server.inner.floods.admit(account, runner, said.piece.bytes.len(), server.now_ms())?;
    let offset = said.piece.offset;
    shells::put(&server, &shell, Way::Out, Some(offset), said.piece)?;
    Ok(Json(true))
}

/// What the user typed after an offset. Waits up to `waitMs` when there is nothing.
#[utoipa::path(post, path = "/api/agent/runner/builds/{id}/shells/{shell}/input", tag = "agents",
    params(("id" = String, Path), ("shell" = String, Path)), request_body = ShellInputWanted,
    responses((status = 200, body = ShellBytes), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn shell_input(
    State(server): State<Server>,
    caller: Caller,
    Path((id, shell)): Path<(String, String)>,
    Json(wanted): Json<ShellInputWanted>,
) -> Result<Json<ShellBytes>, ApiError> {
    checked(&server, &caller, &id, &shell, wanted.epoch).await?;
    let wait = deadline(wanted.wait_ms).saturating_duration_since(std::time::Instant::now());
    Ok(Json(shells::take(&server, &shell, Way::In, wanted.after, wait).await))
}
