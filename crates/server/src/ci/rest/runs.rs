//! Runs of a pipeline that somebody asks for: with which commit and variables, and what it takes to bring a text of one's own.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use slipway_access::Who;
use slipway_api::agent::{Machine, TriggerCommit};
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{GitTrigger, Pipeline, RunRequest};
use slipway_store::{Tx, audit, git, projects};
use utoipa::IntoParams;

use super::pipelines::{asks_find, find, find_granted};
use crate::ci::orders::{self, Run};
use crate::ci::pipelines::stored;
use crate::ci::rest::definition::check_variables;
use crate::ci::start::{self, Asked, Wish};
use crate::ci::{providers, queue};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access::project_of;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunQuery {
    /// The same id gives the same build, so that a call may be repeated.
    req_id: Option<String>,
}

/// Start a build. The answer is its id.
#[utoipa::path(post, path = "/api/pipelines/run/{name}", tag = "pipelines", params(("name" = String, Path), RunQuery), request_body = RunRequest,
    responses((status = 200, body = String), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn run(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<RunQuery>,
    Json(request): Json<RunRequest>,
) -> Result<Json<String>, ApiError> {
    begin(server, caller, name, query, request, How::Run).await
}

/// Start a build that stops at breakpoints. Requires the right to debug.
#[utoipa::path(post, path = "/api/pipelines/debug/{name}", tag = "pipelines", params(("name" = String, Path), RunQuery), request_body = RunRequest,
    responses((status = 200, body = String), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn debug(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<RunQuery>,
    Json(request): Json<RunRequest>,
) -> Result<Json<String>, ApiError> {
    begin(server, caller, name, query, request, How::Debug).await
}

/// As what somebody starts a build by hand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Run,
    Debug,
    /// Of the pipeline that is there for texts which belong to none: who may make pipelines may bring one.
    Text,
}

pub(crate) async fn begin(
    server: Server,
    caller: Caller,
    name: String,
    query: RunQuery,
    mut request: RunRequest,
    how: How,
) -> Result<Json<String>, ApiError> {
    let debug = how == How::Debug;
    let action = if debug { "debug" } else { "run" };
    let (asking, wanted) = (caller.clone(), name.clone());
    let look = server.look(move |tx| {
        tx.fetch_last(asks_find(&asking, &wanted))?;
        find(tx, &asking, &wanted, action)
    });
    let row = look.await?;
    let pipeline = stored(&row)?;
    let brings_text = brings_text(&pipeline, &request);
    let mut wrong = Vec::new();
    check_variables("", "variables", &request.variables, &mut wrong);
    if !wrong.is_empty() {
        return Err(ApiError::fields("this run cannot start", wrong));
    }
    let key = server.data_key(caller.principal.account).await?;
    let account = caller.principal.account;
    orders::seal_variables(&key, server.seams(), account, &mut request.variables, &pipeline.spec.variables);
    let (trigger, commit) = commit_for(&server, &caller, &pipeline, &request).await?;
    let inner = server.clone();
    // Asked again where it counts: the right may have gone since.
    let mut asked = asks_find(&caller, &name);
    asked.push(projects::asks_by_name(caller.scope(), project_of(&row.name)));
    let ahead = asked.iter().cloned().chain([audit::asks_head(caller.actor().chain())]).collect();
    let made = server
        .change_asking(ahead, move |tx| {
            audit::fetch_with(tx, caller.actor().chain(), asked)?;
            let (row, granted) = find_granted(tx, &caller, &name, action)?;
            if let Some(why) = &brings_text {
                require_text(tx, &caller, &name, if how == How::Text { "create" } else { "update" }, why)?;
            }
            for context in request.contexts.iter().flatten() {
                crate::ci::contexts::require_use(tx, &caller, context)?;
            }
            let of = start::Current { row: &row, pipeline: &pipeline };
            let mut order = start::order(
                tx,
                caller.scope(),
                of,
                Run {
                    trigger: trigger.as_ref(),
                    commit,
                    variables: request.variables,
                    // The published client always sends options; without any in them the pipeline's own count.
                    options: request.options.filter(|options| *options != Default::default()),
                    machine: Machine::read(request.user_machine_config.as_ref()),
                    contexts: request.contexts.unwrap_or_default(),
                    yaml: request.user_yaml_descriptor.filter(|yaml| !yaml.trim().is_empty()),
                    annotations: request
                        .annotations
                        .unwrap_or_default()
                        .into_iter()
                        .collect::<BTreeMap<_, _>>(),
                    initiator: Some(orders::initiator(&caller.principal)),
                    ..Run::default()
                },
            )?;
            order.options.debug |= debug;
            if order.options.debug || !order.options.breakpoints.is_empty() {
                // Breakpoints in a run's options are as good as the right that they need.
                find(tx, &caller, &name, "debug")?;
                crate::ci::rest::debug::check(&order.options.breakpoints)?;
                order.options.debug = true;
                for (step, phases) in orders::breakpoints(&pipeline) {
                    order.options.breakpoints.entry(step).or_insert(phases);
                }
            }
            let wish = query.req_id.as_deref().map_or(Wish::Manual, Wish::Request);
            let entry = Entry::new(action, "pipeline", row.id, &row.name);
            let asked = Asked { granted, wish, caller: &caller, entry };
            Ok(start::start(&inner, tx, caller.scope(), of, &order, asked)?)
        })
        .await?;
    Ok(Json(made.to_string()))
}

/// Why a run would do something else than what the pipeline does by itself; `None` when it would not.
///
/// Who says what runs has everything that the pipeline has: its secrets, its runner, where its builds may push.
fn brings_text(pipeline: &Pipeline, request: &RunRequest) -> Option<&'static str> {
    if request.user_yaml_descriptor.as_deref().is_some_and(|yaml| !yaml.trim().is_empty()) {
        return Some("a text of its own");
    }
    let template = pipeline.spec.spec_template.as_ref()?;
    // Its text is the one of the commit that is built, unless a revision is named.
    let pinned = template.revision.as_deref().is_some_and(|revision| !revision.is_empty());
    let trigger = trigger_for(pipeline, request.trigger.as_deref()).ok().flatten();
    let elsewhere = trigger.is_some_and(|trigger| template.repo.as_deref() != Some(trigger.repo.as_str()));
    if template.location != "git" || pinned || elsewhere {
        return None;
    }
    if request.sha.as_deref().is_some_and(|sha| !sha.is_empty()) {
        return Some("the pipeline file of an arbitrary commit");
    }
    let branch = request.branch.as_deref().filter(|branch| !branch.is_empty())?;
    // What a push there would have run.
    let waited_for = trigger.is_some_and(|trigger| {
        !trigger.disabled
            && trigger.branch_regex.as_deref().is_none_or(|pattern| queue::fits(pattern, branch))
    });
    (!waited_for).then_some("the pipeline file of a branch that no trigger of the pipeline matches")
}

fn require_text(
    tx: &mut Tx<'_>,
    caller: &Caller,
    name: &str,
    right: &str,
    why: &str,
) -> Result<(), ApiError> {
    find(tx, caller, name, right).map(drop).map_err(|refused| {
        if refused.status() != axum::http::StatusCode::FORBIDDEN {
            return refused;
        }
        ApiError::forbidden(format!(
            "running {why} requires the right to {right} the pipeline, not only to run it: {refused}"
        ))
    })
}

/// The trigger that a run by hand goes as: the one that was named, or the first.
fn trigger_for<'p>(pipeline: &'p Pipeline, wanted: Option<&str>) -> Result<Option<&'p GitTrigger>, ApiError> {
    let triggers = &pipeline.spec.triggers;
    match wanted.filter(|wanted| !wanted.is_empty()) {
        Some(wanted) => triggers
            .iter()
            .find(|trigger| trigger.name == wanted || trigger.id() == Some(wanted))
            .map(Some)
            .ok_or_else(|| ApiError::not_found(format!("trigger `{wanted}`"))),
        None => Ok(triggers.first()),
    }
}

/// A run by hand builds the head of a branch of the repository that its trigger (the first, unless named) watches.
async fn commit_for(
    server: &Server,
    caller: &Caller,
    pipeline: &Pipeline,
    request: &RunRequest,
) -> Result<(Option<GitTrigger>, Option<TriggerCommit>), ApiError> {
    let trigger = trigger_for(pipeline, request.trigger.as_deref())?.cloned();
    let template = pipeline.spec.spec_template.as_ref();
    let repo_name = trigger
        .as_ref()
        .map(|trigger| trigger.repo.clone())
        .or_else(|| template?.repo.clone())
        .filter(|name| !name.is_empty());
    let Some(repo_name) = repo_name else { return Ok((trigger, None)) };
    let by = match &caller.principal.who {
        Who::User { name, .. } => name.clone(),
        _ => caller.principal.display_name(),
    };
    let context = trigger.as_ref().and_then(GitTrigger::context);
    if let Some(context) = context {
        let wanted = request.sha.clone().or_else(|| request.branch.clone());
        let mut commit =
            providers::commit(server, caller.principal.account, context, &repo_name, wanted.as_deref())
                .await?;
        commit.trigger_name = trigger.as_ref().map(|trigger| trigger.name.clone()).unwrap_or_default();
        if let Some(branch) = &request.branch {
            commit.branch.clone_from(branch);
        }
        return Ok((trigger, Some(commit)));
    }
    let (scope, wanted) = (caller.scope(), repo_name.clone());
    let found = server.store().read(move |tx| {
        let Some(repo) = git::by_name(tx, scope, &wanted)? else { return Ok(None) };
        let refs = git::known_refs(tx, repo.id)?;
        Ok(Some((repo, refs)))
    });
    let Some((repo, refs)) = found.await? else { return Ok((trigger, None)) };
    let branch = request.branch.clone().unwrap_or_else(|| repo.default_branch.clone());
    let head = refs.get(&format!("refs/heads/{branch}"));
    let sha = request.sha.clone().or_else(|| head.map(|head| head.sha.clone()));
    let Some(sha) = sha else {
        return Err(ApiError::bad_request(format!(
            "`{repo_name}` has no branch `{branch}`: push it, or choose another"
        )));
    };
    let known = head.filter(|head| head.sha == sha);
    let commit = TriggerCommit {
        repo: repo_name,
        branch,
        author: known.map_or(by, |head| head.author.clone()),
        message: known.map(|head| head.message.clone()).unwrap_or_default(),
        sha,
        trigger_name: trigger.as_ref().map(|trigger| trigger.name.clone()).unwrap_or_default(),
        ..TriggerCommit::default()
    };
    Ok((trigger, Some(commit)))
}
