//! `templatePatch`, and a generator's own template over the common one.

use serde_json::{Map, Value};

/// Merges a patch (YAML or JSON) into an Application. Lists are replaced but for finalizers, which are added to;
/// the project stays: a text that a generator fills must not choose it.
pub(super) fn apply(application: &Value, text: &str) -> Result<Value, String> {
    let documents = slipway_yaml::load_all_json(text).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("spec.templatePatch is not valid YAML once it is filled: {}", all.join("; "))
    })?;
    let patch = match documents.as_slice() {
        [] => return Ok(application.clone()),
        [(patch, _)] if patch.is_object() => patch,
        [_] => return Err("spec.templatePatch must give an object like an Application".into()),
        _ => return Err("spec.templatePatch gives several documents; it must give one".into()),
    };
    let mut patched = application.clone();
    merge(&mut patched, patch, "")?;
    match &application["spec"]["project"] {
        Value::Null => drop(patched["spec"].as_object_mut().map(|spec| spec.remove("project"))),
        project => patched["spec"]["project"] = project.clone(),
    }
    Ok(patched)
}

fn merge(target: &mut Value, patch: &Value, path: &str) -> Result<(), String> {
    let Some(entries) = patch.as_object() else {
        *target = patch.clone();
        return Ok(());
    };
    match entries.get("$patch").and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            let mut only = entries.clone();
            only.remove("$patch");
            *target = Value::Object(only);
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Null;
            return Ok(());
        }
        Some(other) => return Err(format!("spec.templatePatch: `$patch: {other}` is not known at {path}/")),
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(known) = target.as_object_mut() else { return Ok(()) };
    for (key, value) in entries.iter().filter(|(key, _)| *key != "$patch") {
        let here = format!("{path}/{key}");
        match (known.get_mut(key), value) {
            (_, Value::Null) => drop(known.remove(key)),
            (Some(Value::Array(items)), Value::Array(more)) if here == "/metadata/finalizers" => {
                for item in more {
                    if !items.contains(item) {
                        items.push(item.clone());
                    }
                }
            }
            (Some(inner), _) => {
                merge(inner, value, &here)?;
                if inner.is_null() {
                    known.remove(key);
                }
            }
            (None, _) => {
                let mut fresh = Value::Null;
                merge(&mut fresh, value, &here)?;
                if !fresh.is_null() {
                    known.insert(key.clone(), fresh);
                }
            }
        }
    }
    Ok(())
}

/// The generator's template wins; what it leaves empty comes from the common one.
pub(super) fn fill_empty(own: &Value, common: &Value) -> Value {
    match (own, common) {
        (Value::Object(own), Value::Object(common)) => {
            let mut merged = own.clone();
            for (key, value) in common {
                let filled = fill_empty(own.get(key).unwrap_or(&Value::Null), value);
                merged.insert(key.clone(), filled);
            }
            Value::Object(merged)
        }
        (own, common) if is_empty(own) => common.clone(),
        (own, _) => own.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    }
}
