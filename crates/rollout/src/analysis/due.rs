//! Which metrics are measured now.

use jiff::{SignedDuration, Timestamp};
use slipway_crd::analysis::{AnalysisRun, Measurement, Metric, MetricResult};

use super::{ERROR, is_completed, number};

/// After an error it is tried again so soon, whatever the interval.
pub(super) const AFTER_ERROR: i64 = 10;

/// A measurement to be taken, or one to be ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its place in the run.
    pub at: usize,
    /// What is under way; `None`: a new one.
    pub under_way: Option<Measurement>,
    /// The run is to end: it is not waited for.
    pub terminate: bool,
}

pub(super) fn result_of<'a>(run: &'a AnalysisRun, metric: &str) -> Option<&'a MetricResult> {
    run.status.metric_results.iter().find(|result| result.name == metric)
}

/// Somebody ends the run, or a metric decided it.
pub(super) fn is_terminating(run: &AnalysisRun) -> bool {
    let decided = |result: &MetricResult| {
        !result.dry_run && matches!(result.phase.as_str(), super::ERROR | super::FAILED | super::INCONCLUSIVE)
    };
    run.spec.terminate || run.status.metric_results.iter().any(decided)
}

pub(super) fn seconds(text: &str) -> Option<i64> {
    slipway_dialect::duration::parse_or_seconds(text).map(|ms| ms / 1_000)
}

/// How often a metric is measured; `None`: until the run is ended.
pub(super) fn count(metric: &Metric) -> Option<i64> {
    number(metric.count.as_ref())
        .filter(|count| *count > 0)
        .or_else(|| metric.interval.is_empty().then_some(1))
}

/// When a metric is due; `None`: not at all. `metrics` have their arguments put in.
pub(super) fn next(run: &AnalysisRun, metric: &Metric, now: Timestamp) -> Option<Timestamp> {
    let result = result_of(run, &metric.name);
    if result.is_some_and(|result| is_completed(&result.phase)) {
        return None;
    }
    let terminating = is_terminating(run);
    let Some(last) = result.and_then(|result| result.measurements.last()) else {
        if terminating {
            return None;
        }
        let delay = seconds(&metric.initial_delay).unwrap_or(0);
        let started =
            run.status.started_at.as_deref().and_then(|text| text.parse::<Timestamp>().ok()).unwrap_or(now);
        return started.checked_add(SignedDuration::from_secs(delay)).ok();
    };
    let Some(finished) = last.finished_at.as_deref().and_then(|text| text.parse::<Timestamp>().ok()) else {
        let resume = last.resume_at.as_deref().and_then(|text| text.parse().ok());
        return Some(if terminating { now } else { resume.unwrap_or(now) });
    };
    let enough = count(metric).zip(result).is_some_and(|(count, result)| result.count >= count);
    if terminating || enough {
        return None;
    }
    let pause = if last.phase == ERROR || metric.interval.is_empty() {
        AFTER_ERROR
    } else {
        seconds(&metric.interval)?
    };
    finished.checked_add(SignedDuration::from_secs(pause)).ok()
}

/// The measurements that are due. `metrics`: those of the run, with their arguments put in.
pub fn due(run: &AnalysisRun, metrics: &[Metric], now: Timestamp) -> Vec<Task> {
    let terminate = is_terminating(run);
    let tasks =
        metrics.iter().enumerate().filter(|(_, metric)| next(run, metric, now).is_some_and(|at| at <= now));
    tasks
        .map(|(at, metric)| {
            let last = result_of(run, &metric.name).and_then(|result| result.measurements.last());
            Task { at, under_way: last.filter(|last| last.finished_at.is_none()).cloned(), terminate }
        })
        .collect()
}
