//! AnalysisRuns with what they measured.

use slipway_crd::analysis::{AnalysisRun, MetricResult};

use crate::names;
use crate::plan::Observed;

/// Older ones are of versions that nobody follows any more.
const RUNS_MAX: usize = 12;
/// Of one metric, the newest; a plot has no more points than that.
const MEASUREMENTS_MAX: usize = 60;
const TEXT_CHARS_MAX: usize = 400;

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub name: String,
    /// `Step`, `Background`, `PrePromotion`, `PostPromotion` or nothing.
    pub kind: String,
    /// Which step it is of, from 0.
    pub step: Option<i64>,
    pub revision: String,
    /// Empty until it began.
    pub phase: String,
    pub message: String,
    pub started_at: String,
    pub completed_at: String,
    pub metrics: Vec<Metric>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    pub name: String,
    /// `prometheus`, `web`, …
    pub provider: String,
    pub phase: String,
    pub message: String,
    pub success_condition: String,
    pub failure_condition: String,
    pub dry_run: bool,
    pub successful: i64,
    pub failed: i64,
    pub inconclusive: i64,
    pub error: i64,
    /// Oldest first.
    pub measurements: Vec<Measured>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub at: String,
    pub phase: String,
    /// As it was written down.
    pub value: String,
    /// The number in it, if it is one: `[0.97]` is 0.97.
    pub number: Option<f64>,
    pub message: String,
}

pub(super) fn of(observed: &Observed) -> Vec<Run> {
    let mut all: Vec<&AnalysisRun> = observed.runs.iter().collect();
    all.sort_by(|a, b| {
        let of = |run: &AnalysisRun| (run.metadata.creation_timestamp.clone(), run.metadata.name.clone());
        of(b).cmp(&of(a))
    });
    all.into_iter().take(RUNS_MAX).map(run).collect()
}

fn run(run: &AnalysisRun) -> Run {
    let label = |name: &str| run.metadata.labels.get(name).cloned().unwrap_or_default();
    let time = |at: &Option<String>| at.clone().unwrap_or_default();
    let results = &run.status.metric_results;
    let metrics = run.spec.metrics.iter().map(|metric| {
        let result = results.iter().find(|result| result.name == metric.name).cloned().unwrap_or_default();
        Metric {
            name: metric.name.clone(),
            provider: metric.provider.keys().next().cloned().unwrap_or_default(),
            success_condition: metric.success_condition.clone(),
            failure_condition: metric.failure_condition.clone(),
            measurements: measured(&result),
            message: short(&result.message),
            phase: result.phase,
            dry_run: result.dry_run,
            successful: result.successful,
            failed: result.failed,
            inconclusive: result.inconclusive,
            error: result.error,
        }
    });
    Run {
        name: run.metadata.name.clone(),
        kind: label(names::RUN_TYPE),
        step: label(names::STEP_INDEX).parse().ok(),
        revision: run.metadata.annotation(names::REVISION).unwrap_or_default().to_owned(),
        phase: run.status.phase.clone(),
        message: short(&run.status.message),
        started_at: time(&run.status.started_at),
        completed_at: time(&run.status.completed_at),
        metrics: metrics.collect(),
    }
}

fn measured(result: &MetricResult) -> Vec<Measured> {
    let from = result.measurements.len().saturating_sub(MEASUREMENTS_MAX);
    result.measurements[from..]
        .iter()
        .map(|one| Measured {
            at: one.finished_at.clone().or_else(|| one.started_at.clone()).unwrap_or_default(),
            phase: one.phase.clone(),
            value: short(&one.value),
            number: number(&one.value),
            message: short(&one.message),
        })
        .collect()
}

/// `0.97`, `"0.97"` and `[0.97]` are numbers to whoever draws them; several values are none.
fn number(text: &str) -> Option<f64> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']').trim_matches('"').trim();
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_drawn_is_a_number() {
        for (text, expected) in [
            ("0.97", Some(0.97)),
            ("[0.97]", Some(0.97)),
            ("\"3\"", Some(3.0)),
            ("[1,2]", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }
}
