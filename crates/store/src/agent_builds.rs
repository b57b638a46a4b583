//! Builds that agents of the published runner were given, from the first task to the last.
//!
//! In: which agent makes the pod of a build's runner, and what became of that pod. Out: what is still open. It knows
//! neither pods nor tasks; those are in [`crate::agents`], and what a pod looks like the server knows.

use slipway_model::{AccountId, AgentId, BuildId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct AgentBuild {
    pub build: BuildId,
    pub account: AccountId,
    pub agent: AgentId,
    pub runtime: String,
    pub namespace: String,
    /// Counts the pods that were asked for, from 1.
    pub attempt: i64,
    /// The runner in the pod of this attempt has taken the build.
    pub arrived: bool,
    /// Since when the build was seen to be at its end.
    pub ended_ms: Option<i64>,
    /// It has seen the end, and there is nothing left that it has to do.
    pub left: bool,
    pub over: bool,
}

const ROW: &str = "SELECT build, account, agent, runtime, namespace, attempt, arrived_ms, left_ms, over_ms, ended_ms FROM agent_builds";

fn read(row: &Row) -> Result<AgentBuild, StoreError> {
    Ok(AgentBuild {
        build: row.id(0)?,
        account: row.id(1)?,
        agent: row.id(2)?,
        runtime: row.text(3)?,
        namespace: row.text(4)?,
        attempt: row.int(5)?,
        arrived: row.maybe_int(6)?.is_some(),
        left: row.maybe_int(7)?.is_some(),
        over: row.maybe_int(8)?.is_some(),
        ended_ms: row.maybe_int(9)?,
    })
}

/// A new attempt, of which nothing has been heard.
pub fn begin(tx: &mut Tx<'_>, new: &AgentBuild) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO agent_builds (build, account, agent, runtime, namespace, attempt) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (build) DO UPDATE SET agent = excluded.agent, runtime = excluded.runtime, \
         namespace = excluded.namespace, attempt = excluded.attempt, arrived_ms = NULL, \
         ended_ms = NULL, left_ms = NULL, over_ms = NULL",
        &[
            new.build.into(),
            new.account.into(),
            new.agent.into(),
            new.runtime.as_str().into(),
            new.namespace.as_str().into(),
            new.attempt.into(),
        ],
    )?;
    Ok(())
}

pub fn of(tx: &mut Tx<'_>, scope: Scope, build: BuildId) -> Result<Option<AgentBuild>, StoreError> {
    tx.one(&format!("{ROW} WHERE account = $1 AND build = $2"), &[scope.account().into(), build.into()])?
        .as_ref()
        .map(read)
        .transpose()
}

/// Those of an agent that are not over.
pub fn open(tx: &mut Tx<'_>, agent: AgentId) -> Result<Vec<AgentBuild>, StoreError> {
    tx.all(&format!("{ROW} WHERE agent = $1 AND over_ms IS NULL ORDER BY build LIMIT 1000"), &[agent.into()])?
        .iter()
        .map(read)
        .collect()
}

/// Those of all agents whose builds have ended or are to end.
pub fn ended(tx: &mut Tx<'_>, limit: i64) -> Result<Vec<AgentBuild>, StoreError> {
    tx.all(
        &format!(
            "{ROW} WHERE over_ms IS NULL AND EXISTS (SELECT 1 FROM builds WHERE builds.id = agent_builds.build \
             AND (finished_ms IS NOT NULL OR terminate = 1)) ORDER BY build LIMIT $1"
        ),
        &[limit.into()],
    )?
    .iter()
    .map(read)
    .collect()
}

pub fn arrived(tx: &mut Tx<'_>, build: BuildId, now_ms: i64) -> Result<(), StoreError> {
    note(tx, "arrived_ms", build, now_ms)
}

pub fn end_seen(tx: &mut Tx<'_>, build: BuildId, now_ms: i64) -> Result<(), StoreError> {
    note(tx, "ended_ms", build, now_ms)
}

pub fn left(tx: &mut Tx<'_>, build: BuildId, now_ms: i64) -> Result<(), StoreError> {
    note(tx, "left_ms", build, now_ms)
}

pub fn over(tx: &mut Tx<'_>, build: BuildId, now_ms: i64) -> Result<(), StoreError> {
    note(tx, "over_ms", build, now_ms)
}

fn note(tx: &mut Tx<'_>, column: &'static str, build: BuildId, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        &format!("UPDATE agent_builds SET {column} = $2 WHERE build = $1 AND {column} IS NULL"),
        &[build.into(), now_ms.into()],
    )?;
    Ok(())
}
