//! GitOps runtimes: they hear of pushes and report their Applications.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use slipway_access::{Policy, Who};
use slipway_api::error::ErrorBody;
use slipway_api::report::{ReportTaken, RuntimeReport};
use slipway_api::runtime::{RuntimeEvent, RuntimeEvents};
use slipway_model::{AccountId, Fact, RepoEvent};
use slipway_store::{Committed, applications, facts};
use utoipa::IntoParams;

use super::packed::Packed;
use super::{deadline, news};
use crate::ci::providers::{self, ProviderError};
use crate::ctx::Server;
use crate::gitops::intake::Intake;
use crate::gitops::tunnels::touches_rights;
use crate::http::error::ApiError;
use crate::identity::auth::{Caller, Credential};

const BATCH: i64 = 200;
/// Beyond it a report waits at its runtime, which has a file for it, and not in our memory.
const WRITES_WAITING_MAX: u64 = 500;
const BUSY_SECONDS: u64 = 2;

fn runtime_name(caller: &Caller) -> Result<String, ApiError> {
    match &caller.principal.who {
        Who::Runtime { name } => Ok(name.clone()),
        _ => Err(ApiError::forbidden("this needs a runtime's key")),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventsQuery {
    /// `next` of the answer before. Absent: what comes from now on.
    after: Option<i64>,
    wait_ms: Option<u64>,
}

/// Pushes since `after`. Waits up to `waitMs` when there are none.
#[utoipa::path(get, path = "/api/agent/runtime/events", tag = "agents", params(EventsQuery),
    responses((status = 200, body = RuntimeEvents), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn events(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<EventsQuery>,
) -> Result<Json<RuntimeEvents>, ApiError> {
    let name = runtime_name(&caller)?;
    let until = deadline(query.wait_ms.unwrap_or(0));
    let mut commits = server.store().subscribe();
    let (scope, account, now_ms) = (caller.scope(), caller.principal.account, server.now_ms());
    server.store().write(move |tx| applications::touch_runtime(tx, scope, &name, now_ms)).await?;
    let Some(mut after) = query.after else {
        let next = server.store().read(facts::last_seq).await?;
        return Ok(Json(RuntimeEvents { events: Vec::new(), next }));
    };
    loop {
        let recorded = server.store().read(move |tx| facts::after(tx, after, Some(account), BATCH)).await?;
        after = recorded.last().map_or(after, |last| last.seq);
        let is_all = recorded.len() < BATCH as usize;
        let mut events = Vec::new();
        let mut bases = HashMap::new();
        for recorded in recorded {
            match recorded.fact {
                Fact::Pushed { clone_url, reference, after, changed_paths, .. } => {
                    let sha = after.map(|commit| commit.sha);
                    events.push(RuntimeEvent { seq: recorded.seq, clone_url, reference, sha, changed_paths });
                }
                Fact::Repository { event, .. } => {
                    let Some(reference) = moved(&event) else { continue };
                    if let Some(base) = clone_base(&server, account, &event.context, &mut bases).await? {
                        events.push(RuntimeEvent {
                            seq: recorded.seq,
                            clone_url: format!("{}/{}.git", base.trim_end_matches('/'), event.repo),
                            reference,
                            sha: Some(event.sha).filter(|sha| !sha.is_empty()),
                            changed_paths: event.changed_paths.unwrap_or_default(),
                        });
                    }
                }
                _ => {}
            }
        }
        // Many facts may lie between two pushes; only the last of them is worth waiting behind.
        if events.is_empty() && !is_all {
            continue;
        }
        if !events.is_empty() {
            return Ok(Json(RuntimeEvents { events, next: after }));
        }
        // A revoked key ends also the call that it began.
        let now = caller.still(&server, Policy::Runtime).await.ok_or_else(ApiError::wrong_key)?;
        if now.principal.who != caller.principal.who {
            return Err(ApiError::conflict("this runtime was renamed: ask again who it is"));
        }
        let matters = |commit: &Committed| commit.pushed(account) || touches_rights(commit);
        if !news(&server, &mut commits, until, matters).await {
            return Ok(Json(RuntimeEvents { events, next: after }));
        }
    }
}

/// The reference that a provider's announcement says has moved. Pull requests and comments move none.
fn moved(event: &RepoEvent) -> Option<String> {
    let is = |name: &str| event.events.iter().any(|known| known == name);
    if event.branch.is_empty() || event.pull_request.is_some() {
        None
    } else if is("push.tags") {
        Some(format!("refs/tags/{}", event.branch))
    } else if is("push.heads") || is("push.deleteBranch") {
        Some(format!("refs/heads/{}", event.branch))
    } else {
        None
    }
}

/// Where repositories of a Git context are cloned from. A context that is gone, or does not say, tells nobody anything.
async fn clone_base(
    server: &Server,
    account: AccountId,
    context: &str,
    known: &mut HashMap<String, Option<String>>,
) -> Result<Option<String>, ApiError> {
    if let Some(base) = known.get(context) {
        return Ok(base.clone());
    }
    let base = match providers::connect(server, account, context).await {
        Ok(connection) => connection.access().map(|access| access.base_url),
        Err(ProviderError::Store(error)) => return Err(error.into()),
        Err(error) => {
            tracing::warn!(%context, %error, "Cannot forward a push to runtimes: its Git integration is not usable.");
            None
        }
    };
    known.insert(context.to_owned(), base.clone());
    Ok(base)
}

/// Report the state of custom resources: all of them, a page at a time, or those that changed. What was said with a higher number
/// stands; sending a body twice is sending it once. The body may be packed with gzip (`Content-Encoding`); what it weighs unpacked is
/// limited all the same.
#[utoipa::path(post, path = "/2.0/api/events", tag = "agents", request_body = RuntimeReport,
    responses((status = 200, body = ReportTaken), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 429, body = ErrorBody)))]
pub(crate) async fn report_entities(
    State(server): State<Server>,
    caller: Caller,
    Packed { value: report, bytes }: Packed<RuntimeReport>,
) -> Result<Json<ReportTaken>, ApiError> {
    if runtime_name(&caller)? != report.runtime {
        return Err(ApiError::forbidden(format!("this key is not the key of runtime `{}`", report.runtime)));
    }
    let (scope, now_ms) = (caller.scope(), server.now_ms());
    let speaker = format!("runtime {}", report.runtime);
    server.inner.floods.admit(scope.account(), &speaker, bytes, now_ms)?;
    if server.store().stats().waiting > WRITES_WAITING_MAX {
        return Err(ApiError::later(
            BUSY_SECONDS,
            "the platform has much to write down: send it again later",
        ));
    }
    let Credential::Key(key) = caller.credential else {
        return Err(ApiError::forbidden("this needs a runtime's key"));
    };
    let intake = Intake::new(report)?;
    Ok(Json(server.change(move |tx| intake.store(tx, scope, key, now_ms)).await?))
}
