//! Schedules that are due. One process at a time looks; that a schedule was due is written once, with a fact, and what follows
//! from the fact is the business of [`crate::ci::triggers`].
//!
//! Moments that passed while nobody looked (the platform was off) are followed up once: the latest of them starts one
//! build, the others none. A schedule's first moment is the first after it was saved.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use slipway_api::pipeline::{CronTrigger, Pipeline};
use slipway_dialect::cron::{Dialect, Schedule};
use slipway_model::{AccountId, Fact, PipelineId};
use slipway_store::{StoreError, cron, facts, pipelines, trigger_events};

use crate::background::driver::{Outcome, Round, Turn};
use crate::background::lease::Lead;
use crate::ci::trigger_events::CRON;
use crate::ctx::Server;

pub(crate) const NAME: &str = "schedules";

/// More ticks than this were missed: enough to know that only the latest counts.
const MISSED_MAX: usize = 10_000;

pub(crate) async fn round(turn: &Turn) -> Outcome {
    look(&turn.server, turn.lead()).await?;
    Ok(Round::Done)
}

/// A schedule that is due.
struct Due {
    account: AccountId,
    pipeline: PipelineId,
    schedule: String,
    due_ms: i64,
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
                if let Some(due_ms) = latest(&cron, since, now_ms) {
                    due.push(Due { account, pipeline: row.id, schedule: cron.name, due_ms });
                }
            }
        }
        for (account, link) in trigger_events::links_beginning(tx, CRON)? {
            let cron = of_event(&link.uri);
            // Noted when it was connected.
            let since = last.get(&(link.pipeline, link.uri)).copied().unwrap_or(now_ms);
            if let Some(due_ms) = latest(&cron, since, now_ms) {
                due.push(Due { account, pipeline: link.pipeline, schedule: cron.name, due_ms });
            }
        }
        Ok(due)
    });
    let due = found.await?;
    if due.is_empty() {
        return Ok(());
    }
    let lead = lead.clone();
    server
        .store()
        .write(move |tx| {
            lead.checked(tx)?;
            for Due { account, pipeline, schedule, due_ms } in due {
                if cron::note_tick(tx, pipeline, &schedule, due_ms)? {
                    facts::note(
                        tx,
                        account,
                        &Fact::Scheduled { account, pipeline, schedule, due_ms },
                        now_ms,
                    )?;
                }
            }
            Ok(())
        })
        .await
}

/// The schedule of this name as the pipeline has it now, unless it was removed or disabled.
pub(crate) fn named(pipeline: &Pipeline, name: &str) -> Option<CronTrigger> {
    if name.starts_with(CRON) {
        return Some(of_event(name));
    }
    let all = pipeline.spec.settings().unwrap_or_default().cron_triggers.unwrap_or_default();
    all.into_iter().find(|cron| cron.name == name && !cron.disabled)
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
