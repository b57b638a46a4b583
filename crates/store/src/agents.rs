//! Agents of the published runner, and the tasks that wait for them until a status arrives.

use slipway_model::{AccountId, AgentId, ChangeKind, TaskId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Agent {
    pub id: AgentId,
    pub account: AccountId,
    pub name: String,
    pub runtimes: Vec<String>,
    /// What it last said of itself.
    pub message: String,
    pub reported_ms: Option<i64>,
    pub created_ms: i64,
}

#[derive(Debug, Clone)]
pub struct Task {
    pub id: TaskId,
    /// `CreatePod`, `CreatePvc`, `DeletePod`, `DeletePvc`, `AgentTask`.
    pub kind: String,
    pub runtime: String,
    pub build: String,
    /// JSON that goes to the agent as it is.
    pub spec: String,
    pub status_revision: i64,
    pub status: Option<String>,
    pub problem: Option<String>,
    pub created_ms: i64,
}

const AGENT: &str = "SELECT id, account, name, runtimes, message, reported_ms, created_ms FROM agents";

fn agent(row: &Row) -> Result<Agent, StoreError> {
    Ok(Agent {
        id: row.id(0)?,
        account: row.id(1)?,
        name: row.text(2)?,
        runtimes: row.json(3)?,
        message: row.text(4)?,
        reported_ms: row.maybe_int(5)?,
        created_ms: row.int(6)?,
    })
}

pub fn create(tx: &mut Tx<'_>, new: &Agent) -> Result<(), StoreError> {
    let scope = Scope::of(new.account);
    if find(tx, scope, &new.name)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("Agent name duplication: agent `{}`", new.name) });
    }
    tx.execute(
        "INSERT INTO agents (id, account, name, runtimes, message, created_ms) VALUES ($1, $2, $3, $4, '', $5)",
        &[
            new.id.into(),
            new.account.into(),
            new.name.as_str().into(),
            crate::sql::json(&new.runtimes)?,
            new.created_ms.into(),
        ],
    )?;
    tx.changed(ChangeKind::Runtime, new.id);
    Ok(())
}

/// By id or name: the published chart passes the name where an id is asked for.
pub fn find(tx: &mut Tx<'_>, scope: Scope, wanted: &str) -> Result<Option<Agent>, StoreError> {
    tx.one(
        &format!("{AGENT} WHERE account = $1 AND (id = $2 OR name = $2)"),
        &[scope.account().into(), wanted.into()],
    )?
    .as_ref()
    .map(agent)
    .transpose()
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Agent>, StoreError> {
    tx.all(&format!("{AGENT} WHERE account = $1 ORDER BY name"), &[scope.account().into()])?
        .iter()
        .map(agent)
        .collect()
}

pub fn update(tx: &mut Tx<'_>, scope: Scope, agent: &Agent) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET name = $3, runtimes = $4 WHERE account = $1 AND id = $2",
        &[
            scope.account().into(),
            agent.id.into(),
            agent.name.as_str().into(),
            crate::sql::json(&agent.runtimes)?,
        ],
    )?;
    tx.changed(ChangeKind::Runtime, agent.id);
    Ok(())
}

pub fn reported(tx: &mut Tx<'_>, id: AgentId, message: &str, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET message = $2, reported_ms = $3 WHERE id = $1",
        &[id.into(), message.into(), now_ms.into()],
    )?;
    Ok(())
}

pub fn delete(tx: &mut Tx<'_>, scope: Scope, id: AgentId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM agents WHERE account = $1 AND id = $2", &[scope.account().into(), id.into()])?;
    tx.changed(ChangeKind::Runtime, id);
    Ok(())
}

pub fn add_task(tx: &mut Tx<'_>, agent: AgentId, task: &Task) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO agent_tasks (id, agent, kind, runtime, build, spec, status_revision, created_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, 0, $7)",
        &[
            task.id.into(),
            agent.into(),
            task.kind.as_str().into(),
            task.runtime.as_str().into(),
            task.build.as_str().into(),
            task.spec.as_str().into(),
            task.created_ms.into(),
        ],
    )?;
    Ok(())
}

/// Everything without a status, oldest first: what was handed out before comes again until its status arrives.
pub fn open_tasks(tx: &mut Tx<'_>, agent: AgentId) -> Result<Vec<Task>, StoreError> {
    tx.all(
        "SELECT id, kind, runtime, build, spec, status_revision, status, problem, created_ms FROM agent_tasks \
         WHERE agent = $1 AND done_ms IS NULL ORDER BY created_ms, id LIMIT 500",
        &[agent.into()],
    )?
    .iter()
    .map(|row| {
        Ok(Task {
            id: row.id(0)?,
            kind: row.text(1)?,
            runtime: row.text(2)?,
            build: row.text(3)?,
            spec: row.text(4)?,
            status_revision: row.int(5)?,
            status: row.maybe_text(6)?,
            problem: row.maybe_text(7)?,
            created_ms: row.int(8)?,
        })
    })
    .collect()
}

/// Delivered without a status being asked for: gone.
pub fn delivered(tx: &mut Tx<'_>, agent: AgentId, id: TaskId, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agent_tasks SET done_ms = $3 WHERE agent = $1 AND id = $2",
        &[agent.into(), id.into(), now_ms.into()],
    )?;
    Ok(())
}

pub struct TaskStatus<'a> {
    pub status: &'a str,
    pub revision: i64,
    pub problem: Option<&'a str>,
    /// A failure that may be tried again keeps the task.
    pub ends: bool,
}

/// Passed over when it is older than what is known; `NotFound` when the task is not this agent's.
pub fn task_status(
    tx: &mut Tx<'_>,
    agent: AgentId,
    id: TaskId,
    new: &TaskStatus<'_>,
    now_ms: i64,
) -> Result<(), StoreError> {
    let row = tx.one(
        "SELECT status_revision FROM agent_tasks WHERE agent = $1 AND id = $2",
        &[agent.into(), id.into()],
    )?;
    let known = row.ok_or_else(|| StoreError::NotFound { what: format!("task `{id}`") })?.int(0)?;
    if new.revision <= known {
        return Ok(());
    }
    tx.execute(
        "UPDATE agent_tasks SET status = $3, status_revision = $4, problem = $5, \
         done_ms = CASE WHEN $6 = 1 THEN CAST($7 AS BIGINT) ELSE NULL END WHERE agent = $1 AND id = $2",
        &[
            agent.into(),
            id.into(),
            new.status.into(),
            new.revision.into(),
            new.problem.into(),
            new.ends.into(),
            now_ms.into(),
        ],
    )?;
    Ok(())
}
