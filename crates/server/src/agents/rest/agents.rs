//! Agents of the published runner (venona): making them, and the three calls that they make.
//!
//! An agent polls for tasks, reports each one's status, and says that it lives. A task is kept until its status
//! arrives, so what was handed out to an agent that died comes again. Who an agent is, its key says; what stands in
//! the address must agree with it.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_access::Who;
use slipway_api::error::ErrorBody;
use slipway_model::TaskId;
use slipway_store::agents::{self, Agent, Task, TaskStatus};
use slipway_store::identity::{self, Subject};
use slipway_store::{Tx, builds};
use utoipa::{IntoParams, ToSchema};

use crate::agents::venona;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::tokens;
use crate::identity::trail::Entry;
use crate::seams;

/// An agent that said nothing for this long is not well.
const HEALTHY_MS: i64 = 60_000;
const REASON_CHARS_MAX: usize = 2_000;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownAgent {
    id: String,
    name: String,
    runtimes: Vec<String>,
    status: AgentHealth,
    /// With the answer that made it, and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentHealth {
    /// `healthy` or `unhealthy`.
    health_status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_at: Option<String>,
    message: String,
}

fn shown(agent: &Agent, now_ms: i64, token: Option<String>) -> ShownAgent {
    let well = agent.reported_ms.is_some_and(|at_ms| now_ms - at_ms < HEALTHY_MS);
    ShownAgent {
        id: agent.id.to_string(),
        name: agent.name.clone(),
        runtimes: agent.runtimes.clone(),
        status: AgentHealth {
            health_status: if well { "healthy" } else { "unhealthy" }.into(),
            reported_at: agent.reported_ms.map(seams::rfc3339),
            message: agent.message.clone(),
        },
        token,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AgentsQuery {
    name: Option<String>,
}

/// Agents of the account.
#[utoipa::path(get, path = "/api/agents", tag = "agents", params(AgentsQuery), responses((status = 200, body = [ShownAgent])))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<AgentsQuery>,
) -> Result<Json<Vec<ShownAgent>>, ApiError> {
    let (scope, now_ms) = (caller.scope(), server.now_ms());
    let mut all = server.store().read(move |tx| agents::list(tx, scope)).await?;
    all.retain(|agent| query.name.as_ref().is_none_or(|name| *name == agent.name));
    Ok(Json(all.iter().map(|agent| shown(agent, now_ms, None)).collect()))
}

fn find(tx: &mut Tx<'_>, caller: &Caller, wanted: &str) -> Result<Agent, ApiError> {
    let found = agents::find(tx, caller.scope(), wanted)?;
    found.ok_or_else(|| ApiError::not_found(format!("agent `{wanted}`")))
}

async fn look(server: Server, caller: Caller, wanted: String) -> Result<Json<ShownAgent>, ApiError> {
    let now_ms = server.now_ms();
    let found = server.look(move |tx| find(tx, &caller, &wanted)).await?;
    Ok(Json(shown(&found, now_ms, None)))
}

/// One agent, by id or name.
#[utoipa::path(get, path = "/api/agent/{id}", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = ShownAgent), (status = 404, body = ErrorBody)))]
pub(crate) async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ShownAgent>, ApiError> {
    look(server, caller, id).await
}

/// One agent by its name, at the path that the published CLI uses.
#[utoipa::path(get, path = "/api/agents/name/{name}", tag = "agents", params(("name" = String, Path)),
    responses((status = 200, body = ShownAgent), (status = 404, body = ErrorBody)))]
pub(crate) async fn one_by_name(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<ShownAgent>, ApiError> {
    look(server, caller, name).await
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct AgentBody {
    name: Option<String>,
    runtimes: Option<Vec<String>>,
}

/// Create an agent. Its token is in the answer and not shown again.
#[utoipa::path(post, path = "/api/agents", tag = "agents", request_body = AgentBody,
    responses((status = 200, body = ShownAgent), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create(
    State(server): State<Server>,
    caller: Caller,
    Json(body): Json<AgentBody>,
) -> Result<Json<ShownAgent>, ApiError> {
    let name = body.name.unwrap_or_default();
    if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
        return Err(ApiError::bad_request("an agent needs a name of up to 200 characters"));
    }
    if venona::build_of(&name).is_some() {
        return Err(ApiError::bad_request(format!(
            "`{name}` is reserved for the runner of a build: choose another name"
        )));
    }
    let (account, now_ms) = (caller.principal.account, server.now_ms());
    let agent = Agent {
        id: server.seams().new_id(),
        account,
        name,
        runtimes: body.runtimes.unwrap_or_default(),
        message: String::new(),
        reported_ms: None,
        created_ms: now_ms,
    };
    let key = tokens::new_key(server.seams(), account, "agent", Subject::Runner, &agent.name, Vec::new());
    let made = server
        .change(move |tx| {
            // A runner of that name has keys of its own, and an agent's would open the same door.
            if builds::runners(tx, caller.scope())?.iter().any(|runner| runner.name == agent.name) {
                return Err(ApiError::conflict(format!(
                    "there is already a runner `{}`: choose another name",
                    agent.name
                )));
            }
            agents::create(tx, &agent)?;
            identity::create_key(tx, &key.row)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("create", "agent", agent.id, &agent.name),
            )?;
            Ok(shown(&agent, now_ms, Some(key.text.expose().clone())))
        })
        .await?;
    Ok(Json(made))
}

/// Attach runtimes to an agent.
#[utoipa::path(put, path = "/api/agent/{id}", tag = "agents", params(("id" = String, Path)), request_body = AgentBody,
    responses((status = 200, body = ShownAgent), (status = 404, body = ErrorBody)))]
pub(crate) async fn change(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<AgentBody>,
) -> Result<Json<ShownAgent>, ApiError> {
    let now_ms = server.now_ms();
    let changed = server
        .change(move |tx| {
            let mut agent = find(tx, &caller, &id)?;
            // Its name is who its key says it is: that stays.
            if let Some(runtimes) = body.runtimes {
                agent.runtimes = runtimes;
            }
            agents::update(tx, caller.scope(), &agent)?;
            let entry = Entry::new("update", "agent", agent.id, &agent.name).after(&agent.runtimes);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(shown(&agent, now_ms, None))
        })
        .await?;
    Ok(Json(changed))
}

/// Delete an agent, its tasks and its keys.
#[utoipa::path(delete, path = "/api/agent/{id}", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<String>, ApiError> {
    server
        .change(move |tx| {
            let agent = find(tx, &caller, &id)?;
            venona::abandon(tx, &agent)?;
            agents::delete(tx, caller.scope(), agent.id)?;
            identity::delete_keys_of(tx, caller.scope(), Subject::Runner, &agent.name)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("delete", "agent", agent.id, &agent.name),
            )?;
            Ok(())
        })
        .await?;
    Ok(Json("ok".into()))
}

/// The agent that asks: the one whose key it is, and no other that the address names.
fn myself(tx: &mut Tx<'_>, caller: &Caller, id: &str) -> Result<Agent, ApiError> {
    let what = format!("agent `{id}`");
    let Who::Runner { name } = &caller.principal.who else {
        return Err(ApiError::forbidden("this needs an agent's key"));
    };
    let found = agents::find(tx, caller.scope(), id)?.filter(|agent| agent.name == *name);
    found.ok_or_else(|| ApiError::hidden(what, "the key belongs to another agent"))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TasksQuery {
    /// Keep what is handed out until its status arrives.
    wait_for_status_report: Option<bool>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownTask {
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "type")]
    kind: String,
    metadata: TaskMetadata,
    #[schema(value_type = Object)]
    spec: Value,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskMetadata {
    created_at: String,
    re_name: String,
    workflow_id: String,
    current_status_revision: i64,
    should_report_status: bool,
}

fn shown_task(
    server: &Server,
    tx: &mut Tx<'_>,
    agent: &Agent,
    task: &Task,
    keeps: bool,
) -> Result<ShownTask, ApiError> {
    Ok(ShownTask {
        id: task.id.to_string(),
        kind: task.kind.clone(),
        metadata: TaskMetadata {
            created_at: seams::rfc3339(task.created_ms),
            re_name: task.runtime.clone(),
            workflow_id: task.build.clone(),
            current_status_revision: task.status_revision,
            should_report_status: keeps,
        },
        spec: venona::spec_of(server, tx, agent, task)?,
    })
}

/// Tasks of an agent. Builds that wait for its runtime environments are assigned to it here.
#[utoipa::path(get, path = "/api/agent/{id}/tasks", tag = "agents", params(("id" = String, Path), TasksQuery),
    responses((status = 200, body = [ShownTask]), (status = 404, body = ErrorBody)))]
pub(crate) async fn tasks(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<TasksQuery>,
) -> Result<Json<Vec<ShownTask>>, ApiError> {
    let (keeps, now_ms) = (query.wait_for_status_report == Some(true), server.now_ms());
    let inner = server.clone();
    let found = server
        .change(move |tx| {
            let agent = myself(tx, &caller, &id)?;
            venona::give(&inner, tx, &agent)?;
            let open = agents::open_tasks(tx, agent.id)?;
            if !keeps {
                for task in &open {
                    agents::delivered(tx, agent.id, task.id, now_ms)?;
                }
            }
            open.iter().map(|task| shown_task(&inner, tx, &agent, task, keeps)).collect::<Result<Vec<_>, _>>()
        })
        .await?;
    Ok(Json(found))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusReport {
    /// `Success` or `Error`.
    status: String,
    status_revision: i64,
    #[serde(default)]
    is_retriable: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// Report the result of a task. An older report changes nothing; after a failure that can be retried the task stays.
#[utoipa::path(post, path = "/api/agent/{id}/tasks/{task}/statuses", tag = "agents", params(("id" = String, Path), ("task" = String, Path)), request_body = StatusReport,
    responses((status = 200, body = String), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn status(
    State(server): State<Server>,
    caller: Caller,
    Path((id, task)): Path<(String, String)>,
    Json(report): Json<StatusReport>,
) -> Result<Json<String>, ApiError> {
    let now_ms = server.now_ms();
    server
        .change(move |tx| {
            let agent = myself(tx, &caller, &id)?;
            let success = match report.status.as_str() {
                "Success" => true,
                "Error" => false,
                other => {
                    return Err(ApiError::bad_request(format!(
                        "`{other}` is not a valid status: use Success or Error"
                    )));
                }
            };
            let task: TaskId = task.parse().map_err(|_| ApiError::not_found(format!("task `{task}`")))?;
            let known = agents::task_of(tx, agent.id, task)?;
            let reason: String = report.reason.unwrap_or_default().chars().take(REASON_CHARS_MAX).collect();
            let done = success || was_done_before(&known.kind, &reason);
            let new = TaskStatus {
                status: &report.status,
                revision: report.status_revision,
                problem: Some(reason.as_str()).filter(|reason| !reason.is_empty()),
                ends: done || !report.is_retriable,
            };
            if agents::task_status(tx, agent.id, task, &new, now_ms)? && !done && !report.is_retriable {
                venona::failed(tx, &agent, &known, &reason, now_ms)?;
            }
            Ok(())
        })
        .await?;
    Ok(Json("ok".into()))
}

/// A task comes again until its status arrives: the second time its work is done already, whatever the agent calls that.
fn was_done_before(kind: &str, reason: &str) -> bool {
    (kind.starts_with("Create") && reason.contains("already exists"))
        || (kind.starts_with("Delete") && reason.contains("not found"))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuildTask {
    /// `CreatePod`, `CreatePvc`, `DeletePod`, `DeletePvc`.
    #[serde(rename = "type")]
    kind: String,
    /// Name of the pod or claim.
    object: String,
    agent: String,
    runtime: String,
    attempt: i64,
    /// `Success` or `Error`, as the agent reported it; absent until it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    created_at: String,
    /// Nothing more is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
}

/// What agents of the published runner were asked to create and delete for a build, and their results.
#[utoipa::path(get, path = "/api/builds/{id}/tasks", tag = "builds", params(("id" = String, Path)),
    responses((status = 200, body = [BuildTask]), (status = 404, body = ErrorBody)))]
pub(crate) async fn of_build(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Vec<BuildTask>>, ApiError> {
    let found = server
        .look(move |tx| {
            let build = crate::ci::rest::builds::find_in(tx, &caller, &id, "read")?;
            let names = agents::list(tx, caller.scope())?;
            let name = |task: &Task| {
                names.iter().find(|agent| agent.id == task.agent).map(|agent| agent.name.clone())
            };
            Ok(agents::tasks_of_build(tx, build.id)?
                .into_iter()
                .map(|task| BuildTask {
                    agent: name(&task).unwrap_or_default(),
                    kind: task.kind,
                    object: task.object,
                    runtime: task.runtime,
                    attempt: task.attempt,
                    status: task.status,
                    reason: task.problem,
                    created_at: seams::rfc3339(task.created_ms),
                    finished_at: task.done_ms.map(seams::rfc3339),
                })
                .collect())
        })
        .await?;
    Ok(Json(found))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct Alive {
    message: String,
}

/// Heartbeat of an agent.
#[utoipa::path(put, path = "/api/agent/{id}/status", tag = "agents", params(("id" = String, Path)), request_body = Alive,
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn alive(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(alive): Json<Alive>,
) -> Result<Json<String>, ApiError> {
    let now_ms = server.now_ms();
    server
        .change(move |tx| {
            let agent = myself(tx, &caller, &id)?;
            let message: String = alive.message.chars().take(500).collect();
            agents::reported(tx, agent.id, &message, now_ms)?;
            Ok(())
        })
        .await?;
    Ok(Json("ok".into()))
}
