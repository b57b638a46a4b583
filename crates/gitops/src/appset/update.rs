//! One Application as it is and as it should be → the smallest patch, or none.

use serde_json::{Map, Value, json};
use slipway_crd::{Application, ApplicationSet, names};

use crate::diff::ignore::remove_pointer;
use slipway_dialect::jq::JqPath;

/// Annotations that others leave on an Application and that stay: a refresh that is asked for, what was notified.
const KEPT_ANNOTATIONS: [&str; 3] =
    [names::REFRESH, "argocd.argoproj.io/hydrate", "notified.notifications.argoproj.io"];

/// The reference that makes the ApplicationSet the owner.
pub(super) fn owner_reference(set: &ApplicationSet) -> Value {
    json!({
        "apiVersion": names::API_VERSION,
        "kind": "ApplicationSet",
        "name": set.metadata.name,
        "uid": set.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Who controls an object: kind and name.
pub(super) fn controller(object: &Value) -> Option<(&str, &str)> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    let owner = references.iter().find(|reference| reference["controller"] == json!(true))?;
    Some((owner["kind"].as_str()?, owner["name"].as_str()?))
}

/// The Application to be made.
pub(super) fn to_create(set: &ApplicationSet, desired: &Value) -> Value {
    let mut application = desired.clone();
    application["metadata"]["ownerReferences"] = json!([owner_reference(set)]);
    application
}

/// What has to be patched; none: nothing.
pub(super) fn to_update(
    set: &ApplicationSet,
    desired: &Value,
    live: &Value,
) -> Result<Option<Value>, String> {
    let mut wanted = normal(desired)?;
    let mut found = normal(live)?;
    preserve(set, &mut wanted, live);
    let others = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut owners: Vec<Value> = others.filter(|owner| owner["controller"] != json!(true)).cloned().collect();
    owners.push(owner_reference(set));
    wanted["metadata"]["ownerReferences"] = Value::Array(owners);
    let name = desired["metadata"]["name"].as_str().unwrap_or_default();
    for rule in &set.spec.ignore_application_differences {
        if !rule.name.is_empty() && rule.name != name {
            continue;
        }
        for pointer in &rule.json_pointers {
            remove_pointer(&mut wanted, pointer);
            remove_pointer(&mut found, pointer);
        }
        for expression in &rule.jq_path_expressions {
            let path = JqPath::parse(expression)
                .map_err(|error| format!("spec.ignoreApplicationDifferences: {expression}: {error}"))?;
            // A path that is not there has nothing to be ignored.
            let _ = path.delete_from(&mut wanted);
            let _ = path.delete_from(&mut found);
        }
    }
    let mut patch = Map::new();
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if let Some(change) = difference(&found["metadata"][field], &wanted["metadata"][field]) {
            patch.entry("metadata").or_insert_with(|| json!({}))[field] = change;
        }
    }
    if let Some(change) = difference(&found["spec"], &wanted["spec"]) {
        patch.insert("spec".into(), change);
    }
    // An operation is asked for, never taken back here.
    if let Some(operation) = wanted.get("operation").filter(|operation| !operation.is_null())
        && let Some(change) = difference(&found["operation"], operation)
    {
        patch.insert("operation".into(), change);
    }
    Ok((!patch.is_empty()).then_some(Value::Object(patch)))
}

/// As the types write it: empty fields left out, the project named.
pub(super) fn normal(application: &Value) -> Result<Value, String> {
    let mut read: Application = serde_json::from_value(application.clone())
        .map_err(|error| format!("the Application cannot be read: {error}"))?;
    if read.spec.project.is_empty() {
        read.spec.project = "default".into();
    }
    serde_json::to_value(read).map_err(|error| error.to_string())
}

/// What others wrote and the ApplicationSet leaves alone.
fn preserve(set: &ApplicationSet, wanted: &mut Value, live: &Value) {
    let fields = set.spec.preserved_fields.clone().unwrap_or_default();
    let annotations = KEPT_ANNOTATIONS.into_iter().chain(fields.annotations.iter().map(String::as_str));
    for (map, keys) in [
        ("annotations", annotations.collect::<Vec<_>>()),
        ("labels", fields.labels.iter().map(String::as_str).collect()),
    ] {
        for key in keys {
            if let Some(value) = live["metadata"][map].get(key) {
                wanted["metadata"][map][key] = value.clone();
            }
        }
    }
    let hooks = [names::PRE_DELETE_FINALIZER, names::POST_DELETE_FINALIZER];
    for finalizer in live["metadata"]["finalizers"].as_array().into_iter().flatten() {
        let of_hooks = finalizer.as_str().is_some_and(|name| hooks.iter().any(|hook| name.starts_with(hook)));
        let known = wanted["metadata"]["finalizers"].as_array().is_some_and(|list| list.contains(finalizer));
        if of_hooks && !known {
            match wanted["metadata"]["finalizers"].as_array_mut() {
                Some(list) => list.push(finalizer.clone()),
                None => wanted["metadata"]["finalizers"] = json!([finalizer]),
            }
        }
    }
}

/// A JSON merge patch from one value to the other; none: they are the same.
pub(super) fn difference(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Some(from), Some(to_entries)) = (from.as_object(), to.as_object()) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to_entries.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in to_entries {
        match from.get(key) {
            None => {
                patch.insert(key.clone(), value.clone());
            }
            Some(known) => {
                if let Some(change) = difference(known, value) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
