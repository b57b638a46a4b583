//! GitOps runtimes: they hear of pushes and report their Applications.

use std::collections::{HashMap, HashSet};

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use slipway_access::Who;
use slipway_api::application::{Application, ApplicationRow};
use slipway_api::error::ErrorBody;
use slipway_api::runtime::{RuntimeEvent, RuntimeEvents, RuntimeReport};
use slipway_model::{AccountId, ChangeKind, Fact, RepoEvent};
use slipway_store::applications::{self, Report, Runtime};
use slipway_store::{Scope, Tx, facts};
use utoipa::IntoParams;

use super::{deadline, news};
use crate::ci::providers::{self, ProviderError};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::limits;
use crate::identity::auth::Caller;

const BATCH: i64 = 200;
/// As many as a runtime reports.
const LABELS_MAX: usize = 64;
/// A key with its prefix.
const LABEL_BYTES_MAX: usize = 320;
const GIT_SOURCES_MAX: usize = 8;

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
        if !events.is_empty() || !news(&server, &mut commits, until, |commit| commit.pushed(account)).await {
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

/// A runtime or cluster that is new here must fit into what the account may have.
fn within_limits(tx: &mut Tx<'_>, scope: Scope, report: &RuntimeReport) -> Result<(), ApiError> {
    let known = applications::runtimes(tx, scope)?;
    let new_runtime = !known.iter().any(|runtime| runtime.name == report.runtime);
    let new_cluster = !known.iter().any(|runtime| runtime.cluster == report.cluster);
    for (is_new, limit) in [(new_runtime, "runtimes"), (new_cluster, "clusters")] {
        if let Some(refusal) = is_new.then(|| limits::refusal(tx, scope, limit)).transpose()?.flatten() {
            return Err(ApiError::over_limit(refusal));
        }
    }
    Ok(())
}

/// What rules look at comes from the runtime: no more of it than anybody can mean. What is left out is not known, and a rule
/// that needs it does not fit.
fn bound(app: &mut Application) {
    const TEXT_BYTES_MAX: usize = 2_000;
    app.labels.retain(|key, value| key.len() <= LABEL_BYTES_MAX && value.len() <= LABEL_BYTES_MAX);
    while app.labels.len() > LABELS_MAX {
        app.labels.pop_last();
    }
    app.git_sources.retain(|source| source.len() <= TEXT_BYTES_MAX);
    app.git_sources.truncate(GIT_SOURCES_MAX);
    for text in [&mut app.destination_name, &mut app.destination_server] {
        if text.len() > TEXT_BYTES_MAX {
            text.clear();
        }
    }
}

/// Report the state of Applications: all, or those that changed.
#[utoipa::path(post, path = "/2.0/api/events", tag = "agents", request_body = RuntimeReport,
    responses((status = 200, body = bool), (status = 403, body = ErrorBody)))]
pub(crate) async fn report_applications(
    State(server): State<Server>,
    caller: Caller,
    Json(report): Json<RuntimeReport>,
) -> Result<Json<bool>, ApiError> {
    if runtime_name(&caller)? != report.runtime {
        return Err(ApiError::forbidden(format!("this key is not the key of runtime `{}`", report.runtime)));
    }
    let (scope, now_ms) = (caller.scope(), server.now_ms());
    let kept = server.change(move |tx| {
        within_limits(tx, scope, &report)?;
        let runtime = Runtime {
            name: report.runtime.clone(),
            version: report.version,
            cluster: report.cluster,
            ingress_url: report.ingress_url,
            last_seen_ms: now_ms,
            applications: 0,
        };
        applications::runtime_seen(tx, scope, &runtime)?;
        tx.changed(scope.account(), ChangeKind::Runtime, &runtime.name);
        if report.complete {
            let here = report.applications.iter().map(|app| format!("{}/{}", app.namespace, app.name));
            let named: HashSet<String> = here.chain(report.reported).collect();
            for (namespace, name) in applications::of_runtime(tx, scope, &runtime.name)? {
                if !named.contains(&format!("{namespace}/{name}")) {
                    applications::remove(tx, scope, &runtime.name, &namespace, &name)?;
                }
            }
        }
        for mut app in report.applications {
            app.runtime.clone_from(&runtime.name);
            bound(&mut app);
            let body = serde_json::to_string(&app).map_err(slipway_store::StoreError::corrupt)?;
            let summary = serde_json::to_string(&ApplicationRow::from(&app))
                .map_err(slipway_store::StoreError::corrupt)?;
            let put = Report { namespace: &app.namespace, name: &app.name, body: &body, summary: &summary };
            applications::put(tx, scope, &runtime.name, &put)?;
        }
        for gone in &report.removed {
            if let Some((namespace, name)) = gone.split_once('/') {
                applications::remove(tx, scope, &runtime.name, namespace, name)?;
            }
        }
        Ok(true)
    });
    Ok(Json(kept.await?))
}
