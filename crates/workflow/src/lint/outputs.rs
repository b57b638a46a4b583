//! What a template leaves: parameters and artifacts, and where they come from.

use serde_json::Value;
use slipway_crd::workflow::{Parameter, Template, ValueFrom};
use slipway_yaml::finding::Wrongs;

use super::scope::Scope;
use super::{arguments, names, template};
use crate::tags;

/// `scope` knows what the steps of the template leave.
pub(super) fn check(one: &Template, value: &Value, scope: &Scope, wrongs: &mut Wrongs<'_>) {
    let outputs = &one.outputs;
    names::check(
        outputs.parameters.iter().map(|parameter| parameter.name.as_str()),
        names::of_value,
        &mut wrongs.below("parameters"),
    );
    names::check(
        outputs.artifacts.iter().map(|artifact| artifact.name.as_str()),
        names::of_value,
        &mut wrongs.below("artifacts"),
    );
    scope.check(value, wrongs);
    let children = template::has_children(one);
    for (at, artifact) in outputs.artifacts.iter().enumerate() {
        let mut here = wrongs.below(&format!("artifacts.{at}"));
        let files = ["container", "script", "containerSet"];
        if children && !artifact.path.is_empty() {
            here.add(
                "path",
                "steps and graphs have no file system; `from` names what one of their nodes leaves",
            );
        }
        if artifact.path.is_empty() && template::kinds(one).iter().any(|kind| files.contains(kind)) {
            here.add("", format!("`path` is missing: where `{}` is found", artifact.name));
        }
        check_global(&artifact.global_name, &mut here);
        arguments::check_location(artifact, &mut here);
    }
    for (at, parameter) in outputs.parameters.iter().enumerate() {
        let mut here = wrongs.below(&format!("parameters.{at}"));
        check_parameter(parameter, one, &mut here);
        check_global(&parameter.global_name, &mut here);
    }
}

fn check_global(name: &str, wrongs: &mut Wrongs<'_>) {
    if let Some(message) = Some(name).filter(|name| !tags::is_open(name)).and_then(names::of_value) {
        wrongs.add("globalName", message);
    }
}

fn check_parameter(parameter: &Parameter, one: &Template, wrongs: &mut Wrongs<'_>) {
    let from = match (&parameter.value, &parameter.value_from) {
        (Some(_), Some(_)) => return wrongs.add("", "`value` and `valueFrom` are both there; choose one"),
        (Some(_), None) => return,
        (None, None) => return wrongs.add("", "`valueFrom` is missing: where the value is found"),
        (None, Some(from)) => from,
    };
    let named = sources(from);
    match named.as_slice() {
        [] => wrongs.add("valueFrom", "where the value is found is missing: path, jqFilter, jsonPath, parameter, expression or supplied"),
        [_] => {}
        many => wrongs.add("valueFrom", format!("{} are both there; choose one", many.join(" and "))),
    }
    let wanted: &[&str] = match template::kinds(one).as_slice() {
        ["container" | "script" | "containerSet"] => &["path"],
        ["resource"] => &["jqFilter", "jsonPath"],
        ["steps" | "dag"] => &["parameter", "expression"],
        _ => return,
    };
    if let [only] = named.as_slice()
        && !wanted.contains(only)
    {
        wrongs.add(
            "valueFrom",
            format!("`{only}` cannot be found in a template like this; {} can", wanted.join(" or ")),
        );
    }
}

fn sources(from: &ValueFrom) -> Vec<&'static str> {
    [
        ("path", !from.path.is_empty()),
        ("jqFilter", !from.jq_filter.is_empty()),
        ("jsonPath", !from.json_path.is_empty()),
        ("parameter", !from.parameter.is_empty()),
        ("expression", !from.expression.is_empty()),
        ("event", !from.event.is_empty()),
        ("supplied", from.supplied.is_some()),
        ("configMapKeyRef", from.config_map_key_ref.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, there)| there.then_some(name))
    .collect()
}
