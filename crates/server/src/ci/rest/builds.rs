//! Builds: list, look, terminate. [`super::restarts`] starts one again.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use slipway_api::agent::BuiltImage;
use slipway_api::build::{Build, BuildDocs, BuildPage, Progress, ProgressLocation};
use slipway_api::error::ErrorBody;
use slipway_model::{BuildId, BuildStatus};
use slipway_store::builds::{self, Filter};
use slipway_store::{
    Scope, StoreError, Tx, annotations, approvals, identity, images, logs, outgoing, pipelines,
};
use utoipa::{IntoParams, ToSchema};

use crate::ci::rest::logs as logs_url;

use crate::ci::builds::{SHORT, shown};
use crate::ci::orders::Order;
use crate::ci::queue;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::limits;
use crate::identity::access::Granted;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use crate::seams;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Id of the pipeline.
    pipeline: Option<String>,
    status: Option<String>,
    limit: Option<i64>,
    /// From 1.
    page: Option<i64>,
    #[serde(rename = "branchName")]
    branch_name: Option<String>,
    /// Name of the trigger.
    #[serde(rename = "pipelineTriggerId")]
    pipeline_trigger_id: Option<String>,
    /// The first letters of a commit's id.
    revision: Option<String>,
    #[serde(rename = "startDate")]
    start_date: Option<String>,
    #[serde(rename = "endDate")]
    end_date: Option<String>,
}

/// A date or a moment in RFC 3339.
fn moment(text: Option<&str>) -> Result<Option<i64>, ApiError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let parsed = text.parse::<jiff::Timestamp>().or_else(|_| format!("{text}T00:00:00Z").parse());
    let parsed =
        parsed.map_err(|_| ApiError::bad_request(format!("`{text}` is not a date such as 2026-01-31")))?;
    Ok(Some(parsed.as_millisecond()))
}

/// Builds, newest first.
#[utoipa::path(get, path = "/api/workflow", tag = "builds", params(ListQuery),
    responses((status = 200, body = BuildPage), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<BuildPage>, ApiError> {
    let limit = query.limit.unwrap_or(25).clamp(1, 500);
    let pipeline = query
        .pipeline
        .filter(|id| !id.is_empty())
        .map(|id| {
            id.parse().map_err(|_| ApiError::bad_request(format!("`{id}` is not the id of a pipeline")))
        })
        .transpose()?;
    let (created_from_ms, created_to_ms) =
        (moment(query.start_date.as_deref())?, moment(query.end_date.as_deref())?);
    let offset = (query.page.unwrap_or(1).max(1) - 1).saturating_mul(limit);
    let found = server.store().read(move |tx| {
        let pipelines = crate::ci::pipelines::readable(tx, &caller)?;
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let filter = Filter {
            pipeline,
            pipelines,
            status: some(query.status),
            branch: some(query.branch_name),
            trigger: some(query.pipeline_trigger_id),
            revision: some(query.revision),
            created_from_ms,
            created_to_ms,
            limit,
            offset,
        };
        let limits = identity::asks_account_by_id(caller.principal.account);
        tx.fetch_last(builds::asks_list(caller.scope(), &filter).into_iter().chain([limits]))?;
        let waits = waits_for_limit(tx, caller.scope(), caller.trail.now_ms())?;
        Ok((builds::list(tx, caller.scope(), &filter)?, waits))
    });
    let ((rows, total), waits) = found.await?;
    let docs = rows.into_iter().map(|row| explained(row, waits.as_deref())).collect::<Result<_, _>>()?;
    Ok(Json(BuildPage { workflows: BuildDocs { docs, total } }))
}

/// Why no build can start, when a limit of the account is the reason.
fn waits_for_limit(tx: &mut Tx<'_>, scope: Scope, now_ms: i64) -> Result<Option<String>, StoreError> {
    match limits::free_builds(tx, scope, now_ms)? {
        0 => limits::refusal(tx, scope, "parallelBuilds"),
        _ => Ok(None),
    }
}

fn explained(row: builds::Build, waits: Option<&str>) -> Result<Build, ApiError> {
    let waiting = row.status == BuildStatus::Pending && row.message.is_none();
    let mut build = shown(row)?;
    if let Some(why) = waits.filter(|_| waiting) {
        build.message = Some(format!("waiting: {why}"));
    }
    Ok(build)
}

fn image(row: images::Image) -> BuiltImage {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    BuiltImage {
        step: String::new(),
        id: row.image,
        name: row.name,
        tag: row.tag,
        registry: some(row.registry),
        digest: some(row.digest),
        at_ms: row.at_ms,
    }
}

/// By id, by the part of it that is shown, or as `PIPELINE#NUMBER`.
fn named(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<builds::Build>, ApiError> {
    if let Ok(id) = name.parse::<BuildId>() {
        return Ok(builds::by_id(tx, scope, id)?);
    }
    if let Some((pipeline, number)) = name.rsplit_once('#') {
        let Ok(number) = number.trim().parse() else { return Ok(None) };
        return match pipelines::by_name(tx, scope, pipeline.trim())? {
            Some(row) => Ok(builds::by_number(tx, scope, row.id, number)?),
            None => Ok(None),
        };
    }
    if name.len() < SHORT || !name.chars().all(|letter| letter.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let mut found = builds::by_part(tx, scope, &name.to_lowercase(), 2)?;
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(ApiError::bad_request(format!(
            "`{name}` is the id of several builds: give the whole id, or `PIPELINE#NUMBER`"
        ))),
    }
}

pub(crate) async fn find(server: &Server, caller: &Caller, id: &str) -> Result<builds::Build, ApiError> {
    let (caller, id) = (caller.clone(), id.to_owned());
    server.look(move |tx| find_in(tx, &caller, &id, "read")).await
}

/// The build, if the caller may do this to its pipeline.
pub(crate) fn find_in(
    tx: &mut Tx<'_>,
    caller: &Caller,
    id: &str,
    action: &str,
) -> Result<builds::Build, ApiError> {
    find_granted(tx, caller, id, action).map(|(row, _)| row)
}

/// The same with the decision, for what asks for one.
pub(super) fn find_granted(
    tx: &mut Tx<'_>,
    caller: &Caller,
    id: &str,
    action: &str,
) -> Result<(builds::Build, Granted), ApiError> {
    let what = format!("build `{id}`");
    let row = named(tx, caller.scope(), id)?.ok_or_else(|| ApiError::not_found(&what))?;
    let granted = crate::ci::pipelines::require_by_id(tx, caller, row.pipeline, action, &what)?;
    Ok((row, granted))
}

/// One build with its steps.
#[utoipa::path(get, path = "/api/builds/{id}", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = Build), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Build>, ApiError> {
    let (build, held) = server
        .look(move |tx| {
            let row = find_in(tx, &caller, &id, "read")?;
            let scope = caller.scope();
            let mut waits = waits_for_limit(tx, scope, caller.trail.now_ms())?;
            if row.status == BuildStatus::Pending && waits.is_none() {
                waits = queue::waits(tx, scope, &row)?;
            }
            let held = logs::held(tx, row.id)?;
            let answers = approvals::of_build(tx, row.id)?;
            let noted = annotations::of(tx, scope, "build", &row.id.to_string())?;
            let made = images::of_build(tx, scope, row.id)?;
            let may_approve =
                crate::ci::pipelines::require_by_id(tx, &caller, row.pipeline, "approve", "this build")
                    .is_ok();
            let may_debug =
                crate::ci::pipelines::require_by_id(tx, &caller, row.pipeline, "debug", "this build").is_ok();
            let variables = row.order::<Order>()?.shown_variables();
            let mut build = explained(row, waits.as_deref())?;
            build.variables = variables;
            build.can.approve &= may_approve;
            build.can.debug &= may_debug;
            build.approvals = answers.iter().map(crate::ci::rest::approvals::shown).collect();
            build.images = made.into_iter().map(image).collect();
            for annotation in noted {
                build
                    .annotations
                    .insert(annotation.name, serde_json::from_str(&annotation.value).unwrap_or_default());
            }
            Ok((build, held))
        })
        .await?;
    let mut build = build;
    for step in &mut build.steps {
        step.log_bytes = held.get(&step.name).copied().unwrap_or(0);
    }
    Ok(Json(build))
}

/// What others were told of a build, or why they were not.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    /// `commit-status`, `slack`, `webhook`, `email`.
    kind: String,
    /// Name of the context.
    target: String,
    attempts: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<String>,
}

/// Commit statuses and messages about a build, newest first.
#[utoipa::path(get, path = "/api/builds/{id}/reports", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = [Told]), (status = 404, body = ErrorBody)))]
pub(crate) async fn reports(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Vec<Told>>, ApiError> {
    let rows = server
        .look(move |tx| {
            let build = find_in(tx, &caller, &id, "read")?;
            Ok(outgoing::list(tx, caller.scope(), Some(&build.id.to_string()), 100)?)
        })
        .await?;
    let told = rows.into_iter().map(|row| Told {
        kind: row.kind,
        target: row.target,
        attempts: row.attempts,
        problem: row.problem,
        done: row.done_ms.map(seams::rfc3339),
    });
    Ok(Json(told.collect()))
}

/// Where to follow the log of a build.
#[utoipa::path(get, path = "/api/progress/{id}", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = Progress), (status = 404, body = ErrorBody)))]
pub(crate) async fn progress(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Progress>, ApiError> {
    let row = find(&server, &caller, &id).await?;
    // A log that grows is followed; one that is whole is fetched once, by a client that sends no key there.
    let location = if row.status.is_final() {
        // Whoever has the address reads the log with it.
        logs_url::viewed(&server, &caller, &row).await?;
        let key = server.data_key(row.account).await?;
        let url = logs_url::sign(&server, &key, row.account, row.id);
        ProgressLocation { kind: "slipway".into(), url: Some(url) }
    } else {
        ProgressLocation { kind: "composition".into(), url: None }
    };
    Ok(Json(Progress {
        id: row.id.to_string(),
        account: row.account.to_string(),
        status: row.status.as_str().into(),
        location,
    }))
}

/// Terminate a build. Refused for a build that has finished.
#[utoipa::path(delete, path = "/api/progress/{id}", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn terminate(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    let now_ms = server.now_ms();
    let ended = server
        .change(move |tx| {
            let row = find_in(tx, &caller, &id, "run")?;
            if row.status.is_final() {
                return Err(ApiError::conflict(format!(
                    "build `{id}` has already finished ({}): there is nothing to terminate",
                    row.status
                )));
            }
            queue::end(tx, caller.scope(), row.id, &caller.principal.display_name(), now_ms)?;
            let entry = Entry::new("terminate", "build", row.id, &row.pipeline_name);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(row.id.to_string())
        })
        .await?;
    Ok(Json(ended))
}
