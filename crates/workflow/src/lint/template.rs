//! One template: exactly one thing that it does, what it is given, and the limits of its time.

use serde_json::Value;
use slipway_crd::workflow::{RetryStrategy, Template};
use slipway_dialect::duration;
use slipway_yaml::finding::Wrongs;

use super::scope::Scope;
use super::spec::{Around, check_locks};
use super::{arguments, dag, leaf, metrics, names, outputs, steps};
use crate::tags;

/// `label` is for texts: what kind of template it is.
pub(super) fn kinds(template: &Template) -> Vec<&'static str> {
    [
        ("container", template.container.is_some()),
        ("script", template.script.is_some()),
        ("containerSet", template.container_set.is_some()),
        ("resource", template.resource.is_some()),
        ("suspend", template.suspend.is_some()),
        ("steps", template.steps.is_some()),
        ("dag", template.dag.is_some()),
        ("http", template.http.is_some()),
        ("data", template.data.is_some()),
        ("plugin", template.plugin.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, there)| there.then_some(name))
    .collect()
}

/// It has steps or tasks, and no pod of its own.
pub(super) fn has_children(template: &Template) -> bool {
    template.steps.is_some() || template.dag.is_some()
}

pub(super) fn check(template: &Template, value: &Value, around: &Around<'_>, wrongs: &mut Wrongs<'_>) {
    let kinds = kinds(template);
    match kinds.as_slice() {
        [] => wrongs.add(
            "",
            "what it does is missing: container, script, containerSet, resource, suspend, steps, dag, http, data or plugin",
        ),
        [_] => {}
        many => wrongs.add("", format!("{} are both there; a template does one thing", many.join(" and "))),
    }
    check_inputs(template, wrongs);
    let mut scope = own_scope(template, around);
    check_limits(template, wrongs);
    if let Some(retry) = template.retry_strategy.as_ref() {
        check_retry(retry, &mut wrongs.below("retryStrategy"));
    }
    if let Some(synchronization) = &template.synchronization {
        check_locks(synchronization, &mut wrongs.below("synchronization"));
    }
    if let Some(memoize) = &template.memoize {
        if memoize.cache.as_ref().and_then(|cache| cache.config_map.as_ref()).is_none() {
            wrongs.add("memoize", "`cache.configMap` is missing: where results are kept");
        }
        if !memoize.max_age.is_empty() {
            check_duration(&memoize.max_age, &mut wrongs.below("memoize.maxAge"));
        }
    }
    if let Some(location) = &template.archive_location {
        arguments::check_location(location, &mut wrongs.below("archiveLocation"));
    }
    if let Some(own) = &template.metrics {
        metrics::check(own, &mut wrongs.below("metrics.prometheus"));
    }
    if template.steps.is_some() {
        steps::check(template, value, around, &mut scope, wrongs);
    } else if let Some(graph) = &template.dag {
        dag::check(graph, &value["dag"], around, &mut scope, &mut wrongs.below("dag"));
    } else {
        leaf::check(template, value, around.spec, &scope, wrongs);
    }
    outputs::check(template, &value["outputs"], &scope, &mut wrongs.below("outputs"));
}

fn check_inputs(template: &Template, wrongs: &mut Wrongs<'_>) {
    let inputs = &template.inputs;
    names::check(
        inputs.parameters.iter().map(|one| one.name.as_str()),
        names::of_value,
        &mut wrongs.below("inputs.parameters"),
    );
    names::check(
        inputs.artifacts.iter().map(|one| one.name.as_str()),
        names::of_value,
        &mut wrongs.below("inputs.artifacts"),
    );
    for (at, parameter) in inputs.parameters.iter().enumerate() {
        arguments::check_enum(parameter, &mut wrongs.below(&format!("inputs.parameters.{at}")));
    }
    // A plugin may do without files; a resource reads its manifest from one.
    let wants_path = ["container", "script", "containerSet", "data"];
    for (at, artifact) in inputs.artifacts.iter().enumerate() {
        let mut here = wrongs.below(&format!("inputs.artifacts.{at}"));
        if has_children(template) && !artifact.path.is_empty() {
            here.add(
                "path",
                "steps and graphs have no file system; `path` belongs to the template that reads the file",
            );
        }
        if artifact.path.is_empty() && kinds(template).iter().any(|kind| wants_path.contains(kind)) {
            here.add("", format!("`path` is missing: where `{}` is put", artifact.name));
        }
        if !artifact.from.is_empty() || !artifact.from_expression.is_empty() {
            here.add(
                "from",
                "an input comes from the arguments of whoever calls the template; `from` belongs there",
            );
        }
        arguments::check_location(artifact, &mut here);
    }
}

/// What `{{…}}` may name in the template, before any of its steps.
fn own_scope(template: &Template, around: &Around<'_>) -> Scope {
    let mut scope = around.globals.clone();
    if !template.inputs.parameters.is_empty() {
        scope.put("inputs.parameters");
    }
    for parameter in &template.inputs.parameters {
        scope.put(format!("inputs.parameters.{}", parameter.name));
    }
    for artifact in &template.inputs.artifacts {
        scope.put(format!("inputs.artifacts.{}", artifact.name));
        if !has_children(template) {
            scope.put(format!("inputs.artifacts.{}.path", artifact.name));
        }
    }
    super::scope::SELF.iter().for_each(|name| scope.put(*name));
    scope
}

fn check_limits(template: &Template, wrongs: &mut Wrongs<'_>) {
    let children = has_children(template);
    for (field, text) in [("timeout", &template.timeout), ("pendingTimeout", &template.pending_timeout)] {
        if text.is_empty() {
            continue;
        }
        if children {
            wrongs.add(
                field,
                "only a template that runs something itself has it; give it to those that the steps name",
            );
        } else if text.parse::<i64>().is_ok() {
            wrongs.add(field, format!("`{text}` has no unit: `{text}s` are seconds"));
        } else {
            check_duration(text, &mut wrongs.below(field));
        }
    }
    match &template.active_deadline_seconds {
        Some(_) if children => {
            wrongs.add(
                "activeDeadlineSeconds",
                "only a template that runs something itself has it; give it to those that the steps name",
            );
        }
        Some(Value::String(text)) if tags::is_open(text) => {}
        Some(number) if arguments::plain(number).parse::<i64>().is_ok_and(|number| number > 0) => {}
        Some(_) => wrongs.add("activeDeadlineSeconds", "a whole number above 0, or `{{…}}`"),
        None => {}
    }
    if template.parallelism.is_some() && !children {
        wrongs.add(
            "parallelism",
            "only steps and graphs have it; `spec.parallelism` is for all pods of a workflow",
        );
    }
    if template.parallelism.is_some_and(|number| number < 1) {
        wrongs.add("parallelism", "at least 1");
    }
}

pub(super) fn check_retry(retry: &RetryStrategy, wrongs: &mut Wrongs<'_>) {
    let known = ["Always", "OnFailure", "OnError", "OnTransientError"];
    arguments::check_word(&retry.retry_policy, &known, &mut wrongs.below("retryPolicy"));
    let whole = |value: &Value| {
        let text = arguments::plain(value);
        tags::is_open(&text) || text.parse::<i64>().is_ok_and(|number| number >= 0)
    };
    if retry.limit.as_ref().is_some_and(|limit| !whole(limit)) {
        wrongs.add("limit", "a whole number of 0 or more, or `{{…}}`");
    }
    let Some(backoff) = &retry.backoff else { return };
    let mut below = wrongs.below("backoff");
    if let Some(duration) = &backoff.duration {
        check_duration(&arguments::plain(duration), &mut below.below("duration"));
    }
    if backoff.factor.as_ref().is_some_and(|factor| !whole(factor)) {
        below.add("factor", "a whole number, or `{{…}}`");
    }
    for (field, text) in [("cap", &backoff.cap), ("maxDuration", &backoff.max_duration)] {
        if !text.is_empty() {
            check_duration(text, &mut below.below(field));
        }
    }
}

/// `90`, `90s`, `1h30m`, or what is known later.
pub(super) fn check_duration(text: &str, wrongs: &mut Wrongs<'_>) {
    if !tags::is_open(text) && duration::parse_or_seconds(text).is_none() {
        wrongs.add("", format!("`{text}` is no duration: 90s, 5m, 1h30m"));
    }
}
