//! Agents of the published runner, and the tasks that wait for them until a status arrives.

use slipway_model::{AccountId, AgentId, BuildId, ChangeKind, TaskId};

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
    pub agent: AgentId,
    /// `CreatePod`, `CreatePvc`, `DeletePod`, `DeletePvc`, `AgentTask`.
    pub kind: String,
    pub runtime: String,
    pub build: String,
    /// Which attempt of the build it is for.
    pub attempt: i64,
    /// The name of the pod or claim.
    pub object: String,
    /// JSON for the agent, sealed where a secret is in it.
    pub spec: String,
    pub status_revision: i64,
    pub status: Option<String>,
    pub problem: Option<String>,
    pub created_ms: i64,
    pub done_ms: Option<i64>,
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
    tx.changed(new.account, ChangeKind::Runtime, new.id);
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
    tx.changed(scope.account(), ChangeKind::Runtime, agent.id);
    tx.queue_moved(scope.account());
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
    tx.changed(scope.account(), ChangeKind::Runtime, id);
    tx.queue_moved(scope.account());
    Ok(())
}

pub fn add_task(tx: &mut Tx<'_>, task: &Task) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO agent_tasks (id, agent, kind, runtime, build, attempt, object, spec, status_revision, created_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9)",
        &[
            task.id.into(),
            task.agent.into(),
            task.kind.as_str().into(),
            task.runtime.as_str().into(),
            task.build.as_str().into(),
            task.attempt.into(),
            task.object.as_str().into(),
            task.spec.as_str().into(),
            task.created_ms.into(),
        ],
    )?;
    Ok(())
}

const TASK: &str = "SELECT id, agent, kind, runtime, build, attempt, object, spec, status_revision, status, problem, \
     created_ms, done_ms FROM agent_tasks";

fn task(row: &Row) -> Result<Task, StoreError> {
    Ok(Task {
        id: row.id(0)?,
        agent: row.id(1)?,
        kind: row.text(2)?,
        runtime: row.text(3)?,
        build: row.text(4)?,
        attempt: row.int(5)?,
        object: row.text(6)?,
        spec: row.text(7)?,
        status_revision: row.int(8)?,
        status: row.maybe_text(9)?,
        problem: row.maybe_text(10)?,
        created_ms: row.int(11)?,
        done_ms: row.maybe_int(12)?,
    })
}

/// In the order in which agents work: what a pod needs is made before it and deleted after it.
const ORDER: &str = "created_ms, CASE kind WHEN 'CreatePvc' THEN 1 WHEN 'CreatePod' THEN 2 WHEN 'DeletePod' THEN 3 ELSE 4 END, \
     attempt, id";

/// Everything without a status, oldest first: what was handed out before comes again until its status arrives.
pub fn open_tasks(tx: &mut Tx<'_>, agent: AgentId) -> Result<Vec<Task>, StoreError> {
    tx.all(
        &format!("{TASK} WHERE agent = $1 AND done_ms IS NULL ORDER BY {ORDER} LIMIT 500"),
        &[agent.into()],
    )?
    .iter()
    .map(task)
    .collect()
}

/// Everything that agents were asked for a build, oldest first.
pub fn tasks_of_build(tx: &mut Tx<'_>, build: BuildId) -> Result<Vec<Task>, StoreError> {
    tx.all(&format!("{TASK} WHERE build = $1 ORDER BY {ORDER} LIMIT 500"), &[build.into()])?
        .iter()
        .map(task)
        .collect()
}

/// What was to be made for a build is not wanted any more, whether somebody has seen it or not.
pub fn drop_creations(tx: &mut Tx<'_>, build: BuildId, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agent_tasks SET done_ms = $2 WHERE build = $1 AND done_ms IS NULL AND kind IN ('CreatePod', 'CreatePvc')",
        &[build.into(), now_ms.into()],
    )?;
    Ok(())
}

/// Delivered without a status being asked for: gone.
pub fn delivered(tx: &mut Tx<'_>, agent: AgentId, id: TaskId, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agent_tasks SET done_ms = $3 WHERE agent = $1 AND id = $2",
        &[agent.into(), id.into(), now_ms.into()],
    )?;
    Ok(())
}

/// Tasks that were done before this moment; how builds went is told by the builds.
pub fn forget_tasks_before(tx: &mut Tx<'_>, before_ms: i64) -> Result<(), StoreError> {
    tx.execute("DELETE FROM agent_tasks WHERE done_ms < $1", &[before_ms.into()])?;
    Ok(())
}

pub struct TaskStatus<'a> {
    pub status: &'a str,
    pub revision: i64,
    pub problem: Option<&'a str>,
    /// A failure that may be tried again keeps the task.
    pub ends: bool,
}

/// One task of this agent; `NotFound` when it is another's.
pub fn task_of(tx: &mut Tx<'_>, agent: AgentId, id: TaskId) -> Result<Task, StoreError> {
    let row = tx.one(&format!("{TASK} WHERE agent = $1 AND id = $2"), &[agent.into(), id.into()])?;
    row.as_ref().map(task).transpose()?.ok_or_else(|| StoreError::NotFound { what: format!("task `{id}`") })
}

/// Passed over when it is older than what is known, or when the task is over already.
pub fn task_status(
    tx: &mut Tx<'_>,
    agent: AgentId,
    id: TaskId,
    new: &TaskStatus<'_>,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let known = task_of(tx, agent, id)?;
    if new.revision <= known.status_revision || known.done_ms.is_some() {
        return Ok(false);
    }
    tx.execute(
        "UPDATE agent_tasks SET status = $3, status_revision = $4, problem = $5, \
         done_ms = CASE WHEN CAST($6 AS BIGINT) = 1 THEN CAST($7 AS BIGINT) ELSE NULL END WHERE agent = $1 AND id = $2",
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
    Ok(true)
}
