//! Runners: what they are given with a build, their reports and logs.

use axum::Json;
use axum::extract::{Path, State};
use slipway_access::Who;
use slipway_api::agent::{
    BuildReport, GitAccess, GitIntegration, LogAppend, LogAppendAnswer, RestartFrom, TakenBuild,
    VariableLayer,
};
use slipway_api::build::BuildStep;
use slipway_api::error::ErrorBody;
use slipway_forge::remote::Provider;
use slipway_model::{BuildId, BuildStatus, ChangeKind};
use slipway_store::builds::{self, Build, Holder, Report};
use slipway_store::identity::{self, Subject};
use slipway_store::{Scope, StoreError, Tx, contexts, logs};

use super::report_notes;
use super::sync::decisions;
use crate::ci::orders::{self, Order, Restart, RestartPoint};
use crate::ci::providers::{Connection, ProviderError};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::tokens;
use crate::identity::trail::Entry;
use crate::seal::DataKey;

/// More than any pipeline has, `matrix` and hooks included.
const STEPS_MAX: usize = 5_000;
const STEP_NAME_BYTES_MAX: usize = 500;
/// About what a step takes in a report.
const STEP_BYTES: usize = 512;

pub(super) fn runner_name(caller: &Caller) -> Result<&str, ApiError> {
    match &caller.principal.who {
        Who::Runner { name } => Ok(name),
        _ => Err(ApiError::forbidden("this needs a runner's key")),
    }
}

pub(super) fn build_id(text: &str) -> Result<BuildId, ApiError> {
    text.parse().map_err(|_| ApiError::not_found(format!("build `{text}`")))
}

/// What is wrong with a build that asks for shared configuration which is not there: all of it, in a sentence.
pub(super) fn missing_contexts(
    tx: &mut Tx<'_>,
    scope: Scope,
    build: &Build,
) -> Result<Option<String>, StoreError> {
    let order: Order = build.order()?;
    let mut missing = Vec::new();
    let mut effectless = Vec::new();
    for name in order.contexts {
        match contexts::by_name(tx, scope, &name)? {
            None => missing.push(format!("`{name}`")),
            Some(row) => {
                effectless
                    .extend(crate::ci::contexts::effectless(&row.kind).map(|why| format!("`{name}`: {why}")));
            }
        }
    }
    if missing.is_empty() && !effectless.is_empty() {
        return Ok(Some(format!(
            "the pipeline uses shared configuration without values for builds: {}; remove it from spec.contexts",
            effectless.join("; ")
        )));
    }
    Ok((!missing.is_empty()).then(|| {
        format!(
            "the pipeline uses shared configuration that does not exist: {}; create it under Shared configuration, or remove it from spec.contexts",
            missing.join(", ")
        )
    }))
}

/// A build that no runner can do anything about ends here, with the reason where its log would be.
pub(super) fn refuse(
    tx: &mut Tx<'_>,
    scope: Scope,
    build: &Build,
    runner: &str,
    sentence: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let report = Report {
        by: Holder { runner, epoch: build.epoch },
        // The last word, whatever was reported before.
        revision: i64::MAX,
        status: BuildStatus::Error,
        message: Some(sentence),
        started_ms: Some(now_ms),
        finished_ms: Some(now_ms),
        steps: &[] as &[BuildStep],
    };
    builds::report(tx, scope, build.id, &report, now_ms).map(drop)
}

/// Values of the contexts that the pipeline names; later ones win. Each use of a secret is recorded.
fn shared_configuration(
    tx: &mut Tx<'_>,
    caller: &Caller,
    key: &DataKey,
    build: &Build,
    order: &Order,
) -> Result<VariableLayer, StoreError> {
    let mut layer = VariableLayer { name: "shared-configuration".into(), variables: Vec::new() };
    for name in &order.contexts {
        let Some(row) = contexts::by_name(tx, caller.scope(), name)? else { continue };
        layer.variables.extend(crate::ci::contexts::variables(key, caller.scope(), &row));
        if row.sealed.is_some() {
            let entry = Entry::new("use", "context", row.id, &row.name).after(build.id);
            caller.trail.record(tx, &caller.actor(), &entry, "allowed", 200)?;
        }
    }
    Ok(layer)
}

/// The build's own credential for the Git host is made here and dies with the build.
pub(super) fn hand_over(
    server: &Server,
    tx: &mut Tx<'_>,
    caller: &Caller,
    build: Build,
) -> Result<TakenBuild, StoreError> {
    let scope = caller.scope();
    let mut order: Order = build.order()?;
    let key = server.keyring().account(tx, build.account)?;
    orders::unseal_variables(&key, build.account, &mut order.variables);
    let shared = shared_configuration(tx, caller, &key, &build, &order)?;
    // After the project's, before the pipeline's.
    let at = order.variables.iter().position(|layer| layer.name == "project").map_or(0, |at| at + 1);
    order.variables.insert(at, shared);
    let foreign = match &order.git_context {
        Some(context) if order.from_fork => foreign_access(tx, &key, scope, context)?.map(without_credential),
        Some(context) => foreign_access(tx, &key, scope, context)?,
        None => None,
    };
    let (integrations, registries) = match order.from_fork {
        true => Default::default(),
        false => (integrations(tx, &key, scope)?, crate::ci::registries::accesses(tx, &key, scope)?),
    };
    let restart = restart(tx, scope, &order)?;
    let decisions = decisions(tx, build.id)?;
    let subject = build.id.to_string();
    identity::delete_keys_of(tx, scope, Subject::Build, &subject)?;
    let key =
        tokens::new_key(server.seams(), build.account, "build", Subject::Build, &subject, vec!["git".into()]);
    identity::create_key(tx, &key.row)?;
    let own = GitAccess {
        base_url: format!("{}/git/", server.public_url()),
        username: "build".into(),
        password: key.text.expose().clone(),
    };
    Ok(TakenBuild {
        id: build.id.to_string(),
        epoch: build.epoch,
        pipeline_name: build.pipeline_name,
        account_name: identity::account_name(tx, scope)?,
        source: order.source,
        variables: order.variables,
        commit: order.commit,
        created_ms: build.created_ms,
        initiator: order.initiator.as_ref().map(|one| one.by.clone().unwrap_or_else(|| one.name.clone())),
        git: foreign.unwrap_or(own),
        integrations,
        registries,
        options: order.options,
        machine: order.machine,
        decisions,
        restart,
        from_fork: order.from_fork,
        own_text: order.own_text,
    })
}

/// Where a provider's repositories are cloned from; the runner says so when it cannot.
fn foreign_access(
    tx: &mut Tx<'_>,
    key: &DataKey,
    scope: Scope,
    context: &str,
) -> Result<Option<GitAccess>, StoreError> {
    match Connection::open(tx, key, scope, context) {
        Ok(connection) => Ok(connection.access()),
        Err(ProviderError::Store(error)) => Err(error),
        Err(error) => {
            tracing::warn!(%error, context, "Cannot use the Git provider of a build.");
            Ok(None)
        }
    }
}

/// A fork's build sees what everybody sees.
fn without_credential(access: GitAccess) -> GitAccess {
    GitAccess { username: String::new(), password: String::new(), ..access }
}

fn integrations(tx: &mut Tx<'_>, key: &DataKey, scope: Scope) -> Result<Vec<GitIntegration>, StoreError> {
    let mut found = Vec::new();
    for row in contexts::list(tx, scope)?.into_iter().filter(|row| row.kind.starts_with("git.")) {
        let Some(provider) = Provider::of_context(&row.kind) else { continue };
        if let Some(access) = foreign_access(tx, key, scope, &row.name)? {
            found.push(GitIntegration { name: row.name, provider: provider.name().into(), access });
        }
    }
    Ok(found)
}

fn restart(tx: &mut Tx<'_>, scope: Scope, order: &Order) -> Result<Option<RestartFrom>, StoreError> {
    let Some(Restart { build, from: Some(from) }) = &order.restart else { return Ok(None) };
    let Ok(id) = build.parse() else { return Ok(None) };
    let Some(old) = builds::by_id(tx, scope, id)? else { return Ok(None) };
    let step = match from {
        RestartPoint::FirstFailed => None,
        RestartPoint::Step(name) => Some(name.clone()),
    };
    Ok(Some(RestartFrom { build: build.clone(), step, steps: old.steps()? }))
}

/// Report the state of a build. Refused with 409 when the build is now assigned to another runner.
#[utoipa::path(put, path = "/api/agent/runner/builds/{id}/state", tag = "agents", params(("id" = String, Path)), request_body = BuildReport,
    responses((status = 200, body = bool), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn report_build(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(report): Json<BuildReport>,
) -> Result<Json<bool>, ApiError> {
    let runner = runner_name(&caller)?.to_owned();
    let (scope, build, now_ms) = (caller.scope(), build_id(&id)?, server.now_ms());
    let said = report.steps.len() * STEP_BYTES;
    server.inner.floods.admit(scope.account(), &runner, said, now_ms)?;
    if report.steps.len() > STEPS_MAX {
        return Err(ApiError::bad_request(format!("a build has at most {STEPS_MAX} steps")));
    }
    let status = BuildStatus::parse(&report.status)
        .ok_or_else(|| ApiError::bad_request(format!("`{}` is not a valid build status", report.status)))?;
    let kept = server.store().write(move |tx| {
        let kept = Report {
            by: Holder { runner: &runner, epoch: report.epoch },
            revision: report.revision,
            status,
            message: report.message.as_deref(),
            started_ms: report.started_ms,
            finished_ms: report.finished_ms,
            steps: &report.steps,
        };
        if builds::report(tx, scope, build, &kept, now_ms)? {
            report_notes::keep(tx, scope, build, &report, now_ms)?;
        }
        Ok(())
    });
    kept.await.map_err(|error| fenced(error, &id))?;
    Ok(Json(true))
}

/// Append to logs. What is already stored is skipped; the answer says how much of each step is stored.
#[utoipa::path(post, path = "/api/agent/runner/builds/{id}/logs", tag = "agents", params(("id" = String, Path)), request_body = LogAppend,
    responses((status = 200, body = LogAppendAnswer), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn append_logs(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(append): Json<LogAppend>,
) -> Result<Json<LogAppendAnswer>, ApiError> {
    let runner = runner_name(&caller)?.to_owned();
    let (scope, build) = (caller.scope(), build_id(&id)?);
    let said = append.pieces.iter().map(|piece| piece.step.len() + piece.text.len()).sum();
    server.inner.floods.admit(scope.account(), &runner, said, server.now_ms())?;
    if append.pieces.len() > STEPS_MAX
        || append.pieces.iter().any(|piece| piece.step.len() > STEP_NAME_BYTES_MAX)
    {
        return Err(ApiError::bad_request(format!(
            "a call has at most {STEPS_MAX} pieces of steps with names of up to {STEP_NAME_BYTES_MAX} bytes"
        )));
    }
    let mut pieces = Vec::with_capacity(append.pieces.len());
    for piece in append.pieces {
        let offset =
            i64::try_from(piece.offset).map_err(|_| ApiError::bad_request("a log offset is too large"))?;
        pieces.push((piece.step, offset, piece.text));
    }
    let kept = server.store().write(move |tx| {
        tx.changed(scope.account(), ChangeKind::Log, build);
        logs::append(tx, scope, build, Holder { runner: &runner, epoch: append.epoch }, &pieces)
    });
    let held = kept.await.map_err(|error| fenced(error, &id))?;
    Ok(Json(LogAppendAnswer { held }))
}

pub(super) fn fenced(error: StoreError, id: &str) -> ApiError {
    match error {
        StoreError::Conflict { .. } => ApiError::fenced(format!("build `{id}`")),
        other => other.into(),
    }
}
