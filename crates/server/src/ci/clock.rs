//! Triggers that go by the clock. One process at a time looks; a tick and its build are one transaction.
//!
//! Ticks that passed while nobody looked (the platform was off) are followed up once: the latest of them starts one
//! build, the others none. A trigger's first tick is the first after it was saved.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use slipway_api::agent::TriggerCommit;
use slipway_api::build::Initiator;
use slipway_api::pipeline::{CronTrigger, GitTrigger, Pipeline, Variable};
use slipway_model::AccountId;
use slipway_store::{Scope, StoreError, cron, git, pipelines, projects, trigger_events};

use crate::background::driver::{Outcome, Round, Turn};
use crate::background::lease::Lead;
use crate::ci::orders::{Order, Run};
use crate::ci::trigger_events::CRON;
use crate::ci::{providers, queue};
use crate::ctx::Server;
use crate::identity::access::project_of;
use slipway_dialect::cron::{Dialect, Schedule};

/// More ticks than this were missed: enough to know that only the latest counts.
const MISSED_MAX: usize = 10_000;

pub(crate) async fn round(turn: &Turn) -> Outcome {
    look(&turn.server, turn.lead()).await?;
    Ok(Round::Done)
}

/// A tick that is due.
struct Due {
    account: AccountId,
    row: pipelines::Pipeline,
    pipeline: Pipeline,
    cron: CronTrigger,
    tick_ms: i64,
}

async fn look(server: &Server, lead: &Lead) -> Result<(), StoreError> {
    let now_ms = server.now_ms();
    let found = server.store().read(move |tx| {
        let last = cron::last_ticks(tx)?;
        let mut due = Vec::new();
        for (account, row) in pipelines::clocked(tx)? {
            let Ok(pipeline) = serde_json::from_str::<Pipeline>(&row.body) else { continue };
            let crons = pipeline.spec.settings().unwrap_or_default().cron_triggers.unwrap_or_default();
            for cron in crons.into_iter().filter(|cron| !cron.disabled) {
                let since = last.get(&(row.id, cron.name.clone())).copied().unwrap_or(0).max(row.updated_ms);
                if let Some(tick_ms) = latest(&cron, since, now_ms) {
                    let (row, pipeline) = (row.clone(), pipeline.clone());
                    due.push(Due { account, row, pipeline, cron, tick_ms });
                }
            }
        }
        for (account, link) in trigger_events::links_beginning(tx, CRON)? {
            let cron = of_event(&link.uri);
            // Noted when it was connected.
            let since = last.get(&(link.pipeline, link.uri)).copied().unwrap_or(now_ms);
            let Some(tick_ms) = latest(&cron, since, now_ms) else { continue };
            let name = link.pipeline.to_string();
            let Some(row) = pipelines::by_name(tx, Scope::of(account), &name)? else { continue };
            if let Ok(pipeline) = serde_json::from_str::<Pipeline>(&row.body) {
                due.push(Due { account, row, pipeline, cron, tick_ms });
            }
        }
        Ok(due)
    });
    // One that cannot be followed up does not hold up the others.
    let mut failed = None;
    for due in found.await? {
        if let Err(error) = fire(server, lead, due).await {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// A schedule that is an event: `cron:codefresh:EXPRESSION:MESSAGE:ACCOUNT`. Its name is the whole.
fn of_event(uri: &str) -> CronTrigger {
    let mut parts = uri.strip_prefix(CRON).unwrap_or_default().split(':');
    CronTrigger {
        name: uri.to_owned(),
        expression: parts.next().unwrap_or_default().to_owned(),
        message: parts.next().unwrap_or_default().to_owned(),
        ..CronTrigger::default()
    }
}

/// The schedule's own, and what a schedule says of itself.
fn variables(due: &Due) -> Vec<Variable> {
    let said = |key: &str, value: String| Variable { key: key.into(), value, encrypted: false };
    let event = [
        said("EVENT_MESSAGE", due.cron.message.clone()),
        said("EVENT_TIMESTAMP", crate::seams::rfc3339(due.tick_ms)),
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

/// The latest tick in (since, now].
fn latest(cron: &CronTrigger, since_ms: i64, now_ms: i64) -> Option<i64> {
    let schedule = Schedule::parse(&cron.expression, Dialect::Triggers).ok()?;
    let zone = cron.time_zone.as_deref().map_or(Ok(TimeZone::UTC), TimeZone::get).ok()?;
    let now = Timestamp::from_millisecond(now_ms).ok()?;
    let mut at = Timestamp::from_millisecond(since_ms).ok()?;
    let mut found = None;
    for _ in 0..MISSED_MAX {
        at = schedule.next(at, &zone).filter(|tick| *tick <= now)?;
        found = Some(at);
        if schedule.next(at, &zone).is_none_or(|next| next > now) {
            break;
        }
    }
    found.map(Timestamp::as_millisecond)
}

/// What the Git trigger that it stands in for would build.
async fn commit(
    server: &Server,
    due: &Due,
    trigger: &GitTrigger,
    branch: &str,
) -> Result<Option<TriggerCommit>, StoreError> {
    let repo = trigger.repo.clone();
    if let Some(context) = trigger.context() {
        return match providers::commit(server, due.account, context, &repo, Some(branch)).await {
            Ok(commit) => Ok(Some(TriggerCommit { branch: branch.to_owned(), ..commit })),
            Err(error) if error.may_pass() => Err(StoreError::Unavailable { why: error.to_string() }),
            Err(error) => {
                tracing::warn!(%error, pipeline = due.row.name, "Cannot find the commit of a scheduled build; starting it without one.");
                Ok(None)
            }
        };
    }
    let (scope, branch) = (Scope::of(due.account), branch.to_owned());
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
    found.await
}

async fn fire(server: &Server, lead: &Lead, due: Due) -> Result<(), StoreError> {
    let wanted = due.cron.git_trigger_id.as_deref().zip(due.cron.branch.as_deref());
    let stands_for = wanted.and_then(|(id, branch)| {
        let triggers = &due.pipeline.spec.triggers;
        let trigger = triggers.iter().find(|trigger| trigger.id() == Some(id) || trigger.name == id)?;
        Some((trigger.clone(), branch.to_owned()))
    });
    let commit = match &stands_for {
        Some((trigger, branch)) => commit(server, &due, trigger, branch).await?,
        None => None,
    };
    let (inner, lead) = (server.clone(), lead.clone());
    server
        .store()
        .write(move |tx| {
            lead.checked(tx)?;
            let scope = Scope::of(due.account);
            if !cron::note_tick(tx, due.row.id, &due.cron.name, due.tick_ms)? {
                return Ok(());
            }
            let project = projects::by_name(tx, scope, project_of(&due.row.name))?;
            let trigger = stands_for.as_ref().map(|(trigger, _)| trigger);
            let name = trigger.map_or(&due.cron.name, |trigger| &trigger.name);
            let run = Run {
                project: project.as_ref(),
                trigger,
                commit: commit.map(|commit| TriggerCommit {
                    trigger_name: name.clone(),
                    event: "cron".into(),
                    ..commit
                }),
                trigger_variables: variables(&due),
                initiator: Some(Initiator {
                    kind: "schedule".into(),
                    name: schedule_name(&due.cron).to_owned(),
                    by: None,
                }),
                annotations: [("cron".to_owned(), due.cron.message.clone().into())].into(),
                ..Run::default()
            };
            match Order::new(&due.pipeline, run) {
                Ok(order) => {
                    let cause = format!("cron:{}:{}:{}", due.row.id, due.cron.name, due.tick_ms);
                    queue::start(&inner, tx, scope, &due.row, &due.pipeline, &order, &cause)?;
                }
                Err(error) => {
                    tracing::warn!(pipeline = due.row.name, %error, "A schedule fired for a pipeline that cannot run.")
                }
            }
            Ok(())
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_missed_ticks_the_latest_counts_and_none_before_its_time() {
        let cron = CronTrigger { expression: "*/10 * * * *".into(), ..CronTrigger::default() };
        let ms = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        let since = ms("2026-01-01T00:00:00Z");
        assert_eq!(latest(&cron, since, ms("2026-01-01T00:09:59Z")), None);
        assert_eq!(latest(&cron, since, ms("2026-01-01T00:10:00Z")), Some(ms("2026-01-01T00:10:00Z")));
        assert_eq!(latest(&cron, since, ms("2026-01-02T07:35:00Z")), Some(ms("2026-01-02T07:30:00Z")));
        let berlin =
            CronTrigger { expression: "0 9 * * *".into(), time_zone: Some("Europe/Berlin".into()), ..cron };
        assert_eq!(latest(&berlin, since, ms("2026-01-01T08:00:00Z")), Some(ms("2026-01-01T08:00:00Z")));
    }
}
