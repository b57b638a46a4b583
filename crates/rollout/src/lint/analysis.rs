//! Analysis templates, runs and experiments by themselves.

use std::collections::HashSet;

use serde_json::Value;
use slipway_crd::analysis::{AnalysisRunSpec, AnalysisTemplateSpec, Argument, ExperimentSpec, Metric};
use slipway_crd::rollout::{DryRun, MeasurementRetention};
use slipway_dialect::selector::Selector;

use super::{Wrongs, canary::go_duration, rollout};

const PROVIDERS: [&str; 12] = [
    "prometheus",
    "web",
    "job",
    "datadog",
    "newRelic",
    "wavefront",
    "cloudWatch",
    "graphite",
    "influxdb",
    "skywalking",
    "kayenta",
    "plugin",
];

pub(super) fn check_template(spec: &AnalysisTemplateSpec, wrongs: &mut Wrongs<'_>) {
    if spec.metrics.is_empty() && spec.templates.is_empty() {
        wrongs.add("metrics", "at least one metric, or a template that has one, is needed");
    }
    metrics(&spec.metrics, wrongs);
    arguments(&spec.args, false, wrongs);
    // Metrics of other templates are not in this text.
    if spec.templates.is_empty() {
        named(&spec.metrics, &spec.dry_run, &spec.measurement_retention, wrongs);
    }
    for (at, template) in spec.templates.iter().enumerate() {
        if template.template_name.is_empty() {
            wrongs.add(&format!("templates.{at}"), "`templateName` is missing");
        }
    }
}

pub(super) fn check_run(spec: &AnalysisRunSpec, wrongs: &mut Wrongs<'_>) {
    check_metrics(&spec.metrics, wrongs);
    arguments(&spec.args, true, wrongs);
    named(&spec.metrics, &spec.dry_run, &spec.measurement_retention, wrongs);
}

/// The metrics of a run.
pub(super) fn check_metrics(all: &[Metric], wrongs: &mut Wrongs<'_>) {
    if all.is_empty() {
        wrongs.add("metrics", "at least one metric is needed");
    }
    metrics(all, wrongs);
}

pub(super) fn check_experiment(spec: &ExperimentSpec, wrongs: &mut Wrongs<'_>) {
    if spec.templates.is_empty() {
        wrongs.add("templates", "at least one template is needed");
    }
    if !spec.duration.is_empty() {
        go_duration(&spec.duration, "duration", wrongs);
    }
    let mut names = HashSet::new();
    for (at, template) in spec.templates.iter().enumerate() {
        let place = format!("templates.{at}");
        if !names.insert(template.name.as_str()) {
            wrongs.add(&format!("{place}.name"), format!("`{}` is there twice", template.name));
        }
        let selector = template.selector.as_ref().and_then(|selector| {
            let value = serde_json::to_value(selector).unwrap_or_default();
            Selector::parse(&value).map_err(|error| wrongs.add(&format!("{place}.selector"), error)).ok()
        });
        match &template.template {
            None => wrongs.add(&place, "`template` is missing: it says which pods are run"),
            Some(pods) => {
                rollout::check_template(
                    pods,
                    selector.as_ref(),
                    &mut wrongs.below(&format!("{place}.template")),
                );
            }
        }
    }
    for (at, analysis) in spec.analyses.iter().enumerate() {
        if analysis.template_name.is_empty() {
            wrongs.add(&format!("analyses.{at}"), "`templateName` is missing");
        }
    }
}

fn metrics(metrics: &[Metric], wrongs: &mut Wrongs<'_>) {
    let mut names = HashSet::new();
    for (at, metric) in metrics.iter().enumerate() {
        let mut wrongs = wrongs.below(&format!("metrics.{at}"));
        if metric.name.is_empty() {
            wrongs.add("", "`name` is missing");
        } else if !names.insert(metric.name.as_str()) {
            wrongs.add("name", format!("`{}` is there twice", metric.name));
        }
        provider(metric, &mut wrongs);
        limits(metric, &mut wrongs);
    }
}

fn provider(metric: &Metric, wrongs: &mut Wrongs<'_>) {
    let given: Vec<&String> = metric.provider.keys().collect();
    match given.as_slice() {
        [] => wrongs.add("provider", "no provider is given: it says who is asked"),
        [one] if !PROVIDERS.contains(&one.as_str()) => {
            wrongs.add(
                &format!("provider.{one}"),
                format!("unknown provider: one of {}", PROVIDERS.join(", ")),
            );
        }
        [one]
            if *one == "plugin"
                && metric.provider["plugin"].as_object().is_some_and(|all| all.len() != 1) =>
        {
            wrongs.add("provider.plugin", "exactly one plugin can be used for a metric");
        }
        [_] => {}
        _ => wrongs.add("provider", "only one provider can be used for a metric"),
    }
}

fn limits(metric: &Metric, wrongs: &mut Wrongs<'_>) {
    for (name, text) in [("interval", &metric.interval), ("initialDelay", &metric.initial_delay)] {
        if !text.is_empty() && !text.contains("{{") {
            go_duration(text, name, wrongs);
        }
    }
    let count = whole(metric.count.as_ref());
    if count.is_some_and(|count| count > 1) && metric.interval.is_empty() {
        wrongs.add("interval", "is missing: a metric that is measured more than once needs one");
    }
    for (name, value) in [
        ("count", &metric.count),
        ("inconclusiveLimit", &metric.inconclusive_limit),
        ("consecutiveErrorLimit", &metric.consecutive_error_limit),
        ("consecutiveSuccessLimit", &metric.consecutive_success_limit),
    ] {
        if let Some(value) = whole(value.as_ref()).filter(|value| *value < 0) {
            wrongs.add(name, format!("{value} is below zero"));
        }
    }
    let failures = whole(metric.failure_limit.as_ref()).unwrap_or(0);
    let successes = whole(metric.consecutive_success_limit.as_ref()).unwrap_or(0);
    if failures < -1 {
        wrongs.add("failureLimit", format!("{failures}: below zero only -1 has a meaning, never to fail"));
    }
    if failures == -1 && successes == 0 {
        wrongs.add("failureLimit", "-1 without `consecutiveSuccessLimit`: nothing could decide");
    }
    if let Some(count) = count.filter(|count| *count > 0) {
        let needed = failures.max(0) + successes.max(0);
        if count < needed {
            wrongs.add(
                "count",
                format!("{count} is less than failureLimit and consecutiveSuccessLimit together ({needed})"),
            );
        }
        if let Some(limit) = whole(metric.inconclusive_limit.as_ref()).filter(|limit| *limit > count) {
            wrongs.add("inconclusiveLimit", format!("{limit} is more than count ({count})"));
        }
    }
    for (name, value) in [("count", &metric.count), ("failureLimit", &metric.failure_limit)] {
        if let Some(Value::String(text)) = value
            && !text.contains("{{")
            && text.parse::<i64>().is_err()
        {
            wrongs.add(name, format!("`{text}` is not a whole number"));
        }
    }
}

/// A number, also as text; none where an argument stands in it.
fn whole(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn arguments(arguments: &[Argument], must_have_values: bool, wrongs: &mut Wrongs<'_>) {
    let mut names = HashSet::new();
    for (at, argument) in arguments.iter().enumerate() {
        let place = format!("args.{at}");
        if argument.name.is_empty() {
            wrongs.add(&place, "`name` is missing");
        } else if !names.insert(argument.name.as_str()) {
            wrongs.add(&format!("{place}.name"), format!("`{}` is there twice", argument.name));
        }
        match (&argument.value, &argument.value_from) {
            (Some(_), Some(_)) => {
                wrongs.add(&place, "only one of `value` and `valueFrom` can be used");
            }
            (None, None) if must_have_values => {
                wrongs.add(&place, format!("`{}` has no value", argument.name));
            }
            _ => {}
        }
    }
}

/// Settings by the name of a metric name one that is there; `*` and patterns are all of them.
fn named(metrics: &[Metric], dry_run: &[DryRun], kept: &[MeasurementRetention], wrongs: &mut Wrongs<'_>) {
    let lists = [
        ("dryRun", dry_run.iter().map(|one| one.metric_name.as_str()).collect::<Vec<_>>()),
        ("measurementRetention", kept.iter().map(|one| one.metric_name.as_str()).collect()),
    ];
    for (list, names) in lists {
        for (at, name) in names.iter().enumerate() {
            let is_pattern = name.contains(|letter: char| "*+?.[]()|^$".contains(letter));
            if !is_pattern && !metrics.iter().any(|metric| metric.name == *name) {
                wrongs.add(&format!("{list}.{at}.metricName"), format!("there is no metric `{name}`"));
            }
        }
    }
}
