//! Debugging a build: breakpoints on a running one, letting a paused step go on, and a shell in it.
//!
//! In: a person with the right to debug the pipeline. Out: orders that the build's runner hears with its next call, and
//! bytes of shells. Who opened a shell, let a step go on or set a breakpoint is recorded; what is typed and printed is
//! not kept anywhere. Only who opened a shell may use it.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::json;
use slipway_api::build::BuildStep;
use slipway_api::debug::{Breakpoints, DebugOrder, DebugRequest, OpenShell, Shell, ShellBytes, ShellInput};
use slipway_api::error::ErrorBody;
use slipway_store::{StoreError, Tx, builds, debug};
use utoipa::IntoParams;

use crate::ci::shells::{self, Way};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

/// Proxies and browsers give up on a call that is held for longer.
const WAIT: Duration = Duration::from_secs(20);
/// More than anybody gives in the time that a build may be debugged.
const ORDERS_MAX: usize = 500;
const BREAKPOINTS_MAX: usize = 200;
const SIZE_MAX: u16 = 1000;

/// The paused step that is meant: the one that was named, or the only one.
fn paused(build: &builds::Build, step: Option<&str>, id: &str) -> Result<(String, String), ApiError> {
    let steps: Vec<BuildStep> = build.steps()?;
    let mut paused = steps.iter().filter_map(|step| Some((step, step.paused.as_ref()?)));
    let found = match step.filter(|name| !name.is_empty()) {
        Some(name) => paused.find(|(step, _)| step.name == name),
        None => paused.next(),
    };
    let (found, pause) = found.ok_or_else(|| {
        let which = step.map(|name| format!("step `{name}` of ")).unwrap_or_default();
        ApiError::conflict(format!(
            "{which}build `{id}` is not paused at a breakpoint: run it in debug mode and wait until a step pauses"
        ))
    })?;
    if step.is_none() && paused.next().is_some() {
        return Err(ApiError::bad_request(format!(
            "several steps of build `{id}` are paused: name one in `step`"
        )));
    }
    Ok((found.name.clone(), pause.phase.clone()))
}

fn give(
    tx: &mut Tx<'_>,
    server: &Server,
    caller: &Caller,
    build: &builds::Build,
    order: DebugOrder,
) -> Result<DebugOrder, ApiError> {
    if build.status.is_final() {
        return Err(ApiError::conflict(format!("build `{}` has finished: restart it to debug it", build.id)));
    }
    if debug::of_build(tx, build.id)?.len() >= ORDERS_MAX {
        return Err(ApiError::conflict(format!(
            "build `{}` has received {ORDERS_MAX} debug commands, which is the limit: restart it",
            build.id
        )));
    }
    let order = DebugOrder {
        id: hex::encode(server.seams().random::<12>()),
        build: build.id.to_string(),
        by: caller.principal.display_name(),
        ..order
    };
    let row = debug::DebugOrder {
        id: order.id.clone(),
        build: build.id,
        action: order.action.clone(),
        step: order.step.clone(),
        phase: order.phase.clone(),
        by_id: caller.principal.reference().1,
        by_name: order.by.clone(),
        body: serde_json::to_string(&order).map_err(StoreError::corrupt)?,
        at_ms: server.now_ms(),
    };
    debug::give(tx, caller.scope(), &row)?;
    let action = match order.action.as_str() {
        "shell" => "debug-shell",
        "continue" => "debug-continue",
        _ => "debug-breakpoints",
    };
    let what = match order.breakpoints.is_empty() {
        true => json!({"step": order.step, "phase": order.phase}),
        false => json!({"breakpoints": order.breakpoints}),
    };
    let entry = Entry::new(action, "build", build.id, &build.pipeline_name).after(what);
    caller.trail.allowed(tx, &caller.actor(), &entry)?;
    Ok(order)
}

/// Said of the pipeline too, where breakpoints are kept with it.
pub(crate) fn check(breakpoints: &Breakpoints) -> Result<(), ApiError> {
    if breakpoints.len() > BREAKPOINTS_MAX {
        return Err(ApiError::bad_request(format!("a build has at most {BREAKPOINTS_MAX} breakpoints")));
    }
    Ok(())
}

/// Continue a paused step, or set breakpoints of a running build.
#[utoipa::path(post, path = "/api/builds/{id}/debug", tag = "builds", params(("id" = String, Path)), request_body = DebugRequest,
    responses((status = 200, body = DebugOrder), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn debug_order(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(request): Json<DebugRequest>,
) -> Result<Json<DebugOrder>, ApiError> {
    let inner = server.clone();
    let order = server
        .change(move |tx| {
            let build = crate::ci::rest::builds::find_in(tx, &caller, &id, "debug")?;
            let order = match request.action.as_str() {
                "continue" => {
                    let (step, phase) = paused(&build, request.step.as_deref(), &id)?;
                    DebugOrder { action: "continue".into(), step, phase, ..DebugOrder::default() }
                }
                "breakpoints" if request.breakpoints.is_empty() => {
                    return Err(ApiError::bad_request("`breakpoints` names no step"));
                }
                "breakpoints" => {
                    check(&request.breakpoints)?;
                    let breakpoints = request.breakpoints;
                    DebugOrder { action: "breakpoints".into(), breakpoints, ..DebugOrder::default() }
                }
                other => {
                    return Err(ApiError::bad_request(format!(
                        "`{other}` is not a valid action: use `continue` or `breakpoints`"
                    )));
                }
            };
            give(tx, &inner, &caller, &build, order)
        })
        .await?;
    Ok(Json(order))
}

/// Open a shell in a paused step.
#[utoipa::path(post, path = "/api/builds/{id}/debug/shells", tag = "builds", params(("id" = String, Path)), request_body = OpenShell,
    responses((status = 200, body = Shell), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn open_shell(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(request): Json<OpenShell>,
) -> Result<Json<Shell>, ApiError> {
    let inner = server.clone();
    let order = server
        .change(move |tx| {
            let build = crate::ci::rest::builds::find_in(tx, &caller, &id, "debug")?;
            let (step, phase) = paused(&build, request.step.as_deref(), &id)?;
            let order = DebugOrder {
                action: "shell".into(),
                step,
                phase,
                columns: request.columns.unwrap_or(80).clamp(20, SIZE_MAX),
                rows: request.rows.unwrap_or(24).clamp(5, SIZE_MAX),
                ..DebugOrder::default()
            };
            give(tx, &inner, &caller, &build, order)
        })
        .await?;
    Ok(Json(Shell { id: order.id, step: order.step, phase: order.phase }))
}

/// Asked with every call: the right may have gone since, and a shell is its opener's alone.
async fn own(server: &Server, caller: &Caller, id: &str, shell: &str) -> Result<(), ApiError> {
    let (caller, id, shell) = (caller.clone(), id.to_owned(), shell.to_owned());
    server
        .look(move |tx| {
            let build = crate::ci::rest::builds::find_in(tx, &caller, &id, "debug")?;
            let order = debug::by_id(tx, build.id, &shell)?;
            match order {
                Some(order) if order.action == "shell" && order.by_id == caller.principal.reference().1 => {
                    Ok(())
                }
                _ => Err(ApiError::not_found(format!("shell `{shell}`"))),
            }
        })
        .await
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputQuery {
    /// How many bytes are known; the answer begins after them.
    #[serde(default)]
    after: u64,
}

/// What a shell printed after an offset. Waits some seconds when there is nothing.
#[utoipa::path(get, path = "/api/builds/{id}/debug/shells/{shell}/output", tag = "builds",
    params(("id" = String, Path), ("shell" = String, Path), OutputQuery),
    responses((status = 200, body = ShellBytes), (status = 404, body = ErrorBody)))]
pub(crate) async fn shell_printed(
    State(server): State<Server>,
    caller: Caller,
    Path((id, shell)): Path<(String, String)>,
    Query(query): Query<OutputQuery>,
) -> Result<Json<ShellBytes>, ApiError> {
    own(&server, &caller, &id, &shell).await?;
    Ok(Json(shells::take(&server, &shell, Way::Out, query.after, WAIT).await))
}

/// Type into a shell.
#[utoipa::path(post, path = "/api/builds/{id}/debug/shells/{shell}/input", tag = "builds",
    params(("id" = String, Path), ("shell" = String, Path)), request_body = ShellInput,
    responses((status = 200, body = bool), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn shell_typed(
    State(server): State<Server>,
    caller: Caller,
    Path((id, shell)): Path<(String, String)>,
    Json(input): Json<ShellInput>,
) -> Result<Json<bool>, ApiError> {
    own(&server, &caller, &id, &shell).await?;
    let bytes = ShellBytes { bytes: input.bytes, ..ShellBytes::default() };
    shells::put(&server, &shell, Way::In, None, bytes)?;
    Ok(Json(true))
}

/// Close a shell; the step stays paused.
#[utoipa::path(delete, path = "/api/builds/{id}/debug/shells/{shell}", tag = "builds",
    params(("id" = String, Path), ("shell" = String, Path)),
    responses((status = 200, body = bool), (status = 404, body = ErrorBody)))]
pub(crate) async fn close_shell(
    State(server): State<Server>,
    caller: Caller,
    Path((id, shell)): Path<(String, String)>,
) -> Result<Json<bool>, ApiError> {
    own(&server, &caller, &id, &shell).await?;
    let end = ShellBytes { closed: Some("the shell was closed".into()), ..ShellBytes::default() };
    shells::put(&server, &shell, Way::In, None, end)?;
    Ok(Json(true))
}
