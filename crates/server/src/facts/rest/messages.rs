//! Messages of the bus that could not be followed up: those that are tried again, and those that were given up.
//!
//! For administrators of the platform. What a message says is not shown: it is an account's.

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use slipway_api::error::ErrorBody;
use slipway_store::deferred::{self, Deferred};
use utoipa::ToSchema;

use crate::ctx::{QUEUES, Server};
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

const LISTED_MAX: i64 = 1_000;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeptMessage {
    /// `CONSUMER:NUMBER`.
    id: String,
    /// `facts.repository`, for example.
    topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    attempts: i64,
    /// Why the last attempt failed.
    problem: String,
    since: String,
    /// When it is tried again; absent when it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Since when nobody tries it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeptMessages {
    messages: Vec<KeptMessage>,
    /// Set aside by the broker itself, because whoever handled them died each time. Only all of them are tried again.
    at_broker: u32,
}

fn shown(row: Deferred) -> KeptMessage {
    KeptMessage {
        id: format!("{}:{}", row.consumer, row.message),
        topic: row.topic,
        account: row.account.map(|id| id.to_string()),
        attempts: row.attempts,
        problem: row.problem,
        since: seams::rfc3339(row.created_ms),
        next: row.dead_ms.is_none().then(|| seams::rfc3339(row.next_ms)),
        dead: row.dead_ms.map(seams::rfc3339),
    }
}

/// Messages that could not be processed, those that were given up first.
#[utoipa::path(get, path = "/api/admin/messages", tag = "platform",
    responses((status = 200, body = KeptMessages), (status = 403, body = ErrorBody)))]
pub(crate) async fn list(State(server): State<Server>) -> Result<Json<KeptMessages>, ApiError> {
    let rows = server.store().read(|tx| deferred::list(tx, LISTED_MAX)).await?;
    let mut at_broker = 0;
    for queue in QUEUES {
        at_broker += server.inner.bus.set_aside(queue.name).await.unwrap_or(0);
    }
    Ok(Json(KeptMessages { messages: rows.into_iter().map(shown).collect(), at_broker }))
}

/// Retry a message, for as long as a new one is retried.
#[utoipa::path(post, path = "/api/admin/messages/{id}/retry", tag = "platform", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn again(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let now_ms = server.now_ms();
    let done = server.change(move |tx| {
        let what = || ApiError::not_found(format!("message `{id}`"));
        let (consumer, message) = id.split_once(':').ok_or_else(what)?;
        if !deferred::again(tx, consumer, message, now_ms)? {
            return Err(what());
        }
        let entry = Entry::new("retry", "message", &id, &id);
        caller.trail.allowed(tx, &caller.actor(), &entry)?;
        Ok(id)
    });
    Ok(Json(done.await?))
}

/// Retry all messages that were given up, also those in the broker's dead-letter queues. The answer is their number.
#[utoipa::path(post, path = "/api/admin/messages/retry", tag = "platform",
    responses((status = 200, body = i64), (status = 403, body = ErrorBody), (status = 503, body = ErrorBody)))]
pub(crate) async fn all_again(State(server): State<Server>, caller: Caller) -> Result<Json<i64>, ApiError> {
    let now_ms = server.now_ms();
    let kept = server
        .change(move |tx| {
            let dead = deferred::list(tx, LISTED_MAX)?.into_iter().filter(|row| row.dead_ms.is_some());
            let mut count = 0;
            for row in dead {
                count += i64::from(deferred::again(tx, &row.consumer, &row.message, now_ms)?);
            }
            let entry = Entry::new("retry", "message", "all", "all").after(count);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(count)
        })
        .await?;
    let mut at_broker = 0;
    for queue in QUEUES {
        let moved = server.inner.bus.play_again(queue.name).await;
        at_broker += i64::from(moved.map_err(|error| ApiError::unavailable(error.to_string()))?);
    }
    Ok(Json(kept + at_broker))
}
