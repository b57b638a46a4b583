//! What is passed on: arguments of a workflow, a step, a task or a hook, and whether they are what a template asks for.

use serde_json::Value;
use slipway_crd::workflow::{Arguments, Artifact, Parameter, Template};
use slipway_yaml::finding::Wrongs;

use super::names;
use crate::tags;

pub(super) fn check_names(arguments: &Arguments, wrongs: &mut Wrongs<'_>) {
    names::check(
        arguments.parameters.iter().map(|parameter| parameter.name.as_str()),
        names::of_value,
        &mut wrongs.below("parameters"),
    );
    names::check(
        arguments.artifacts.iter().map(|artifact| artifact.name.as_str()),
        names::of_value,
        &mut wrongs.below("artifacts"),
    );
    for (at, parameter) in arguments.parameters.iter().enumerate() {
        check_enum(parameter, &mut wrongs.below(&format!("parameters.{at}")));
    }
    for (at, artifact) in arguments.artifacts.iter().enumerate() {
        check_location(artifact, &mut wrongs.below(&format!("artifacts.{at}")));
    }
}

/// Arguments of a step: each has a value. A workflow may leave them to whoever submits it.
pub(super) fn check_values(arguments: &Arguments, wrongs: &mut Wrongs<'_>) {
    for (at, parameter) in arguments.parameters.iter().enumerate() {
        if parameter.value.is_none() && parameter.value_from.is_none() && parameter.default.is_none() {
            wrongs.add(&format!("parameters.{at}"), format!("`{}` has no `value`", parameter.name));
        }
    }
    for (at, artifact) in arguments.artifacts.iter().enumerate() {
        let nowhere = artifact.from.is_empty() && artifact.from_expression.is_empty();
        if nowhere && artifact.locations().is_empty() && !artifact.optional {
            wrongs.add(
                &format!("artifacts.{at}"),
                format!(
                    "`{}` comes from nowhere: `from`, `fromExpression` or a location is missing",
                    artifact.name
                ),
            );
        }
        if !artifact.from.is_empty() && !artifact.from_expression.is_empty() {
            wrongs.add(&format!("artifacts.{at}"), "`from` and `fromExpression` are both there; choose one");
        }
    }
}

pub(super) fn check_enum(parameter: &Parameter, wrongs: &mut Wrongs<'_>) {
    let Some(allowed) = &parameter.r#enum else { return };
    if allowed.is_empty() {
        wrongs.add("enum", "no value is allowed; name at least one");
        return;
    }
    for (field, value) in [("value", &parameter.value), ("default", &parameter.default)] {
        let Some(value) = value.as_ref().map(plain).filter(|value| !tags::is_open(value)) else { continue };
        if !allowed.iter().any(|one| plain(one) == value) {
            let words: Vec<String> = allowed.iter().map(plain).collect();
            wrongs.add(field, format!("`{value}` is not among {}", words.join(", ")));
        }
    }
}

/// Numbers and truth values are texts here.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn check_location(artifact: &Artifact, wrongs: &mut Wrongs<'_>) {
    let locations = artifact.locations();
    if locations.len() > 1 {
        wrongs.add("", format!("{} are both there; an artifact has one location", locations.join(" and ")));
    }
    if artifact.git.as_ref().is_some_and(|git| git.repo.is_empty()) {
        wrongs.add("git", "`repo` is missing");
    }
    if let Some(hdfs) =
        artifact.hdfs.as_ref().filter(|hdfs| !hdfs.path.is_empty() || !hdfs.addresses.is_empty())
    {
        if hdfs.path.is_empty() {
            wrongs.add("hdfs", "`path` is missing");
        } else if !hdfs.path.starts_with('/') && !tags::is_open(&hdfs.path) {
            wrongs.add("hdfs.path", "the path begins with `/`");
        }
    }
    let strategy = artifact.artifact_gc.as_ref().map_or("", |gc| gc.strategy.as_str());
    check_word(
        strategy,
        &["OnWorkflowCompletion", "OnWorkflowDeletion", "Never"],
        &mut wrongs.below("artifactGC.strategy"),
    );
}

/// One of a few words, or nothing, or what is known later.
pub(super) fn check_word(word: &str, known: &[&str], wrongs: &mut Wrongs<'_>) {
    if !word.is_empty() && !tags::is_open(word) && !known.contains(&word) {
        wrongs.add("", format!("`{word}` is not one of {}", known.join(", ")));
    }
}

/// Whether a template gets what it asks for. `label` is how the template is called.
pub(super) fn check_given(template: &Template, label: &str, given: &Arguments, wrongs: &mut Wrongs<'_>) {
    for input in &template.inputs.parameters {
        let optional = input.default.is_some() || input.value.is_some() || input.value_from.is_some();
        let there = given.parameters.iter().any(|argument| argument.name == input.name);
        if !optional && !there {
            wrongs.add("", format!("parameter `{}` of template `{label}` is not given", input.name));
        }
    }
    for input in &template.inputs.artifacts {
        let there = given.artifacts.iter().any(|argument| argument.name == input.name);
        if !there && !input.optional && input.locations().is_empty() {
            wrongs.add("", format!("artifact `{}` of template `{label}` is not given", input.name));
        }
    }
}

/// Arguments that nobody reads.
pub(super) fn check_heard(template: &Template, label: &str, given: &Arguments, wrongs: &mut Wrongs<'_>) {
    for (at, argument) in given.parameters.iter().enumerate() {
        if !template.inputs.parameters.iter().any(|input| input.name == argument.name) {
            let message = format!("template `{label}` has no input parameter `{}`", argument.name);
            wrongs.warn(&format!("arguments.parameters.{at}"), message);
        }
    }
    for (at, argument) in given.artifacts.iter().enumerate() {
        if !template.inputs.artifacts.iter().any(|input| input.name == argument.name) {
            let message = format!("template `{label}` has no input artifact `{}`", argument.name);
            wrongs.warn(&format!("arguments.artifacts.{at}"), message);
        }
    }
}
