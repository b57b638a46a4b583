//! `workflow.…`: what is known everywhere in a Workflow.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::workflow::{Parameter, Template, ValueFrom, WorkflowSpec, WorkflowStatus};

use super::{Library, Observed, cache, locks};
use crate::scope::{Scope, text_of};

/// ConfigMaps say what they are for: one that was made for something else is not read by whoever may write a Workflow.
pub(super) const MAP_TYPE: &str = "workflows.argoproj.io/configmap-type";

pub(super) fn of(observed: &Observed, spec: &WorkflowSpec, status: &WorkflowStatus) -> Scope {
    let metadata = &observed.workflow.metadata;
    let mut scope = Scope::default();
    scope.set("workflow.name", metadata.name.as_str());
    scope.set("workflow.namespace", metadata.namespace.as_str());
    scope.set("workflow.uid", metadata.uid.as_str());
    scope.set("workflow.mainEntrypoint", spec.entrypoint.as_str());
    let account = if spec.service_account_name.is_empty() { "default" } else { &spec.service_account_name };
    scope.set("workflow.serviceAccountName", account);
    scope.set("workflow.priority", spec.priority.unwrap_or_default().to_string());
    scope.set("workflow.status", if status.phase.is_empty() { "Running" } else { &status.phase });
    times(&mut scope, metadata.creation_timestamp.as_deref());
    for (group, entries) in [("labels", &metadata.labels), ("annotations", &metadata.annotations)] {
        let all = json!(entries).to_string();
        scope.set(format!("workflow.{group}"), all.as_str());
        scope.set(format!("workflow.{group}.json"), all);
        for (name, value) in entries {
            scope.set(format!("workflow.{group}.{name}"), value.as_str());
        }
    }
    if let Some(at) = metadata.annotations.get("workflows.argoproj.io/scheduled-time") {
        scope.set("workflow.scheduledTime", at.as_str());
    }
    parameters(&mut scope, spec, observed);
    for parameter in status.outputs.iter().flat_map(|outputs| &outputs.parameters) {
        if let Some(value) = &parameter.value {
            scope.set(format!("workflow.outputs.parameters.{}", parameter.name), text_of(value));
        }
    }
    scope
}

fn parameters(scope: &mut Scope, spec: &WorkflowSpec, observed: &Observed) {
    let known: Vec<(&Parameter, String)> = spec
        .arguments
        .parameters
        .iter()
        .filter_map(|one| Some((one, argument(one, observed).ok()??)))
        .collect();
    let all: Vec<Value> =
        known.iter().map(|(one, value)| json!({"name": one.name, "value": value})).collect();
    scope.set("workflow.parameters.json", json!(all).to_string());
    for (parameter, value) in known {
        scope.set(format!("workflow.parameters.{}", parameter.name), value);
    }
}

/// The value of an argument of the workflow; `None`: it has none.
fn argument(parameter: &Parameter, observed: &Observed) -> Result<Option<String>, String> {
    let from = parameter.value_from.as_ref();
    match (&parameter.value, from.and_then(|from| from.config_map_key_ref.as_ref())) {
        (None, Some(_)) => of_config_map(from.unwrap_or(&ValueFrom::default()), observed)
            .map_err(|why| format!("arguments.parameters.{}: {why}", parameter.name)),
        (value, _) => Ok(value.as_ref().or(parameter.default.as_ref()).map(text_of)),
    }
}

/// Says which argument has no value.
pub(super) fn supplied(spec: &WorkflowSpec, observed: &Observed) -> Result<(), String> {
    spec.arguments.parameters.iter().try_for_each(|one| argument(one, observed).map(drop))
}

/// `valueFrom.configMapKeyRef`; `None`: it is not there, and may be missing.
pub(super) fn of_config_map(from: &ValueFrom, observed: &Observed) -> Result<Option<String>, String> {
    let reference = from.config_map_key_ref.clone().unwrap_or_default();
    let (name, key) = (text_of(&reference["name"]), text_of(&reference["key"]));
    let map = observed.config_maps.get(&name);
    if map.is_some_and(|map| map["metadata"]["labels"][MAP_TYPE] != "Parameter") {
        return Err(format!("ConfigMap `{name}` has no label {MAP_TYPE}: Parameter"));
    }
    match map.and_then(|map| map["data"][&key].as_str()).map(str::to_owned) {
        Some(value) => Ok(Some(value)),
        None if from.default.is_some() => Ok(from.default.as_ref().map(text_of)),
        None if reference["optional"] == true => Ok(None),
        None => Err(format!("ConfigMap `{name}` has no key `{key}`")),
    }
}

/// The ConfigMaps that a workflow and its templates name: they are read before it is planned.
pub fn config_maps(spec: &WorkflowSpec, library: &Library) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for spec in library.specs.values().chain([spec]) {
        let mut add = |parameters: &[Parameter]| {
            let from = parameters.iter().filter_map(|one| one.value_from.as_ref());
            let names = from.filter_map(|from| from.config_map_key_ref.as_ref()?["name"].as_str());
            found.extend(names.map(str::to_owned));
        };
        add(&spec.arguments.parameters);
        each_template(spec, &mut |template| add(&template.inputs.parameters));
        each_template(spec, &mut |template| {
            found.extend(template.synchronization.iter().flat_map(locks::maps_of));
            found.extend(cache::name_of(template));
        });
        found.extend(spec.synchronization.iter().flat_map(locks::maps_of));
    }
    found.retain(|name| !name.is_empty());
    found
}

/// Those that are written inside of steps, too.
pub(super) fn each_template(spec: &WorkflowSpec, visit: &mut dyn FnMut(&Template)) {
    for template in spec.templates.iter().chain(&spec.template_defaults) {
        visit(template);
        super::library::each_step(template, &mut |step| {
            if let Some(Ok(inline)) = step.inline.clone().map(serde_json::from_value::<Template>) {
                visit(&inline);
            }
        });
    }
}

/// The moment of creation, in letters of strftime too.
fn times(scope: &mut Scope, created: Option<&str>) {
    let Some(created) = created.and_then(|time| time.parse::<Timestamp>().ok()) else { return };
    scope.set("workflow.creationTimestamp", created.to_string());
    scope.set("workflow.creationTimestamp.RFC3339", created.to_string());
    scope.set("workflow.creationTimestamp.s", created.as_second().to_string());
    for letter in ["a", "A", "b", "B", "d", "H", "I", "j", "m", "M", "p", "S", "y", "Y"] {
        let text = created.strftime(&format!("%{letter}")).to_string();
        scope.set(format!("workflow.creationTimestamp.{letter}"), text);
    }
}
