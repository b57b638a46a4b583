//! A schedule: when a workflow runs by itself.

use slipway_crd::workflow::CronWorkflowSpec;
use slipway_dialect::cron;
use slipway_yaml::finding::Wrongs;

use super::arguments::check_word;

pub(super) fn check(spec: &CronWorkflowSpec, wrongs: &mut Wrongs<'_>) {
    let many = spec.schedules.iter().enumerate().map(|(at, text)| (format!("schedules.{at}"), text));
    let old = Some(("schedule".to_owned(), &spec.schedule)).filter(|(_, text)| !text.is_empty());
    let all: Vec<_> = many.chain(old).collect();
    if all.is_empty() {
        wrongs.add("", "`schedules` is missing: when it runs");
    }
    if !spec.schedule.is_empty() && !spec.schedules.is_empty() {
        wrongs.add(
            "schedule",
            "`schedule` and `schedules` are both there; write all of them below `schedules`",
        );
    }
    for (path, text) in all {
        if let Err(error) = read(text) {
            wrongs.add(&path, format!("`{text}` is no schedule: {error}"));
        }
    }
    check_word(
        &spec.concurrency_policy,
        &["Allow", "Forbid", "Replace"],
        &mut wrongs.below("concurrencyPolicy"),
    );
    if !spec.timezone.is_empty() && jiff::tz::TimeZone::get(&spec.timezone).is_err() {
        wrongs.add(
            "timezone",
            format!("`{}` is no time zone; they are called like Europe/Berlin", spec.timezone),
        );
    }
    for (path, number) in [
        ("startingDeadlineSeconds", spec.starting_deadline_seconds),
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ] {
        if number.is_some_and(|number| number < 0) {
            wrongs.add(path, "a number of 0 or more");
        }
    }
}

/// `CRON_TZ=Zone` before it and `@every 1h30m` are known besides.
fn read(text: &str) -> Result<(), String> {
    let text = text.trim();
    let (zone, times) = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
        Some(rest) => rest.split_once(char::is_whitespace).ok_or("there is nothing behind its time zone")?,
        None => ("", text),
    };
    if !zone.is_empty() && jiff::tz::TimeZone::get(zone).is_err() {
        return Err(format!("`{zone}` is no time zone"));
    }
    match crate::cron::every(times)? {
        Some(_) => Ok(()),
        None => cron::Schedule::parse(times, cron::Dialect::Standard).map(|_| ()),
    }
}
