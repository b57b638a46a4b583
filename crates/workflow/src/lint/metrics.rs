//! What is counted: names and kinds as Prometheus wants them.

use slipway_crd::workflow::{Metrics, PrometheusMetric};
use slipway_yaml::finding::Wrongs;

use super::arguments::check_word;

pub(super) fn check(metrics: &Metrics, wrongs: &mut Wrongs<'_>) {
    for (at, metric) in metrics.prometheus.iter().enumerate() {
        check_one(metric, &mut wrongs.part(at));
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn check_one(metric: &PrometheusMetric, wrongs: &mut Wrongs<'_>) {
    if !is_name(&metric.name) {
        wrongs.add(
            "",
            format!("`{}` is no name of a metric: letters, digits and `_`, no digit first", metric.name),
        );
    }
    if metric.help.is_empty() {
        wrongs.add("", "`help` is missing: what is counted");
    }
    for (at, label) in metric.labels.iter().enumerate().filter(|(_, label)| !is_name(&label.key)) {
        wrongs.add(
            &format!("labels.{at}"),
            format!("`{}` is no name of a label: letters, digits and `_`", label.key),
        );
    }
    let kinds = usize::from(metric.gauge.is_some())
        + usize::from(metric.counter.is_some())
        + usize::from(metric.histogram.is_some());
    if kinds != 1 {
        wrongs.add("", "exactly one of `gauge`, `counter` and `histogram`");
    }
    let values = [
        ("gauge", metric.gauge.as_ref().map(|gauge| &gauge.value)),
        ("counter", metric.counter.as_ref().map(|counter| &counter.value)),
        ("histogram", metric.histogram.as_ref().map(|histogram| &histogram.value)),
    ];
    for (field, _) in values.iter().filter(|(_, value)| value.is_some_and(String::is_empty)) {
        wrongs.add(field, "`value` is missing");
    }
    if metric.histogram.as_ref().is_some_and(|histogram| histogram.buckets.is_empty()) {
        wrongs.add("histogram", "`buckets` is missing");
    }
    let Some(gauge) = &metric.gauge else { return };
    check_word(&gauge.operation, &["Set", "Add", "Sub"], &mut wrongs.below("gauge.operation"));
    if gauge.realtime == Some(true) {
        if !gauge.value.contains("duration") {
            wrongs.add(
                "gauge.value",
                "a gauge with `realtime` shows a duration: `{{duration}}` or `{{workflow.duration}}`",
            );
        }
        if !metric.when.is_empty() && metric.when.contains("status") {
            wrongs.warn("when", "a gauge with `realtime` is shown while it runs: there is no status yet");
        }
    }
}
