//! The call of runners that is held: leases, new work, what is addressed to one of them.
//!
//! A runner with nothing to do costs reads: its call looks, waits until [`super::polls`] has something for it, and writes only
//! when there is something to take or to tell. That it was heard is noted in memory and written for all runners together.

use axum::Json;
use axum::extract::State;
use slipway_api::agent::{ApprovalDecision, RunnerSync, RunnerSyncAnswer, RunningBuild};
use slipway_api::error::ErrorBody;
use slipway_model::BuildId;
use slipway_store::builds::{self, Build, Chooser, Lease, Limits, Runner, Taker};
use slipway_store::{Scope, StoreError, Tx, agent_builds, agents, approvals, debug, errands};

use super::runner::{hand_over, missing_contexts, refuse, runner_name};
use super::{deadline, venona};
use crate::ci::queue::{Allowed, Taking};
use crate::ctx::{Network, Server};
use crate::http::error::ApiError;
use crate::http::limits;
use crate::identity::auth::Caller;

/// How often a runner has to be heard to count as being there, at least.
const LEASE_MS: i64 = 60_000;
/// When a runner was last heard is written by its own call only if the notes of [`super::heard`] have not been for so long:
/// more than a call is held, less than pages wait before they call it offline.
const SEEN_MS: i64 = 30_000;

/// Renew running builds, take new ones, learn of terminations. Waits up to `waitMs` when there is nothing new.
#[utoipa::path(post, path = "/api/agent/runner/sync", tag = "agents", request_body = RunnerSync,
    responses((status = 200, body = RunnerSyncAnswer), (status = 403, body = ErrorBody)))]
pub(crate) async fn sync(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<RunnerSync>,
) -> Result<Json<RunnerSyncAnswer>, ApiError> {
    if runner_name(&caller)? != request.runner {
        return Err(ApiError::forbidden(format!("this key is not the key of runner `{}`", request.runner)));
    }
    let until = deadline(request.wait_ms);
    // The runner in a pod of an agent has its one build; builds that wait are not for it.
    let places = if venona::build_of(&request.runner).is_some() { 0 } else { request.free };
    let running = request.running.iter().map(|run| run.id.clone());
    let errands = request.errands && venona::build_of(&request.runner).is_none();
    let held = server.inner.polls.enter(caller.principal.account, &request.runner, places, running);
    let held = if errands { held.with_errands() } else { held };
    // Each call renews what runs; after that only what there is to say is written.
    let mut write = !request.running.is_empty();
    loop {
        held.looks();
        write = write || look(&server, &caller, &request).await?;
        let answer = match write {
            true => exchange(&server, &caller, &request).await?,
            false => nothing_yet(silence_ms(&server)),
        };
        held.looked(write);
        let said = !answer.taken.is_empty()
            || !answer.terminate.is_empty()
            || !answer.lost.is_empty()
            || !answer.decisions.is_empty()
            || !answer.debug.is_empty()
            || !answer.errands.is_empty();
        if said || !held.wait(&server, until).await {
            return Ok(Json(answer));
        }
        write = false;
    }
}

/// Whether there is anything to write for a runner: a build to give it, something to tell it, or itself to be noted down.
async fn look(server: &Server, caller: &Caller, request: &RunnerSync) -> Result<bool, ApiError> {
    let (inner, caller, request) = (server.clone(), caller.clone(), request.clone());
    let found = server.store().read(move |tx| {
        let (scope, now_ms) = (caller.scope(), inner.now_ms());
        if agents::find(tx, scope, &request.runner)?.is_some() {
            return Ok(false);
        }
        for run in &request.running {
            if has_news(tx, scope, &request.runner, run)? {
                return Ok(true);
            }
        }
        if let Some(only) = venona::build_of(&request.runner) {
            let id = only.to_string();
            return Ok(!request.running.iter().any(|run| run.id == id));
        }
        let known = builds::runner(tx, scope, &request.runner)?.filter(|known| {
            known.version == request.version
                && known.executor == request.executor
                && now_ms - known.last_seen_ms < SEEN_MS
        });
        if known.is_none() || !builds::unknown(tx, scope, &request.runner, &ids(&request))?.is_empty() {
            return Ok(true);
        }
        inner.inner.heard.note(scope.account(), &request.runner, now_ms);
        if request.errands && errands::is_waiting(tx, scope, now_ms)? {
            return Ok(true);
        }
        if request.free == 0 || limits::free_builds(tx, scope, now_ms)? == 0 {
            return Ok(false);
        }
        let allowed = Allowed::load(tx, scope, Taking::Runner(&request.runner))?;
        let mut any = Any { allowed, scope, found: false };
        builds::choose(tx, scope, now_ms, &mut any)?;
        Ok(any.found)
    });
    Ok(found.await?)
}

/// Whether there is one build that a runner may take.
struct Any<'a> {
    allowed: Allowed<'a>,
    scope: Scope,
    found: bool,
}

impl Chooser for Any<'_> {
    fn limits(&mut self, tx: &mut Tx<'_>, build: &Build) -> Result<Limits, StoreError> {
        self.allowed.of(tx, self.scope, build)
    }

    fn chose(&mut self, _: &mut Tx<'_>, _: Build) -> Result<bool, StoreError> {
        self.found = true;
        Ok(false)
    }
}

fn ids(request: &RunnerSync) -> Vec<BuildId> {
    request.running.iter().filter_map(|run| run.id.parse().ok()).collect()
}

/// What [`renew`] would tell the runner of a build that it has.
fn has_news(tx: &mut Tx<'_>, scope: Scope, runner: &str, run: &RunningBuild) -> Result<bool, StoreError> {
    let Ok(id) = run.id.parse() else { return Ok(true) };
    match builds::lease(tx, scope, runner, id, run.epoch)? {
        Lease::Lost => return Ok(true),
        Lease::Held { terminate: true } if !run.terminating => return Ok(true),
        Lease::Held { .. } => {}
    }
    if decisions(tx, id)?.iter().any(|decision| !run.decided.contains(&decision.step)) {
        return Ok(true);
    }
    Ok(debug::of_build(tx, id)?.iter().any(|order| !run.debug_heard.contains(&order.id)))
}

async fn exchange(
    server: &Server,
    caller: &Caller,
    request: &RunnerSync,
) -> Result<RunnerSyncAnswer, ApiError> {
    let (inner, caller, request) = (server.clone(), caller.clone(), request.clone());
    let answer = server.store().write(move |tx| {
        let scope = caller.scope();
        let now_ms = inner.now_ms();
        // An agent's key opens its own tasks; what runs builds are the runners in its pods.
        if agents::find(tx, scope, &request.runner)?.is_some() {
            return Ok(RunnerSyncAnswer::default());
        }
        if let Some(only) = venona::build_of(&request.runner) {
            return serve_one(&inner, tx, &caller, &request, only);
        }
        let seen = Runner {
            name: request.runner.clone(),
            version: request.version.clone(),
            executor: request.executor.clone(),
            last_seen_ms: now_ms,
        };
        builds::runner_seen(tx, scope, &seen)?;
        let silence_ms = silence_ms(&inner);
        let mut answer = nothing_yet(silence_ms);
        for run in &request.running {
            renew(tx, scope, &request.runner, run, now_ms + silence_ms, &mut answer)?;
        }
        builds::forget_unknown(tx, scope, &request.runner, &ids(&request))?;
        if request.errands && errands::is_waiting(tx, scope, now_ms)? {
            let key = inner.keyring().account(tx, scope.account())?;
            answer.errands = crate::ci::errands::take(tx, &key, scope, &request.runner, now_ms)?;
        }
        let free = i64::from(request.free).min(limits::free_builds(tx, scope, now_ms)?);
        if free > 0 {
            let taker = Taker {
                runner: &request.runner,
                executor: &request.executor,
                now_ms,
                lease_until_ms: now_ms + silence_ms,
            };
            let mut allowed = Allowed::load(tx, scope, Taking::Runner(&request.runner))?;
            let taken = builds::take(tx, scope, &taker, free, &mut |tx, build| allowed.of(tx, scope, build))?;
            for build in taken {
                hand_out(&inner, tx, &caller, build, &mut answer)?;
            }
        }
        Ok(answer)
    });
    Ok(answer.await?)
}

fn nothing_yet(silence_ms: i64) -> RunnerSyncAnswer {
    RunnerSyncAnswer {
        lease_ms: u64::try_from(LEASE_MS.min(silence_ms / 2)).expect("positive"),
        // Before anybody else may begin, with time to stop what runs.
        fence_ms: u64::try_from(silence_ms / 5 * 4).expect("positive"),
        ..RunnerSyncAnswer::default()
    }
}

/// The runner in a pod of an agent: it has its one build, or hears that it is not its any more, whatever it asks for.
fn serve_one(
    server: &Server,
    tx: &mut Tx<'_>,
    caller: &Caller,
    request: &RunnerSync,
    only: BuildId,
) -> Result<RunnerSyncAnswer, StoreError> {
    let (scope, now_ms, silence_ms) = (caller.scope(), server.now_ms(), silence_ms(server));
    let mut answer = nothing_yet(silence_ms);
    let id = only.to_string();
    for run in &request.running {
        match run.id == id {
            true => renew(tx, scope, &request.runner, run, now_ms + silence_ms, &mut answer)?,
            false => answer.lost.push(run.id.clone()),
        }
    }
    let runs = request.running.iter().any(|run| run.id == id);
    if runs && !answer.lost.contains(&id) {
        return Ok(answer);
    }
    let taker = Taker {
        runner: &request.runner,
        executor: &request.executor,
        now_ms,
        lease_until_ms: now_ms + silence_ms,
    };
    match builds::take_over(tx, scope, &taker, only)? {
        Some(build) => {
            answer.lost.retain(|lost| *lost != id);
            agent_builds::arrived(tx, only, now_ms)?;
            hand_out(server, tx, caller, build, &mut answer)?;
        }
        None if runs => {}
        None => {
            agent_builds::left(tx, only, now_ms)?;
            answer.lost.push(id);
        }
    }
    Ok(answer)
}

fn hand_out(
    server: &Server,
    tx: &mut Tx<'_>,
    caller: &Caller,
    build: Build,
    answer: &mut RunnerSyncAnswer,
) -> Result<(), StoreError> {
    let scope = caller.scope();
    match missing_contexts(tx, scope, &build)? {
        Some(sentence) => {
            let runner = build.runner.clone().unwrap_or_default();
            refuse(tx, scope, &build, &runner, &sentence, server.now_ms())?;
        }
        None => answer.taken.push(hand_over(server, tx, caller, build)?),
    }
    Ok(())
}

/// After so much silence the builds of a runner go to others.
fn silence_ms(server: &Server) -> i64 {
    let network = &server.inner.config.network;
    i64::from(network.runner_silence_seconds.unwrap_or(Network::RUNNER_SILENCE_SECONDS)) * 1000
}

fn renew(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: &str,
    run: &RunningBuild,
    lease_until_ms: i64,
    answer: &mut RunnerSyncAnswer,
) -> Result<(), StoreError> {
    let lease = match run.id.parse() {
        Ok(id) => builds::renew(tx, scope, runner, id, run.epoch, lease_until_ms)?,
        Err(_) => Lease::Lost,
    };
    match lease {
        Lease::Lost => answer.lost.push(run.id.clone()),
        Lease::Held { terminate: true } if !run.terminating => answer.terminate.push(run.id.clone()),
        Lease::Held { .. } => {}
    }
    if let (Ok(id), false) = (run.id.parse(), lease == Lease::Lost) {
        let unheard = |decision: &ApprovalDecision| !run.decided.contains(&decision.step);
        answer.decisions.extend(decisions(tx, id)?.into_iter().filter(unheard));
        for order in debug::of_build(tx, id)?.iter().filter(|order| !run.debug_heard.contains(&order.id)) {
            answer.debug.push(serde_json::from_str(&order.body).map_err(StoreError::corrupt)?);
        }
    }
    Ok(())
}

pub(super) fn decisions(tx: &mut Tx<'_>, build: BuildId) -> Result<Vec<ApprovalDecision>, StoreError> {
    let known = approvals::of_build(tx, build)?;
    Ok(known
        .into_iter()
        .map(|approval| ApprovalDecision {
            build: build.to_string(),
            step: approval.step,
            approved: approval.approved,
            by: approval.by_name,
            by_kind: approval.by_kind,
            reason: approval.reason,
            at_ms: approval.at_ms,
        })
        .collect())
}
