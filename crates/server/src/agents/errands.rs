//! What a runner found out inside of its network, for the integration that asked ([`crate::ci::errands`]).

use axum::Json;
use axum::extract::{Path, State};
use slipway_api::agent::ErrandAnswer;
use slipway_api::error::ErrorBody;
use slipway_store::errands;

use super::runner::runner_name;
use crate::ci::errands::sealed;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::input::cut;
use crate::identity::auth::Caller;

const PROBLEM_CHARS_MAX: usize = 300;

/// The answer to an errand, by the runner that was given it. Once: whoever waited has it, or has gone.
#[utoipa::path(post, path = "/api/agent/runner/errands/{id}", tag = "agents", params(("id" = String, Path)), request_body = ErrandAnswer,
    responses((status = 200, body = bool), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn answer_errand(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(mut answer): Json<ErrandAnswer>,
) -> Result<Json<bool>, ApiError> {
    let runner = runner_name(&caller)?.to_owned();
    let scope = caller.scope();
    server.inner.floods.admit(scope.account(), &runner, answer.body.len(), server.now_ms())?;
    if let Some(problem) = &mut answer.problem {
        cut(problem, PROBLEM_CHARS_MAX);
    }
    let key = server.data_key(scope.account()).await?;
    let kept = sealed(&server, &key, scope.account(), &id, &answer);
    let wanted = id.clone();
    let taken = server.store().write(move |tx| errands::answer(tx, scope, &wanted, &runner, &kept)).await?;
    match taken {
        true => Ok(Json(true)),
        false => Err(ApiError::not_found(format!("errand `{id}`"))),
    }
}
