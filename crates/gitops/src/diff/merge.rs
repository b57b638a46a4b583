//! The merge that an apply makes: original (what was applied last), target (the manifest), live.
//!
//! What stands in the target wins; what stood in the original and is not in the target goes; the rest stays as it
//! is live.

use super::schema::{self, Context};
use serde_json::{Map, Value};

/// The live object after the target was applied.
pub(super) fn three_way(original: &Value, target: &Value, live: &Value, context: &Context) -> Value {
    merge("", "", original, target, live, context)
}

fn merge(
    parent: &str,
    field: &str,
    original: &Value,
    target: &Value,
    live: &Value,
    context: &Context,
) -> Value {
    match (target, live) {
        (Value::Object(target), Value::Object(live)) => {
            Value::Object(merge_maps(parent, field, original.as_object(), target, live, context))
        }
        (Value::Array(target), Value::Array(live)) => {
            let empty = Vec::new();
            let original = original.as_array().unwrap_or(&empty);
            Value::Array(merge_lists(field, original, target, live, context))
        }
        _ => target.clone(),
    }
}

fn merge_maps(
    parent: &str,
    field: &str,
    original: Option<&Map<String, Value>>,
    target: &Map<String, Value>,
    live: &Map<String, Value>,
    context: &Context,
) -> Map<String, Value> {
    let mut result = live.clone();
    for key in original.into_iter().flat_map(|map| map.keys()) {
        if !target.contains_key(key) {
            result.remove(key);
        }
    }
    if context.retains_keys(field, parent) {
        // Only when the manifest switched to another member does the old one have to go.
        let switched = target.keys().any(|key| !live.contains_key(key) && key != "type" && key != "name");
        if switched || target.get("type").is_some_and(|t| live.get("type").is_some_and(|l| l != t)) {
            result.retain(|key, _| target.contains_key(key));
        }
    }
    for (key, value) in target {
        let merged = match live.get(key) {
            // `null` in a manifest means "not set".
            _ if value.is_null() => {
                result.remove(key);
                continue;
            }
            Some(live) => {
                let original = original.and_then(|map| map.get(key)).unwrap_or(&Value::Null);
                merge(field, key, original, value, live, context)
            }
            None => without_nulls(value),
        };
        // The API server drops an empty map or list that was not there before.
        if !live.contains_key(key) && is_empty_container(&merged) {
            continue;
        }
        result.insert(key.clone(), merged);
    }
    result
}

fn merge_lists(
    field: &str,
    original: &[Value],
    target: &[Value],
    live: &[Value],
    context: &Context,
) -> Vec<Value> {
    if context.is_set(field) {
        let mut result: Vec<Value> =
            live.iter().filter(|item| target.contains(item) || !original.contains(item)).cloned().collect();
        result.extend(target.iter().filter(|item| !live.contains(item)).cloned());
        return result;
    }
    if let Some(keys) = context.merge_keys(field) {
        return merge_keyed(field, keys, original, target, live, context);
    }
    if context.is_built_in() && target.len() == live.len() {
        return target.iter().zip(live).map(|(target, live)| fill_defaults(target, live)).collect();
    }
    target.to_vec()
}

fn merge_keyed(
    field: &str,
    keys: &[&str],
    original: &[Value],
    target: &[Value],
    live: &[Value],
    context: &Context,
) -> Vec<Value> {
    let find = |list: &[Value], wanted: &Value| -> Option<usize> {
        list.iter().position(|item| same_key(item, wanted, keys))
    };
    // The manifest's order counts; what others added stays behind it, as after a strategic merge.
    let ours_in_order = target.iter().filter_map(|item| find(live, item)).is_sorted();
    let merged = |item: &Value| match find(live, item) {
        Some(index) => {
            let original = find(original, item).map_or(&Value::Null, |at| &original[at]);
            merge(field, field, original, item, &live[index], context)
        }
        None => without_nulls(item),
    };
    let is_foreign = |item: &Value| find(target, item).is_none() && find(original, item).is_none();
    if !ours_in_order {
        let mut result: Vec<Value> = target.iter().map(merged).collect();
        result.extend(live.iter().filter(|item| is_foreign(item)).cloned());
        return result;
    }
    let mut result = Vec::new();
    for item in live {
        match find(target, item) {
            Some(index) => result.push(merged(&target[index])),
            None if is_foreign(item) => result.push(item.clone()),
            None => {}
        }
    }
    result.extend(target.iter().filter(|item| find(live, item).is_none()).map(without_nulls));
    result
}

fn same_key(a: &Value, b: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| {
        let of = |item: &Value| match item.get(*key) {
            Some(value) if !value.is_null() => Some(value.clone()),
            _ => schema::key_default(key).map(Value::from),
        };
        of(a) == of(b)
    })
}

/// An entry of a list that is replaced whole, with what the API server fills in.
fn fill_defaults(target: &Value, live: &Value) -> Value {
    match (target, live) {
        (Value::Object(target), Value::Object(live)) => {
            let mut result = Map::new();
            for (key, value) in target.iter().filter(|(_, value)| !value.is_null()) {
                let merged = live.get(key).map_or_else(|| value.clone(), |live| fill_defaults(value, live));
                result.insert(key.clone(), merged);
            }
            for (key, value) in live {
                if !target.contains_key(key) && schema::is_server_default(key, value) {
                    result.insert(key.clone(), value.clone());
                }
            }
            Value::Object(result)
        }
        (Value::Array(target), Value::Array(live)) if target.len() == live.len() => {
            Value::Array(target.iter().zip(live).map(|(target, live)| fill_defaults(target, live)).collect())
        }
        _ => target.clone(),
    }
}

fn is_empty_container(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}
