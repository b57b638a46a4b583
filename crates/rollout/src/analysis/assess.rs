//! What becomes of a run after its measurements.

use jiff::{SignedDuration, Timestamp};
use slipway_crd::analysis::{AnalysisRun, AnalysisRunStatus, Measurement, Metric, MetricResult, RunSummary};

use super::due::{count, is_terminating, next};
use super::{ERROR, FAILED, INCONCLUSIVE, PENDING, RUNNING, SUCCESSFUL, is_completed, is_worse, number};
use crate::plan::Event;

/// Kept of each metric, when nothing else is said.
const MEASUREMENTS_KEPT: usize = 10;
const ERRORS_IN_A_ROW: i64 = 4;

/// The run after its measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessed {
    pub status: AnalysisRunStatus,
    pub events: Vec<Event>,
    /// The next measurement is due then.
    pub requeue_at: Option<Timestamp>,
    /// Its time to live has passed.
    pub delete: bool,
}

fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A name of a metric, or a pattern for several; one that cannot be read is for none.
fn fits(given: &str, metric: &str) -> bool {
    let is_pattern = given.contains(|letter: char| "*+?.[]()|^$\\".contains(letter));
    given == metric
        || given == "*"
        || is_pattern && regex::Regex::new(given).is_ok_and(|pattern| pattern.is_match(metric))
}

/// True for a metric that is measured and never decides.
fn is_dry(run: &AnalysisRun, metric: &str) -> bool {
    run.spec.dry_run.iter().any(|dry| fits(&dry.metric_name, metric))
}

/// `taken`: what was measured, by the metric's place; a measurement that goes on an unfinished one takes its place.
pub fn assess(
    run: &AnalysisRun,
    metrics: &[Metric],
    taken: Vec<(usize, Measurement)>,
    now: Timestamp,
) -> Assessed {
    let mut run = run.clone();
    let mut events = Vec::new();
    if is_completed(&run.status.phase) {
        let delete = is_too_old(&run, now);
        return Assessed { requeue_at: end_of_life(&run), status: run.status, events, delete };
    }
    if run.status.started_at.is_none() {
        run.status.started_at = Some(written(now));
    }
    for (at, measurement) in taken {
        let Some(metric) = metrics.get(at) else { continue };
        note(&mut run, metric, measurement, now);
    }
    let (phase, message) = conclude(&mut run, metrics, &mut events);
    if phase != run.status.phase {
        run.status.phase = phase.to_owned();
        run.status.message = message;
        if is_completed(phase) {
            run.status.completed_at = Some(written(now));
            let reason = match phase {
                SUCCESSFUL => "AnalysisRunSuccessful",
                FAILED => "AnalysisRunFailed",
                ERROR => "AnalysisRunError",
                _ => "AnalysisRunInconclusive",
            };
            let warning = matches!(phase, ERROR | FAILED);
            events.push(Event { reason, warning, message: format!("Analysis Completed. Result: {phase}") });
        }
    }
    trim(&mut run);
    let requeue_at = if is_completed(phase) {
        end_of_life(&run)
    } else if is_terminating(&run) {
        // What is under way is ended at once.
        Some(now)
    } else {
        // What is under way and does not say when to look is heard of.
        let is_heard_of = |metric: &&Metric| {
            let result = run.status.metric_results.iter().find(|result| result.name == metric.name);
            let last = result.and_then(|result| result.measurements.last());
            last.is_some_and(|last| last.finished_at.is_none() && last.resume_at.is_none())
        };
        metrics
            .iter()
            .filter(|metric| !is_heard_of(metric))
            .filter_map(|metric| next(&run, metric, now))
            .min()
    };
    Assessed { status: run.status, events, requeue_at, delete: false }
}

fn note(run: &mut AnalysisRun, metric: &Metric, mut measurement: Measurement, now: Timestamp) {
    let dry_run = is_dry(run, &metric.name);
    let at =
        run.status.metric_results.iter().position(|result| result.name == metric.name).unwrap_or_else(|| {
            let (name, phase) = (metric.name.clone(), RUNNING.to_owned());
            run.status.metric_results.push(MetricResult { name, phase, dry_run, ..MetricResult::default() });
            run.status.metric_results.len() - 1
        });
    let result = &mut run.status.metric_results[at];
    if is_completed(&measurement.phase) {
        measurement.finished_at.get_or_insert_with(|| written(now));
        measurement.resume_at = None;
        let counted = measurement.phase != ERROR;
        result.count += i64::from(counted);
        result.consecutive_error = if counted { 0 } else { result.consecutive_error + 1 };
        result.consecutive_success =
            if measurement.phase == SUCCESSFUL { result.consecutive_success + 1 } else { 0 };
        match measurement.phase.as_str() {
            SUCCESSFUL => result.successful += 1,
            FAILED => result.failed += 1,
            INCONCLUSIVE => result.inconclusive += 1,
            _ => result.error += 1,
        }
    }
    if result.measurements.last().is_some_and(|last| last.finished_at.is_none()) {
        result.measurements.pop();
    }
    result.measurements.push(measurement);
}

/// The limit that a metric passed, if it did.
fn beyond_limits(metric: &Metric, result: &MetricResult) -> Option<(&'static str, String)> {
    let limit = |value| number(value).unwrap_or(0);
    let errors = number(metric.consecutive_error_limit.as_ref()).unwrap_or(ERRORS_IN_A_ROW);
    if result.consecutive_error > errors {
        let message =
            format!("consecutiveErrors ({}) > consecutiveErrorLimit ({errors})", result.consecutive_error);
        return Some((ERROR, message));
    }
    let inconclusive = limit(metric.inconclusive_limit.as_ref());
    if result.inconclusive > inconclusive {
        let message = format!("inconclusive ({}) > inconclusiveLimit ({inconclusive})", result.inconclusive);
        return Some((INCONCLUSIVE, message));
    }
    let failed = limit(metric.failure_limit.as_ref());
    // Below zero: failures do not count.
    (failed >= 0 && result.failed > failed)
        .then(|| (FAILED, format!("failed ({}) > failureLimit ({failed})", result.failed)))
}

fn phase_of(metric: &Metric, result: &MetricResult, terminating: bool) -> &'static str {
    let known = [SUCCESSFUL, FAILED, ERROR, INCONCLUSIVE].into_iter().find(|phase| *phase == result.phase);
    if let Some(known) = known {
        return known;
    }
    let Some(last) = result.measurements.last() else {
        return if terminating { SUCCESSFUL } else { PENDING };
    };
    if !is_completed(&last.phase) {
        return RUNNING;
    }
    if let Some((phase, _)) = beyond_limits(metric, result) {
        return phase;
    }
    let in_a_row = number(metric.consecutive_success_limit.as_ref()).filter(|limit| *limit > 0);
    if in_a_row.is_some_and(|limit| result.consecutive_success >= limit) {
        return SUCCESSFUL;
    }
    if count(metric).is_some_and(|count| result.count >= count) {
        let failures_count = number(metric.failure_limit.as_ref()).is_none_or(|limit| limit >= 0);
        return match (in_a_row, failures_count) {
            (Some(_), true) => INCONCLUSIVE,
            (Some(_), false) => FAILED,
            (None, _) => SUCCESSFUL,
        };
    }
    if terminating { SUCCESSFUL } else { RUNNING }
}

fn conclude(run: &mut AnalysisRun, metrics: &[Metric], events: &mut Vec<Event>) -> (&'static str, String) {
    let terminating = is_terminating(run);
    let mut message = if run.spec.terminate { "Run Terminated".to_owned() } else { String::new() };
    let (mut worst, mut all_completed): (Option<&'static str>, bool) = (None, true);
    let (mut real, mut dry) = (RunSummary::default(), RunSummary::default());
    for metric in metrics {
        let is_dry = is_dry(run, &metric.name);
        let summary = if is_dry { &mut dry } else { &mut real };
        summary.count += 1;
        let Some(result) = run.status.metric_results.iter_mut().find(|result| result.name == metric.name)
        else {
            all_completed = false;
            continue;
        };
        let phase = phase_of(metric, result, terminating);
        if result.phase != phase {
            if is_completed(phase) {
                let reason = match phase {
                    SUCCESSFUL => "MetricSuccessful",
                    FAILED => "MetricFailed",
                    ERROR => "MetricError",
                    _ => "MetricInconclusive",
                };
                let sentence = format!("Metric '{}' Completed. Result: {phase}", metric.name);
                events.push(Event { reason, warning: matches!(phase, ERROR | FAILED), message: sentence });
            }
            result.message = result.measurements.last().map(|last| last.message.clone()).unwrap_or_default();
            result.phase = phase.to_owned();
        }
        if !is_completed(phase) {
            all_completed = false;
            continue;
        }
        match phase {
            FAILED => summary.failed += 1,
            ERROR => summary.error += 1,
            INCONCLUSIVE => summary.inconclusive += 1,
            _ => summary.successful += 1,
        }
        let why = beyond_limits(metric, result).map(|(_, why)| why);
        if is_dry {
            worst.get_or_insert(SUCCESSFUL);
            if let Some(why) = why {
                result.message = format!("Metric assessed {phase} due to {why}");
            }
        } else if worst.is_none_or(|worst| is_worse(phase, worst)) {
            worst = Some(phase);
            if let Some(why) = why {
                message = format!("Metric \"{}\" assessed {phase} due to {why}", metric.name);
                if !result.message.is_empty() {
                    message += &format!(": \"Error Message: {}\"", result.message);
                }
            }
        }
    }
    (run.status.run_summary, run.status.dry_run_summary) = (Some(real), Some(dry));
    match worst {
        worst if is_terminating(run) => {
            let in_flight = run
                .status
                .metric_results
                .iter()
                .any(|result| result.phase == RUNNING && !result.measurements.is_empty());
            match worst {
                // What is under way is ended first, whatever ends the run: nobody looks at its Job afterwards.
                _ if in_flight => (RUNNING, String::new()),
                worst => (worst.unwrap_or(SUCCESSFUL), message),
            }
        }
        Some(worst) if all_completed => (worst, message),
        _ => (RUNNING, String::new()),
    }
}

fn trim(run: &mut AnalysisRun) {
    let kept = |name: &str| {
        let asked = run.spec.measurement_retention.iter().find(|one| fits(&one.metric_name, name));
        asked
            .and_then(|one| usize::try_from(one.limit).ok())
            .filter(|limit| *limit > 0)
            .unwrap_or(MEASUREMENTS_KEPT)
    };
    for result in &mut run.status.metric_results {
        let surplus = result.measurements.len().saturating_sub(kept(&result.name));
        result.measurements.drain(..surplus);
    }
}

fn end_of_life(run: &AnalysisRun) -> Option<Timestamp> {
    let ttl = run.spec.ttl_strategy.as_ref()?;
    let own = match run.status.phase.as_str() {
        SUCCESSFUL => ttl.seconds_after_success,
        FAILED => ttl.seconds_after_failure,
        _ => None,
    };
    let completed: Timestamp = run.status.completed_at.as_deref()?.parse().ok()?;
    completed.checked_add(SignedDuration::from_secs(own.or(ttl.seconds_after_completion)?)).ok()
}

fn is_too_old(run: &AnalysisRun, now: Timestamp) -> bool {
    end_of_life(run).is_some_and(|end| end < now)
}
