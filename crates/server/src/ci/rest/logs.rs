//! Logs of a build: whole, or followed live with a place to resume from.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use slipway_api::build::LogChunk;
use slipway_api::error::ErrorBody;
use slipway_model::{AccountId, BuildId, ChangeKind};
use slipway_store::logs::{self, Chunk};
use slipway_store::{Committed, Scope, builds};
use tokio::sync::broadcast;
use utoipa::{IntoParams, ToSchema};

use crate::ci::rest::builds::find;
use crate::ci::rest::log_socket::LOGS;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::graphql::RECHECK;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seal::DataKey;

const BATCH: i64 = 200;

/// Somebody looks at a log: that is recorded before they see any of it.
pub(crate) async fn viewed(server: &Server, caller: &Caller, build: &builds::Build) -> Result<(), ApiError> {
    let who = caller.principal.reference().1;
    if !server.inner.views.is_new(who, build.id, server.now_ms()) {
        return Ok(());
    }
    let entry = Entry::new("view-log", "build", build.id, &build.pipeline_name);
    let (actor, trail) = (caller.actor(), caller.trail.clone());
    Ok(server.store().write(move |tx| trail.record(tx, &actor, &entry, "allowed", 200)).await?)
}

/// In the shape that the published CLI prints.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WholeLog {
    steps: BTreeMap<String, StepLog>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepLog {
    name: String,
    creation_time_stamp: i64,
    logs: BTreeMap<String, String>,
}

/// The whole log, step by step.
#[utoipa::path(get, path = "/api/builds/{id}/logs", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = WholeLog), (status = 404, body = ErrorBody)))]
pub(crate) async fn whole(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<WholeLog>, ApiError> {
    let build = find(&server, &caller, &id).await?;
    viewed(&server, &caller, &build).await?;
    Ok(Json(read_whole(&server, caller.scope(), &build).await?))
}

async fn read_whole(server: &Server, scope: Scope, build: &builds::Build) -> Result<WholeLog, ApiError> {
    let id = build.id;
    let mut steps: BTreeMap<String, StepLog> = BTreeMap::new();
    let mut after = 0;
    loop {
        let chunks = server.store().read(move |tx| logs::after(tx, scope, id, after, BATCH)).await?;
        let Some(last) = chunks.last() else { break };
        after = last.seq;
        for chunk in chunks {
            let order = i64::try_from(steps.len()).unwrap_or(0);
            let step = steps.entry(chunk.step.clone()).or_insert_with(|| StepLog {
                name: chunk.step,
                creation_time_stamp: build.created_ms / 1000 + order,
                logs: BTreeMap::new(),
            });
            step.logs.insert(format!("{:012}", chunk.seq), chunk.text);
        }
    }
    Ok(WholeLog { steps })
}

/// How long an address that needs no key is good for.
const SIGNED_FOR_MS: i64 = 10 * 60 * 1000;

/// Every part with its length, so that no two different addresses sign the same text.
fn signed_text(account: AccountId, build: BuildId, until_ms: i64) -> String {
    ["log-url", "GET", &account.to_string(), &build.to_string(), &until_ms.to_string()]
        .iter()
        .map(|part| format!("{}:{part}", part.len()))
        .collect()
}

/// An address for a client that fetches without a key.
pub(crate) fn sign(server: &Server, key: &DataKey, account: AccountId, build: BuildId) -> String {
    let until_ms = server.now_ms() + SIGNED_FOR_MS;
    let signature = key.chain(&signed_text(account, build, until_ms));
    format!(
        "{}/api/logs/{build}?account={account}&until={until_ms}&signature={signature}",
        server.public_url()
    )
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SignedQuery {
    account: Option<String>,
    until: Option<i64>,
    signature: Option<String>,
}

/// The whole log, by a signed URL that is valid for a few minutes.
#[utoipa::path(get, path = "/api/logs/{id}", tag = "builds", params(("id" = String, Path), SignedQuery),
    responses((status = 200, body = WholeLog), (status = 404, body = ErrorBody)))]
pub(crate) async fn signed(
    State(server): State<Server>,
    Path(id): Path<String>,
    Query(query): Query<SignedQuery>,
) -> Result<Json<WholeLog>, ApiError> {
    let gone = || ApiError::not_found("this log: its address has expired, request a new one");
    let (Some(account), Some(until_ms), Some(signature)) = (query.account, query.until, query.signature)
    else {
        return Err(gone());
    };
    let (account, build) = (account.parse().map_err(|_| gone())?, id.parse().map_err(|_| gone())?);
    let key = server.data_key(account).await.map_err(|_| gone())?;
    let expected = key.chain(&signed_text(account, build, until_ms));
    let same =
        aws_lc_rs::constant_time::verify_slices_are_equal(expected.as_bytes(), signature.as_bytes()).is_ok();
    if !same || until_ms < server.now_ms() {
        return Err(gone());
    }
    let scope = Scope::of(account);
    let row = server.store().read(move |tx| builds::by_id(tx, scope, build)).await?.ok_or_else(gone)?;
    Ok(Json(read_whole(&server, scope, &row).await?))
}

struct Follow {
    server: Server,
    scope: Scope,
    build: BuildId,
    after: i64,
    pending: std::collections::VecDeque<Chunk>,
    commits: broadcast::Receiver<Committed>,
    ended: bool,
    caller: Caller,
}

/// The log as server-sent events, live. Send `Last-Event-ID` to resume; the event `end` comes last.
#[utoipa::path(get, path = "/api/builds/{id}/logs/stream", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, description = "server-sent events", body = LogChunk, content_type = "text/event-stream"), (status = 404, body = ErrorBody)))]
pub(crate) async fn follow(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    // Subscribe before the first look, so that nothing falls between the two.
    let commits = server.store().subscribe();
    let build = find(&server, &caller, &id).await?;
    viewed(&server, &caller, &build).await?;
    let build = build.id;
    let after = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(0);
    let scope = caller.scope();
    let follow =
        Follow { server, scope, build, after, pending: Default::default(), commits, ended: false, caller };
    Ok(Sse::new(stream::unfold(follow, next)).keep_alive(KeepAlive::default()))
}

async fn next(mut follow: Follow) -> Option<(Result<Event, Infallible>, Follow)> {
    if follow.ended {
        return None;
    }
    loop {
        if let Some(chunk) = follow.pending.pop_front() {
            follow.after = chunk.seq;
            let offset = u64::try_from(chunk.offset).unwrap_or(0);
            let body = LogChunk { seq: chunk.seq, step: chunk.step, offset, text: chunk.text };
            let event =
                Event::default().id(chunk.seq.to_string()).json_data(body).expect("a log piece is JSON");
            return Some((Ok(event), follow));
        }
        let (scope, build, after) = (follow.scope, follow.build, follow.after);
        let looked = follow.server.store().read(move |tx| {
            // The status before the pieces: an end seen here means that no piece comes after those read next.
            let ended = builds::by_id(tx, scope, build)?.is_none_or(|build| build.status.is_final());
            Ok((ended, logs::after(tx, scope, build, after, BATCH)?))
        });
        let Ok((ended, chunks)) = looked.await else { return None };
        follow.pending.extend(chunks);
        if !follow.pending.is_empty() {
            continue;
        }
        if ended {
            follow.ended = true;
            return Some((Ok(Event::default().event("end").data("{}")), follow));
        }
        if !wait_for_news(&mut follow).await {
            return None;
        }
    }
}

/// The caller's credential is still good, and the build still theirs to see.
async fn still_may(follow: &Follow) -> bool {
    match follow.caller.still(&follow.server, LOGS).await {
        Some(caller) => find(&follow.server, &caller, &follow.build.to_string()).await.is_ok(),
        None => false,
    }
}

/// `false` when the server stops (the client reconnects and resumes), or when the caller may no longer look.
async fn wait_for_news(follow: &mut Follow) -> bool {
    let (id, account) = (follow.build.to_string(), follow.scope.account());
    let shutdown = follow.server.inner.shutdown.clone();
    loop {
        let heard = tokio::select! {
            () = shutdown.cancelled() => return false,
            // Also a look for news: what other processes say of a log may be lost.
            () = tokio::time::sleep(RECHECK) => return still_may(follow).await,
            heard = follow.commits.recv() => heard,
        };
        let access =
            |commit: &Committed| commit.changes.iter().any(|change| change.kind == ChangeKind::Access);
        if heard.as_ref().is_ok_and(access) && !still_may(follow).await {
            return false;
        }
        match heard {
            Ok(commit) => {
                let mine = |change: &slipway_model::Change| {
                    matches!(change.kind, ChangeKind::Build | ChangeKind::Log)
                        && change.is_of(account)
                        && change.id == id
                };
                if commit.missed || commit.changes.iter().any(mine) {
                    return true;
                }
            }
            Err(broadcast::error::RecvError::Lagged(_)) => return true,
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}
