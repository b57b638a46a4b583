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
/// Of an answer, before base64: a runner of ours reads no more.
const BYTES_MAX: usize = 4 << 20;
/// Of a header that is passed on.
const HEADER_CHARS_MAX: usize = 8 << 10;

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
    bound(&mut answer);
    let key = server.data_key(scope.account()).await?;
    let kept = sealed(&server, &key, scope.account(), &id, &answer);
    let wanted = id.clone();
    let taken = server.store().write(move |tx| errands::answer(tx, scope, &wanted, &runner, &kept)).await?;
    match taken {
        true => Ok(Json(true)),
        false => Err(ApiError::not_found(format!("errand `{id}`"))),
    }
}

/// What a runner says is data: whoever asked hears that it was too much, rather than waiting for an answer that never comes.
fn bound(answer: &mut ErrandAnswer) {
    if answer.body.len() > BYTES_MAX.div_ceil(3) * 4 {
        let problem = format!("the runner answered with more than {} MiB", BYTES_MAX >> 20);
        *answer = ErrandAnswer { problem: Some(problem), ..ErrandAnswer::default() };
    }
    if let Some(problem) = &mut answer.problem {
        cut(problem, PROBLEM_CHARS_MAX);
    }
    for header in [&mut answer.link, &mut answer.challenge].into_iter().flatten() {
        cut(header, HEADER_CHARS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_runner_says_no_more_than_fits() {
        let said = |bytes: usize| ErrandAnswer {
            status: 200,
            body: "A".repeat(bytes.div_ceil(3) * 4),
            link: Some("l".repeat(1 << 20)),
            challenge: Some("Basic\r\nX: y".into()),
            problem: None,
        };
        let mut most = said(BYTES_MAX);
        bound(&mut most);
        assert_eq!((most.status, most.link.map(|link| link.len())), (200, Some(HEADER_CHARS_MAX)));
        assert_eq!(most.challenge.as_deref(), Some("BasicX: y"));
        let mut more = said(BYTES_MAX + 3);
        bound(&mut more);
        assert_eq!(more.problem.as_deref(), Some("the runner answered with more than 4 MiB"));
        assert_eq!((more.status, more.body.as_str()), (0, ""));
    }
}
