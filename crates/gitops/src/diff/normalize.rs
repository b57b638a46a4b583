//! Taking out what is no difference: the server's own fields, notations of one value, ignored status.

use super::ignore::IgnoreRules;
use super::schema::{self, Context};
use crate::object;
use serde_json::{Map, Value, json};
use slipway_crd::names;
use slipway_dialect::quantity;

/// Metadata that the API server writes.
const SERVER_METADATA: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// A manifest without what only the server writes, and Secrets with their text as data.
pub(super) fn without_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in SERVER_METADATA {
            meta.remove(*field);
        }
    }
    fold_secret(&mut object);
    object
}

/// One side of a comparison.
pub(super) fn normalized(object: &Value, rules: &IgnoreRules) -> Value {
    let mut object = without_server_fields(object);
    if let Some(annotations) =
        object.get_mut("metadata").and_then(|m| m.get_mut("annotations")).and_then(Value::as_object_mut)
    {
        annotations.remove(names::LAST_APPLIED);
    }
    prune_empty_metadata(&mut object);
    if rules.ignores_status(!schema::is_built_in(&object))
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
    normalize_kind(&mut object, rules);
    let context = Context::of(&object);
    if context.is_built_in() {
        canonical_quantities(&mut object);
    }
    object
}

fn prune_empty_metadata(object: &mut Value) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.retain(|_, value| {
            !(value.is_null()
                || value.as_object().is_some_and(Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty))
        });
    }
}

fn normalize_kind(object: &mut Value, rules: &IgnoreRules) {
    match (object::group(object).to_string().as_str(), object::kind(object).to_string().as_str()) {
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            let aggregated = object.get("aggregationRule").is_some_and(|rule| !rule.is_null());
            if let Some(map) = object.as_object_mut() {
                let empty =
                    map.get("rules").is_some_and(|r| r.is_null() || r.as_array().is_some_and(Vec::is_empty));
                if empty || aggregated && rules.ignores_aggregated_roles() {
                    map.remove("rules");
                }
            }
        }
        ("", "Endpoints") => sort_endpoints(object),
        _ => {}
    }
}

fn sort_endpoints(object: &mut Value) {
    let Some(subsets) = object.get_mut("subsets").and_then(Value::as_array_mut) else { return };
    for subset in subsets.iter_mut() {
        for port in subset.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.entry("protocol").or_insert_with(|| json!("TCP"));
            }
        }
        for field in ["addresses", "notReadyAddresses", "ports"] {
            if let Some(list) = subset.get_mut(field).and_then(Value::as_array_mut) {
                list.sort_by_key(Value::to_string);
            }
        }
    }
    subsets.sort_by_key(Value::to_string);
}

/// `stringData` is write-only: the server folds it into `data`.
pub(super) fn fold_secret(object: &mut Value) {
    if !(object::kind(object) == "Secret" && object::group(object).is_empty()) {
        return;
    }
    let Some(map) = object.as_object_mut() else { return };
    let strings = map.remove("stringData");
    if let Some(Value::Object(strings)) = strings {
        let data = map.entry("data").or_insert_with(|| json!({}));
        if data.is_null() {
            *data = json!({});
        }
        if let Some(data) = data.as_object_mut() {
            for (key, value) in strings {
                let text = match value {
                    Value::String(text) => text,
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                data.insert(key, base64(text.as_bytes()).into());
            }
        }
    }
    if let Some(data) = map.get_mut("data").and_then(Value::as_object_mut) {
        for value in data.values_mut().filter(|value| value.is_null()) {
            *value = json!("");
        }
    }
}

/// Standard base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().enumerate().fold(0u32, |word, (i, byte)| word | u32::from(*byte) << (16 - 8 * i));
        for i in 0..4 {
            text.push(if i <= chunk.len() {
                ALPHABET[(word >> (18 - 6 * i) & 63) as usize] as char
            } else {
                '='
            });
        }
    }
    text
}

fn canonical_quantities(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (field, value) in map.iter_mut() {
                if schema::is_quantity(field) {
                    rewrite(value);
                } else if schema::holds_quantities(field) {
                    value.as_object_mut().into_iter().flat_map(|map| map.values_mut()).for_each(rewrite);
                } else {
                    canonical_quantities(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(canonical_quantities),
        _ => {}
    }
}

fn rewrite(value: &mut Value) {
    if let Some(text) = quantity::canonical(value) {
        *value = text.into();
    }
}
