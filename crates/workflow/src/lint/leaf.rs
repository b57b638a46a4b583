//! Templates that run something themselves: pods, objects of the cluster, calls.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use slipway_crd::workflow::{ContainerSet, ResourceTemplate, Template, WorkflowSpec};
use slipway_yaml::finding::Wrongs;

use super::scope::Scope;
use super::{arguments, template};
use crate::tags;

pub(super) fn check(
    one: &Template,
    value: &Value,
    spec: &WorkflowSpec,
    scope: &Scope,
    wrongs: &mut Wrongs<'_>,
) {
    let mut scope = scope.clone();
    for artifact in one.outputs.artifacts.iter().filter(|artifact| !artifact.path.is_empty()) {
        scope.put(format!("outputs.artifacts.{}.path", artifact.name));
    }
    check_texts(value, &scope, wrongs);
    if let Some(container) = &one.container {
        check_image(container, &mut wrongs.below("container"));
        check_mounts(container, one, "container", wrongs);
    }
    if let Some(script) = &one.script {
        check_image(script, &mut wrongs.below("script"));
        check_mounts(script, one, "script", wrongs);
    }
    if let Some(set) = &one.container_set {
        check_set(set, one, &mut wrongs.below("containerSet"));
    }
    if let Some(resource) = &one.resource {
        check_resource(resource, &mut wrongs.below("resource"));
    }
    if one.http.as_ref().is_some_and(|http| http.url.is_empty()) {
        wrongs.add("http", "`url` is missing");
    }
    if let Some(duration) = one.suspend.as_ref().and_then(|suspend| suspend.duration.as_ref()) {
        template::check_duration(&arguments::plain(duration), &mut wrongs.below("suspend.duration"));
    }
    for (field, containers) in [("sidecars", &one.sidecars), ("initContainers", &one.init_containers)] {
        check_names(containers, &mut wrongs.below(field));
    }
    check_token(one, spec, wrongs);
}

/// What is counted may name how the workflow fares.
fn check_texts(value: &Value, scope: &Scope, wrongs: &mut Wrongs<'_>) {
    let mut measured = scope.clone();
    ["workflow.status", "workflow.duration", "workflow.failures"]
        .into_iter()
        .for_each(|name| measured.put(name));
    for (name, part) in value.as_object().into_iter().flatten().filter(|(name, _)| *name != "outputs") {
        let scope = if name == "metrics" { &measured } else { scope };
        scope.check(part, &mut wrongs.part(name));
    }
}

fn check_image(container: &Value, wrongs: &mut Wrongs<'_>) {
    if container["image"].as_str().unwrap_or_default().is_empty() {
        wrongs.add("", "`image` is missing");
    }
}

/// Nothing is mounted where something else is.
fn check_mounts(container: &Value, one: &Template, field: &str, wrongs: &mut Wrongs<'_>) {
    let mut taken: BTreeMap<&str, String> = BTreeMap::new();
    for (at, mount) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
        let Some(path) = mount["mountPath"].as_str() else { continue };
        let label = format!("the volume `{}`", mount["name"].as_str().unwrap_or_default());
        if let Some(other) = taken.insert(path, label) {
            wrongs.add(
                &format!("{field}.volumeMounts.{at}.mountPath"),
                format!("{other} is mounted at `{path}` already"),
            );
        }
    }
    for (at, artifact) in
        one.inputs.artifacts.iter().enumerate().filter(|(_, artifact)| !artifact.path.is_empty())
    {
        if let Some(other) = taken.insert(&artifact.path, format!("the artifact `{}`", artifact.name)) {
            wrongs.add(
                &format!("inputs.artifacts.{at}.path"),
                format!("{other} is at `{}` already", artifact.path),
            );
        }
    }
}

fn check_names(containers: &[Value], wrongs: &mut Wrongs<'_>) {
    let mut seen = BTreeSet::new();
    for (at, container) in containers.iter().enumerate() {
        let name = container["name"].as_str().unwrap_or_default();
        let mut here = wrongs.part(at);
        match name {
            "" => here.add("", "`name` is missing"),
            "init" | "wait" | "supervisor" => here
                .add("name", format!("`{name}` is the name of a container that every pod of a workflow has")),
            _ if !seen.insert(name) => here.add("name", format!("`{name}` is there twice")),
            _ => {}
        }
        check_image(container, &mut here);
    }
}

fn check_set(set: &ContainerSet, one: &Template, wrongs: &mut Wrongs<'_>) {
    if set.containers.is_empty() {
        wrongs.add("", "`containers` is missing");
        return;
    }
    check_names(&set.containers, &mut wrongs.below("containers"));
    let names: BTreeSet<&str> =
        set.containers.iter().filter_map(|container| container["name"].as_str()).collect();
    let uses = |container: &Value| -> Vec<String> {
        let listed = container["dependencies"].as_array().into_iter().flatten();
        listed.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let mut graph = BTreeMap::new();
    for (at, container) in set.containers.iter().enumerate() {
        let after = uses(container);
        for name in after.iter().filter(|name| !names.contains(name.as_str())) {
            wrongs.add(&format!("containers.{at}.dependencies"), format!("there is no container `{name}`"));
        }
        if let Some(name) = container["name"].as_str() {
            graph.insert(name.to_owned(), after);
        }
    }
    if let Some(cycle) = super::dag::cycle(&graph) {
        wrongs.add("containers", format!("they wait for each other: {}", cycle.join(" → ")));
    }
    let carries = !one.inputs.artifacts.is_empty()
        || !one.outputs.artifacts.is_empty()
        || one.outputs.parameters.iter().any(|parameter| parameter.value_from.is_some());
    if carries && !names.contains("main") {
        wrongs.add(
            "containers",
            "what comes in and goes out belongs to the container `main`, which is missing",
        );
    }
}

fn check_resource(resource: &ResourceTemplate, wrongs: &mut Wrongs<'_>) {
    let actions = ["get", "create", "apply", "delete", "replace", "patch"];
    if resource.action.is_empty() {
        wrongs.add("", format!("`action` is missing: {}", actions.join(", ")));
    }
    arguments::check_word(&resource.action, &actions, &mut wrongs.below("action"));
    arguments::check_word(
        &resource.merge_strategy,
        &["strategic", "merge", "json"],
        &mut wrongs.below("mergeStrategy"),
    );
    match (resource.manifest.is_empty(), &resource.manifest_from) {
        (false, Some(_)) => {
            wrongs.add("manifestFrom", "`manifest` and `manifestFrom` are both there; choose one")
        }
        // kubectl can find an object by flags alone.
        (true, None) if resource.flags.is_empty() => {
            wrongs.add("", "`manifest` or `manifestFrom` is missing")
        }
        _ => {}
    }
    if !tags::is_open(&resource.manifest)
        && let Err(errors) = slipway_yaml::parse(&resource.manifest, slipway_yaml::Dialect::Kubernetes)
    {
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        wrongs.add("manifest", format!("it is no YAML: {first}"));
    }
}

/// The helper of every pod needs a token, its own or that of the pod.
fn check_token(one: &Template, spec: &WorkflowSpec, wrongs: &mut Wrongs<'_>) {
    let mounted = one.automount_service_account_token.or(spec.automount_service_account_token);
    let own = [&one.executor, &spec.executor]
        .into_iter()
        .flatten()
        .any(|executor| !executor.service_account_name.is_empty());
    if mounted == Some(false) && !own {
        wrongs.add("", "`executor.serviceAccountName` is missing: with `automountServiceAccountToken: false` the helper of its pod has no account");
    }
}
