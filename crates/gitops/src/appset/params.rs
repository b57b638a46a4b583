//! Parameter sets: what a generator gives for one Application.

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_template::Data;

/// Names and values. With `goTemplate` values may be anything; without it all are texts under dotted names.
pub type Params = BTreeMap<String, Data>;

/// Values under dotted names, as texts: what selectors look at, and what the old placeholders see.
pub(super) fn flatten(value: &Value) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    flatten_into(&mut flat, "", value);
    flat
}

fn flatten_into(flat: &mut BTreeMap<String, String>, prefix: &str, value: &Value) {
    let name = |part: &str| if prefix.is_empty() { part.to_owned() } else { format!("{prefix}.{part}") };
    match value {
        Value::Object(entries) if !entries.is_empty() || prefix.is_empty() => {
            for (key, value) in entries {
                flatten_into(flat, &name(key), value);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten_into(flat, &name(&index.to_string()), item);
            }
        }
        leaf => {
            flat.insert(prefix.to_owned(), text_of(leaf));
        }
    }
}

/// Go's `%v` of a JSON value.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => slipway_template::go_float(number.as_f64().unwrap_or(0.0)),
        Value::Object(entries) if entries.is_empty() => "map[]".to_owned(),
        Value::Object(entries) => {
            let parts: Vec<String> = entries.iter().map(|(k, v)| format!("{k}:{}", text_of(v))).collect();
            format!("map[{}]", parts.join(" "))
        }
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().map(text_of).collect();
            format!("[{}]", parts.join(" "))
        }
        Value::Bool(value) => value.to_string(),
    }
}

/// All of it as JSON.
pub(super) fn to_json(params: &Params) -> Value {
    Value::Object(params.iter().map(|(key, value)| (key.clone(), value.to_json())).collect())
}

/// mergo with override: maps are merged into each other, anything else is replaced.
pub(super) fn overlay(base: &mut Params, over: &Params) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Data::Map(base)), Data::Map(over)) => overlay(base, over),
            (Some(Data::StringMap(base)), Data::StringMap(over)) => base.extend(over.clone()),
            (Some(known), value) if is_object(known) && is_object(value) => {
                let mut merged = known.to_json();
                overlay_json(&mut merged, &value.to_json());
                *known = Data::Json(merged);
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

fn is_object(data: &Data) -> bool {
    matches!(data, Data::Map(_) | Data::StringMap(_) | Data::Json(Value::Object(_)))
}

fn overlay_json(base: &mut Value, over: &Value) {
    let (Some(base), Some(over)) = (base.as_object_mut(), over.as_object()) else { return };
    for (key, value) in over {
        match base.get_mut(key) {
            Some(known) if known.is_object() && value.is_object() => overlay_json(known, value),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Both as texts; a key that both have must mean the same.
pub(super) fn combine(a: &Params, b: &Params) -> Result<Params, String> {
    let texts = |params: &Params| -> Vec<(String, String)> {
        params.iter().map(|(key, value)| (key.clone(), text_of(&value.to_json()))).collect()
    };
    let mut combined: Params = texts(a).into_iter().map(|(k, v)| (k, Data::from(v))).collect();
    for (key, value) in texts(b) {
        let known = combined.get(&key).map(|known| text_of(&known.to_json()));
        if let Some(known) = known.filter(|known| *known != value) {
            return Err(format!("found duplicate key {key} with different value, a: {known} ,b: {value}"));
        }
        combined.insert(key, Data::from(value));
    }
    Ok(combined)
}
