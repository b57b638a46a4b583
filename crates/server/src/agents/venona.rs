//! Builds of runtime environments that an agent of the published runner serves: what it is asked to make, and to delete.
//!
//! An agent that asks for tasks takes builds as a runner does, from the same queue and under the same limits, in the
//! transaction that also writes its tasks. A build is then taken for a runner that is on its way: one in a pod that the
//! agent makes, whose name is the runtime and the build, and whose key opens that build and no other. It comes within
//! [`POD_COMES_MS`] or another pod is asked for. What has to be deleted follows from the state of the build alone, so it
//! may be looked at any time and by anybody: when the agent asks, and by the housekeeping.

use slipway_api::build::BuildStep;
use slipway_model::{BuildId, BuildStatus, Secret};
use slipway_store::agent_builds::{self, AgentBuild};
use slipway_store::agents::{self, Agent, Task};
use slipway_store::builds::{self, Build, Holder, Report, Taker};
use slipway_store::identity::{self, Subject};
use slipway_store::{Scope, StoreError, Tx, runtime_environments};

use super::registration;
use super::workload::{self, Errand, Workload};
use crate::ci::queue::{Allowed, Taking};
use crate::ctx::{Network, Server};
use crate::http::limits;
use crate::identity::tokens;
use crate::seal;

/// As long as the published platform waits for a build that was given out.
const POD_COMES_MS: i64 = 15 * 60 * 1000;
/// Pods of one build; more would fail as these did.
const ATTEMPTS_MAX: i64 = 3;
/// What a runner has to clear away after the end of its build, should it not say that it has.
const LEAVES_MS: i64 = 60_000;
const TASKS_KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// So many builds are given out at once: an agent works on as many by itself.
const AT_ONCE: i64 = 50;

/// The name of the runner in the pod of a build. No other runner and no agent can have one like it.
pub(crate) fn runner_of(runtime: &str, build: BuildId) -> String {
    format!("{runtime}@{build}")
}

/// The only build that a runner of this name may have, if it is one of those.
pub(crate) fn build_of(runner: &str) -> Option<BuildId> {
    runner.rsplit_once('@').and_then(|(_, build)| build.parse().ok())
}

/// Gives an agent what waits for its runtimes, after clearing away what is over.
pub(crate) fn give(server: &Server, tx: &mut Tx<'_>, agent: &Agent) -> Result<(), StoreError> {
    for row in agent_builds::open(tx, agent.id)? {
        settle(server, tx, &row)?;
    }
    let (scope, now_ms) = (Scope::of(agent.account), server.now_ms());
    let free = limits::free_builds(tx, scope, now_ms)?.min(AT_ONCE);
    if agent.runtimes.is_empty() || free == 0 {
        return Ok(());
    }
    let taker =
        Taker { runner: &agent.name, executor: "kubernetes", now_ms, lease_until_ms: now_ms + POD_COMES_MS };
    let mut allowed = Allowed::load(tx, scope, Taking::Agent(&agent.runtimes))?;
    let taken = builds::take(tx, scope, &taker, free, &mut |tx, build| allowed.of(tx, scope, build))?;
    for build in taken {
        let runtime = allowed.runtime_of(&build).unwrap_or_default().to_owned();
        begin(server, tx, agent, &build, &runtime)?;
    }
    Ok(())
}

/// The first pod of a build, or the next one because the last has not been heard for too long.
fn begin(
    server: &Server,
    tx: &mut Tx<'_>,
    agent: &Agent,
    build: &Build,
    runtime: &str,
) -> Result<(), StoreError> {
    let (scope, now_ms) = (Scope::of(agent.account), server.now_ms());
    let before = agent_builds::of(tx, scope, build.id)?;
    if build.terminate {
        return finish(tx, scope, build.id, BuildStatus::Terminated, build.message.as_deref(), now_ms);
    }
    let attempt = before.as_ref().map_or(1, |row| row.attempt + 1);
    if attempt > ATTEMPTS_MAX {
        let sentence = given_up(tx, build.id)?;
        return finish(tx, scope, build.id, BuildStatus::Error, Some(&sentence), now_ms);
    }
    let described = runtime_environments::find(tx, scope, runtime)?;
    let described: Option<serde_json::Value> =
        described.map(|row| serde_json::from_str(&row.body).map_err(StoreError::corrupt)).transpose()?;
    let workload = match Workload::read(runtime, described.as_ref()) {
        Ok(workload) => workload,
        Err(why) => return finish(tx, scope, build.id, BuildStatus::Error, Some(&why), now_ms),
    };
    agents::drop_creations(tx, build.id, now_ms)?;
    if let Some(before) = &before {
        delete_pod(server, tx, before, before.attempt)?;
    }
    let row = AgentBuild {
        build: build.id,
        account: build.account,
        agent: agent.id,
        runtime: runtime.to_owned(),
        namespace: workload.namespace.clone(),
        attempt,
        arrived: false,
        ended_ms: None,
        left: false,
        over: false,
    };
    agent_builds::begin(tx, &row)?;
    let token = new_token(server, tx, scope, &runner_of(runtime, build.id))?;
    builds::meant_for(tx, scope, build.id, &runner_of(runtime, build.id))?;
    let image = server.inner.config.network.runner_image.as_deref().unwrap_or(Network::RUNNER_IMAGE);
    let errand =
        Errand { build: build.id, attempt, image, server: server.public_url(), token: token.expose() };
    // Every time: it may be another cluster's agent that goes on with the build.
    let claim = workload::claim(&workload, build.id);
    ask(server, tx, &row, "CreatePvc", workload::claim_name(build.id), claim.to_string())?;
    let pod = workload::pod(&workload, &errand).to_string();
    let key = server.keyring().account(tx, build.account)?;
    let sealed = key.seal(server.seams(), &place(build.id), &pod);
    ask(server, tx, &row, "CreatePod", workload::pod_name(build.id, attempt), sealed)
}

/// Good for the runner in the pod and for nobody else; what an earlier pod had is good for nothing from now on.
fn new_token(
    server: &Server,
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: &str,
) -> Result<Secret<String>, StoreError> {
    identity::delete_keys_of(tx, scope, Subject::Runner, runner)?;
    let scopes = vec![registration::UNUSED.to_owned()];
    let token =
        tokens::new_key(server.seams(), scope.account(), "registration", Subject::Runner, runner, scopes);
    identity::create_key(tx, &token.row)?;
    Ok(token.text)
}

fn place(build: impl std::fmt::Display) -> String {
    format!("agent-task/{build}")
}

fn ask(
    server: &Server,
    tx: &mut Tx<'_>,
    row: &AgentBuild,
    kind: &str,
    object: String,
    spec: String,
) -> Result<(), StoreError> {
    let task = Task {
        id: server.seams().new_id(),
        agent: row.agent,
        kind: kind.to_owned(),
        runtime: row.runtime.clone(),
        build: row.build.to_string(),
        attempt: row.attempt,
        object,
        spec,
        status_revision: 0,
        status: None,
        problem: None,
        created_ms: server.now_ms(),
        done_ms: None,
    };
    agents::add_task(tx, &task)
}

fn delete_pod(server: &Server, tx: &mut Tx<'_>, row: &AgentBuild, attempt: i64) -> Result<(), StoreError> {
    let name = workload::pod_name(row.build, attempt);
    let spec = serde_json::json!({"name": name, "namespace": row.namespace}).to_string();
    ask(server, tx, row, "DeletePod", name, spec)
}

/// What a task is to the agent: its secret is in it again.
pub(crate) fn spec_of(
    server: &Server,
    tx: &mut Tx<'_>,
    agent: &Agent,
    task: &Task,
) -> Result<serde_json::Value, StoreError> {
    let text = if seal::is_sealed(&task.spec) {
        let key = server.keyring().account(tx, agent.account)?;
        let opened = key.unseal(&place(&task.build), &task.spec);
        opened.ok_or_else(|| StoreError::corrupt(format!("cannot decrypt task `{}`", task.id)))?
    } else {
        Secret::new(task.spec.clone())
    };
    serde_json::from_str(text.expose()).map_err(StoreError::corrupt)
}

/// What is left to do for a build that has ended, or that is to end before its runner has come. Once.
pub(crate) fn settle(server: &Server, tx: &mut Tx<'_>, row: &AgentBuild) -> Result<(), StoreError> {
    let (scope, now_ms) = (Scope::of(row.account), server.now_ms());
    let Some(mut build) = builds::by_id(tx, scope, row.build)? else { return Ok(()) };
    if build.terminate && !build.status.is_final() && !row.arrived {
        finish(tx, scope, build.id, BuildStatus::Terminated, build.message.as_deref(), now_ms)?;
        build.status = BuildStatus::Terminated;
    }
    if !build.status.is_final() {
        return Ok(());
    }
    // By our own clock: what runners say of theirs is for people.
    let waited = row.ended_ms.is_some_and(|at_ms| now_ms - at_ms >= LEAVES_MS);
    if !(row.left || !row.arrived || waited) {
        return agent_builds::end_seen(tx, row.build, now_ms);
    }
    agents::drop_creations(tx, row.build, now_ms)?;
    // All of them: an agent may have been slow with an earlier one.
    for attempt in 1..=row.attempt {
        delete_pod(server, tx, row, attempt)?;
    }
    let name = workload::claim_name(row.build);
    let spec = serde_json::json!({"name": name, "namespace": row.namespace}).to_string();
    ask(server, tx, row, "DeletePvc", name, spec)?;
    identity::delete_keys_of(tx, scope, Subject::Runner, &runner_of(&row.runtime, row.build))?;
    agent_builds::over(tx, row.build, now_ms)
}

/// For agents that do not ask: keys of what is over do not wait for them.
pub(crate) fn settle_all(server: &Server, tx: &mut Tx<'_>) -> Result<(), StoreError> {
    for row in agent_builds::ended(tx, 200)? {
        settle(server, tx, &row)?;
    }
    agents::forget_tasks_before(tx, server.now_ms() - TASKS_KEPT_MS)
}

/// An agent is removed: its builds are anybody's at once, and the runners in its pods are nobody.
pub(crate) fn abandon(tx: &mut Tx<'_>, agent: &Agent) -> Result<(), StoreError> {
    let scope = Scope::of(agent.account);
    for row in agent_builds::open(tx, agent.id)? {
        let runner = runner_of(&row.runtime, row.build);
        identity::delete_keys_of(tx, scope, Subject::Runner, &runner)?;
        builds::forget_unknown(tx, scope, &runner, &[])?;
    }
    Ok(())
}

/// A task failed for good. What made the pod impossible is what people read about their build.
pub(crate) fn failed(
    tx: &mut Tx<'_>,
    agent: &Agent,
    task: &Task,
    reason: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let scope = Scope::of(agent.account);
    let Ok(build) = task.build.parse() else { return Ok(()) };
    let current = agent_builds::of(tx, scope, build)?
        .is_some_and(|row| row.agent == agent.id && row.attempt == task.attempt && !row.arrived);
    if !current || !matches!(task.kind.as_str(), "CreatePod" | "CreatePvc") {
        return Ok(());
    }
    let what = if task.kind == "CreatePod" { "pod" } else { "claim" };
    let sentence = format!("agent `{}` could not create {what} {}: {reason}", agent.name, task.object);
    finish(tx, scope, build, BuildStatus::Error, Some(&sentence), now_ms)
}

/// Ends a build in the name of whoever holds it; its steps stay as they were last heard of.
fn finish(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: BuildId,
    status: BuildStatus,
    message: Option<&str>,
    now_ms: i64,
) -> Result<(), StoreError> {
    let Some(build) = builds::by_id(tx, scope, id)? else { return Ok(()) };
    let steps: Vec<BuildStep> = build.steps()?;
    let report = Report {
        by: Holder { runner: build.runner.as_deref().unwrap_or_default(), epoch: build.epoch },
        revision: i64::MAX,
        status,
        message,
        started_ms: Some(build.started_ms.unwrap_or(now_ms)),
        finished_ms: Some(now_ms),
        steps: &steps,
    };
    builds::report(tx, scope, id, &report, now_ms).map(drop)
}

fn given_up(tx: &mut Tx<'_>, build: BuildId) -> Result<String, StoreError> {
    let tasks = agents::tasks_of_build(tx, build)?;
    let last = tasks.iter().rev().find_map(|task| task.problem.as_deref());
    let why = last.map_or_else(
        || "check whether the pods exist, and the agent's log".to_owned(),
        |problem| format!("the agent said last: {problem}"),
    );
    Ok(format!("{ATTEMPTS_MAX} pods were requested and none of them finished the build; {why}"))
}
