//! Answers to steps that wait for approval: who, which way, why.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_api::build::{Approval, ApprovalAnswer, BuildStep};
use slipway_api::error::ErrorBody;
use slipway_store::{Scope, Tx, approvals, builds};
use utoipa::IntoParams;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

const REASON_CHARS_MAX: usize = 2_000;

pub(crate) fn shown(row: &approvals::Approval) -> Approval {
    Approval {
        step: row.step.clone(),
        approved: row.approved,
        by: row.by_name.clone(),
        by_kind: row.by_kind.clone(),
        reason: row.reason.clone(),
        at: seams::rfc3339(row.at_ms),
    }
}

/// The step that is meant: the one that was named, or the only one that waits.
fn waiting(build: &builds::Build, step: Option<&str>, id: &str) -> Result<String, ApiError> {
    let steps: Vec<BuildStep> = build.steps()?;
    let mut asks = steps.iter().filter(|step| step.status == "pending-approval");
    let found = match step {
        Some(name) => asks.find(|step| step.name == name),
        None => asks.next(),
    };
    let found = found.ok_or_else(|| {
        let which = step.map(|name| format!("step `{name}` of ")).unwrap_or_default();
        ApiError::conflict(format!("{which}build `{id}` is not waiting for approval"))
    })?;
    if step.is_none() && asks.next().is_some() {
        return Err(ApiError::bad_request(format!(
            "several steps of build `{id}` are waiting: name one in `step`"
        )));
    }
    Ok(found.name.clone())
}

fn decide(
    tx: &mut Tx<'_>,
    server: &Server,
    caller: &Caller,
    id: &str,
    approved: bool,
    step: Option<&str>,
    reason: Option<String>,
) -> Result<Approval, ApiError> {
    let build = crate::ci::rest::builds::find_in(tx, caller, id, "approve")?;
    let known = approvals::of_build(tx, build.id)?;
    // The published client has no way to say which step, and asks again when an answer got lost.
    let repeated = known.iter().rev().find(|known| step.is_none_or(|step| step == known.step));
    let name = match (waiting(&build, step, id), repeated) {
        (Ok(name), _) => name,
        (Err(_), Some(known)) => known.step.clone(),
        (Err(error), None) => return Err(error),
    };
    let (by_kind, by_id) = caller.principal.reference();
    let new = approvals::Approval {
        step: name,
        approved,
        by_kind: if by_kind.contains("service") { "service-account".into() } else { "user".into() },
        by_id,
        by_name: caller.principal.display_name(),
        reason: reason.filter(|reason| !reason.trim().is_empty()),
        at_ms: server.now_ms(),
    };
    let kept = approvals::decide(tx, Scope::of(build.account), build.id, &new)?;
    if kept.approved != approved {
        let (was, by) = (if kept.approved { "approved" } else { "denied" }, &kept.by_name);
        return Err(ApiError::conflict(format!("step `{}` was already {was} by {by}", kept.step)));
    }
    if kept == new {
        let mut entry =
            Entry::new(if approved { "approve" } else { "deny" }, "build", build.id, &build.pipeline_name)
                .after(serde_json::json!({"step": new.step}));
        if let Some(reason) = &new.reason {
            entry = entry.because(reason.clone());
        }
        caller.trail.allowed(tx, &caller.actor(), &entry)?;
    }
    Ok(shown(&kept))
}

/// Approve or deny a step, with a reason.
#[utoipa::path(post, path = "/api/builds/{id}/approvals", tag = "builds", params(("id" = String, Path)), request_body = ApprovalAnswer,
    responses((status = 200, body = Approval), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn answer(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(answer): Json<ApprovalAnswer>,
) -> Result<Json<Approval>, ApiError> {
    let inner = server.clone();
    let kept = server
        .change(move |tx| {
            // Looked for first: who may not see the build learns nothing of what a good answer is.
            crate::ci::rest::builds::find_in(tx, &caller, &id, "approve")?;
            let approved = match answer.answer.as_str() {
                "approve" => true,
                "deny" => false,
                other => {
                    return Err(ApiError::bad_request(format!(
                        "`{other}` is not a valid answer: use `approve` or `deny`"
                    )));
                }
            };
            if answer.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
                return Err(ApiError::bad_request(format!(
                    "the reason is longer than {REASON_CHARS_MAX} characters"
                )));
            }
            decide(tx, &inner, &caller, &id, approved, answer.step.as_deref(), answer.reason)
        })
        .await?;
    Ok(Json(kept))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DecideQuery {
    step: Option<String>,
    reason: Option<String>,
}

async fn by_get(
    server: Server,
    caller: Caller,
    id: String,
    query: DecideQuery,
    approved: bool,
) -> Result<Json<Approval>, ApiError> {
    let inner = server.clone();
    let kept = server
        .change(move |tx| decide(tx, &inner, &caller, &id, approved, query.step.as_deref(), query.reason))
        .await?;
    Ok(Json(kept))
}

/// Approve a step, at the path that the published CLI uses.
#[utoipa::path(get, path = "/api/workflow/{id}/pending-approval/approve", tag = "builds", params(("id" = String, Path), DecideQuery),
    responses((status = 200, body = Approval), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn approve(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<DecideQuery>,
) -> Result<Json<Approval>, ApiError> {
    by_get(server, caller, id, query, true).await
}

/// Deny a step, at the path that the published CLI uses.
#[utoipa::path(get, path = "/api/workflow/{id}/pending-approval/deny", tag = "builds", params(("id" = String, Path), DecideQuery),
    responses((status = 200, body = Approval), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn deny(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<DecideQuery>,
) -> Result<Json<Approval>, ApiError> {
    by_get(server, caller, id, query, false).await
}
