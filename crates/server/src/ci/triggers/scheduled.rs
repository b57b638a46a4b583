//! A schedule was due: from the fact to its build.
//!
//! That it was due is written once, by [`crate::ci::schedules`]; what it starts is read from the pipeline as it is when the
//! fact is followed up. A Git provider that is away is waited for like everywhere else.

use slipway_api::agent::TriggerCommit;
use slipway_api::build::Initiator;
use slipway_api::pipeline::{CronTrigger, GitTrigger, Variable};
use slipway_model::{AccountId, PipelineId};
use slipway_store::{Scope, StoreError, Tx, git, pipelines};

use super::Candidate;
use crate::ci::orders::Run;
use crate::ci::providers;
use crate::ci::schedules;
use crate::ci::start::{self, Happened};
use crate::ci::trigger_events::CRON;
use crate::ctx::Server;
use crate::facts::later::Trouble;

pub(crate) struct Due {
    scope: Scope,
    candidate: Candidate,
    cron: CronTrigger,
    due_ms: i64,
    /// The Git trigger that it stands in for, and what that would build.
    stands_for: Option<GitTrigger>,
    commit: Option<TriggerCommit>,
}

/// `None` when the pipeline or its schedule is gone.
pub(super) async fn prepare(
    server: &Server,
    account: AccountId,
    pipeline: PipelineId,
    schedule: &str,
    due_ms: i64,
) -> Result<Option<Due>, Trouble> {
    let (scope, name) = (Scope::of(account), schedule.to_owned());
    let found = server.store().read(move |tx| {
        let Some(row) = pipelines::by_name(tx, scope, &pipeline.to_string())? else { return Ok(None) };
        let candidate = Candidate::read(row)?;
        let cron = schedules::named(&candidate.pipeline, &name);
        Ok(cron.map(|cron| (candidate, cron)))
    });
    let Some((candidate, cron)) = found.await? else { return Ok(None) };
    let wanted = cron.git_trigger_id.as_deref().zip(cron.branch.as_deref());
    let stands_for = wanted.and_then(|(id, branch)| {
        let triggers = &candidate.pipeline.spec.triggers;
        let trigger = triggers.iter().find(|trigger| trigger.id() == Some(id) || trigger.name == id)?;
        Some((trigger.clone(), branch.to_owned()))
    });
    let commit = match &stands_for {
        Some((trigger, branch)) => commit(server, account, &candidate, trigger, branch).await?,
        None => None,
    };
    let stands_for = stands_for.map(|(trigger, _)| trigger);
    Ok(Some(Due { scope, candidate, cron, due_ms, stands_for, commit }))
}

/// What the Git trigger that it stands in for would build.
async fn commit(
    server: &Server,
    account: AccountId,
    candidate: &Candidate,
    trigger: &GitTrigger,
    branch: &str,
) -> Result<Option<TriggerCommit>, Trouble> {
    let repo = trigger.repo.clone();
    if let Some(context) = trigger.context() {
        return match providers::commit(server, account, context, &repo, Some(branch)).await {
            Ok(commit) => Ok(Some(TriggerCommit { branch: branch.to_owned(), ..commit })),
            Err(error) if error.may_pass() => {
                let (what, why) = (format!("`{repo}`"), error.to_string());
                Err(Trouble::Away { account, context: context.to_owned(), what, why })
            }
            Err(error) => {
                tracing::warn!(%error, pipeline = candidate.row.name, "Cannot find the commit of a scheduled build; starting it without one.");
                Ok(None)
            }
        };
    }
    let (scope, branch) = (Scope::of(account), branch.to_owned());
    let found = server.store().read(move |tx| {
        let Some(known) = git::by_name(tx, scope, &repo)? else { return Ok(None) };
        let head = git::known_refs(tx, known.id)?.remove(&format!("refs/heads/{branch}"));
        Ok(head.map(|head| TriggerCommit {
            repo,
            branch,
            sha: head.sha,
            author: head.author,
            message: head.message,
            ..TriggerCommit::default()
        }))
    });
    Ok(found.await?)
}

/// The schedule's own, and what a schedule says of itself.
fn variables(due: &Due) -> Vec<Variable> {
    let said = |key: &str, value: String| Variable { key: key.into(), value, encrypted: false };
    let event = [
        said("EVENT_MESSAGE", due.cron.message.clone()),
        said("EVENT_TIMESTAMP", crate::seams::rfc3339(due.due_ms)),
    ];
    let mut all = due.cron.variables.clone();
    // What somebody wrote into the schedule wins.
    all.extend(event.into_iter().filter(|one| due.cron.variables.iter().all(|own| own.key != one.key)));
    all
}

/// For people: an event's name is all of its address.
fn schedule_name(cron: &CronTrigger) -> &str {
    match cron.name.starts_with(CRON) {
        true if cron.message.is_empty() => &cron.expression,
        true => &cron.message,
        false => &cron.name,
    }
}

pub(super) fn carry_out(server: &Server, tx: &mut Tx<'_>, due: &Due) -> Result<(), StoreError> {
    let Some((row, pipeline)) = due.candidate.now(tx, due.scope)? else { return Ok(()) };
    let trigger = due.stands_for.as_ref();
    let name = trigger.map_or(&due.cron.name, |trigger| &trigger.name);
    let run = Run {
        trigger,
        commit: due.commit.clone().map(|commit| TriggerCommit {
            trigger_name: name.clone(),
            event: "cron".into(),
            ..commit
        }),
        trigger_variables: variables(due),
        initiator: Some(Initiator {
            kind: "schedule".into(),
            name: schedule_name(&due.cron).to_owned(),
            by: None,
        }),
        annotations: [("cron".to_owned(), due.cron.message.clone().into())].into(),
        ..Run::default()
    };
    let cause = Happened::Schedule { name: &due.cron.name, due_ms: due.due_ms };
    let of = start::Current { row: &row, pipeline: &pipeline };
    match start::order(tx, due.scope, of, run) {
        Ok(order) => start::start(server, tx, due.scope, of, &order, cause).map(drop),
        Err(error) => {
            tracing::warn!(pipeline = row.name, %error, "A schedule fired for a pipeline that cannot run.");
            Ok(())
        }
    }
}
