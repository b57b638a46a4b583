//! Pruning, defaulting and validation of a value against its shape.
//!
//! Comes in: a `Node` and a JSON value. Goes out: the changed value, or findings with paths.

use regex::Regex;
use serde_json::{Map, Value};

use super::{ListType, Node, Type};

/// One finding, in the words Kubernetes uses for causes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShapeError {
    pub(crate) path: String,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl ShapeError {
    pub(crate) fn invalid(path: &str, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {}: {detail}", brief(value));
        ShapeError { path: path.to_owned(), reason: "FieldValueInvalid", message }
    }

    pub(crate) fn required(path: &str, detail: &str) -> Self {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        ShapeError { path: path.to_owned(), reason: "FieldValueRequired", message }
    }

    pub(crate) fn forbidden(path: &str, detail: &str) -> Self {
        ShapeError {
            path: path.to_owned(),
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {detail}"),
        }
    }

    pub(crate) fn unsupported(path: &str, value: &Value, allowed: &[String]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(|v| format!("{v:?}")).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", brief(value), allowed.join(", "));
        ShapeError { path: path.to_owned(), reason: "FieldValueNotSupported", message }
    }
}

fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) => "\"object\"".to_owned(),
        Value::Array(_) => "\"array\"".to_owned(),
        other => other.to_string(),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Removes fields that the shape does not name, and collects their paths.
/// In built-in kinds (no `rules`), nulls go too, because Go's decoder leaves the zero value there.
pub(crate) fn prune(node: &Node, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    let resolved = node.resolve();
    match (resolved.ty, value) {
        (Type::Object, Value::Object(map)) => prune_object(resolved, map, path, unknown),
        (Type::Map, Value::Object(map)) => {
            let Some(items) = resolved.items.as_deref() else { return };
            for (name, child) in map.iter_mut() {
                prune(items, child, &join(path, name), unknown);
            }
        }
        (Type::Array, Value::Array(list)) => {
            let Some(items) = resolved.items.as_deref() else { return };
            for (index, child) in list.iter_mut().enumerate() {
                prune(items, child, &format!("{path}[{index}]"), unknown);
            }
        }
        (Type::Any, Value::Object(map)) if !resolved.preserve && resolved.rules.is_some() => {
            unknown.extend(map.keys().map(|name| join(path, name)));
            map.clear();
        }
        _ => {}
    }
}

fn prune_object(node: &Node, map: &mut Map<String, Value>, path: &str, unknown: &mut Vec<String>) {
    let typed = node.rules.is_none();
    if typed {
        map.retain(|_, value| !value.is_null());
    }
    map.retain(|name, value| {
        let Some(child) = node.fields.get(name).or(node.items.as_deref()) else {
            if !node.preserve {
                unknown.push(join(path, name));
            }
            return node.preserve;
        };
        prune(child, value, &join(path, name), unknown);
        true
    });
}

/// Fills in the defaults that the schema carries (CRDs), also inside lists and maps.
pub(crate) fn apply_defaults(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, child) in &node.fields {
                let missing = match map.get(name) {
                    None => true,
                    Some(Value::Null) => !child.nullable,
                    Some(_) => false,
                };
                if missing && let Some(default) = &child.default {
                    map.insert(name.clone(), default.clone());
                }
                if let Some(inner) = map.get_mut(name) {
                    apply_defaults(child, inner);
                }
            }
            if let Some(items) = &node.items {
                for (name, inner) in map.iter_mut() {
                    if !node.fields.contains_key(name) {
                        apply_defaults(items, inner);
                    }
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for inner in list {
                    if inner.is_null()
                        && !items.nullable
                        && let Some(default) = &items.default
                    {
                        *inner = default.clone();
                    }
                    apply_defaults(items, inner);
                }
            }
        }
        _ => {}
    }
}

/// Checks types, required fields and the CRD's rules.
pub(crate) fn validate(node: &Node, value: &Value, path: &str, errors: &mut Vec<ShapeError>) {
    let resolved = node.resolve();
    if value.is_null() && (resolved.nullable || resolved.rules.is_none()) {
        return;
    }
    if !type_fits(resolved, value) {
        errors.push(type_error(resolved, value, path));
        return;
    }
    match value {
        Value::Object(map) => {
            for name in &resolved.required {
                if !map.contains_key(name) && !lenient_required(resolved, name) {
                    errors.push(ShapeError::required(&join(path, name), ""));
                }
            }
            for (name, inner) in map {
                if path.is_empty() && name == "status" && resolved.rules.is_none() {
                    continue;
                }
                if let Some(child) = resolved.child(name) {
                    let inner_path = if resolved.fields.contains_key(name) {
                        join(path, name)
                    } else {
                        format!("{path}[{name}]")
                    };
                    validate(child, inner, inner_path.trim_start_matches('.'), errors);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = resolved.items.as_deref() {
                for (index, inner) in list.iter().enumerate() {
                    validate(items, inner, &format!("{path}[{index}]"), errors);
                }
            }
            validate_list_keys(resolved, list, path, errors);
        }
        _ => {}
    }
    if let Some(rules) = &resolved.rules {
        check_rules(rules, value, path, errors);
    }
}

/// Go cannot tell a missing number or flag from zero, so Kubernetes does not ask for those.
fn lenient_required(node: &Node, name: &str) -> bool {
    node.rules.is_none()
        && node.fields.get(name).is_none_or(|field| {
            !matches!(field.resolve().ty, Type::String | Type::Array | Type::Object)
                || matches!(
                    name,
                    "endpoints" | "addresses" | "apiGroup" | "podSelector" | "metadata" | "conditions"
                )
        })
}

fn validate_list_keys(node: &Node, list: &[Value], path: &str, errors: &mut Vec<ShapeError>) {
    let duplicates = |index: usize, key: &Value| ShapeError {
        path: format!("{path}[{index}]"),
        reason: "FieldValueDuplicate",
        message: format!("Duplicate value: {key}"),
    };
    let mut seen = Vec::new();
    match &node.list {
        ListType::Atomic => {}
        ListType::Set => {
            for (index, item) in list.iter().enumerate() {
                if seen.contains(item) {
                    errors.push(duplicates(index, item));
                }
                seen.push(item.clone());
            }
        }
        // Kubernetes itself accepts doubled ports and the like in built-in kinds, so only CRDs are held to it.
        ListType::Map(keys) if node.rules.is_some() => {
            for (index, item) in list.iter().enumerate() {
                let defaults = node.items.as_deref();
                let key: Map<String, Value> = keys
                    .iter()
                    .filter_map(|k| {
                        let value = item.get(k).or_else(|| defaults?.fields.get(k)?.default.as_ref())?;
                        Some((k.clone(), value.clone()))
                    })
                    .collect();
                for k in keys {
                    if !key.contains_key(k) {
                        errors.push(ShapeError::required(&format!("{path}[{index}].{k}"), "list map key"));
                    }
                }
                let key = Value::Object(key);
                if seen.contains(&key) {
                    errors.push(duplicates(index, &key));
                }
                seen.push(key);
            }
        }
        ListType::Map(_) => {}
    }
}

fn type_fits(node: &Node, value: &Value) -> bool {
    match node.ty {
        Type::Any | Type::Ref(_) => true,
        Type::String | Type::Bytes => value.is_string(),
        Type::Time | Type::MicroTime => value.as_str().is_some_and(|s| s.parse::<jiff::Timestamp>().is_ok()),
        Type::Quantity => match value {
            Value::Number(_) => true,
            Value::String(text) => slipway_dialect::quantity::nanos_of_text(text).is_some(),
            _ => false,
        },
        Type::Integer => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        Type::Long => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
        Type::IntOrString => value.is_string() || value.is_i64() || value.is_u64(),
        Type::Object | Type::Map => value.is_object(),
        Type::Array => value.is_array(),
    }
}

fn type_error(node: &Node, value: &Value, path: &str) -> ShapeError {
    let wanted = match node.ty {
        Type::Integer | Type::Long => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::Object | Type::Map => "object",
        Type::Array => "array",
        Type::IntOrString => "integer or string",
        Type::Quantity => "quantity",
        Type::Time | Type::MicroTime => "RFC 3339 time",
        _ => "string",
    };
    let got = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    ShapeError {
        path: path.to_owned(),
        reason: "FieldValueTypeInvalid",
        message: format!("Invalid value: \"{got}\": {path} in body must be of type {wanted}: \"{got}\""),
    }
}

fn check_rules(rules: &Value, value: &Value, path: &str, errors: &mut Vec<ShapeError>) {
    let mut fail =
        |detail: String| errors.push(ShapeError::invalid(path, value, &format!("{path} in body {detail}")));
    if let Some(number) = value.as_f64() {
        check_number(rules, number, &mut fail);
    }
    if let Some(text) = value.as_str() {
        check_text(rules, text, &mut fail);
    }
    let bound = |name: &str| rules.get(name).and_then(Value::as_u64).map(|n| n as usize);
    if let Some(list) = value.as_array() {
        if bound("minItems").is_some_and(|min| list.len() < min) {
            fail(format!("should have at least {} items", bound("minItems").unwrap_or(0)));
        }
        if bound("maxItems").is_some_and(|max| list.len() > max) {
            fail(format!("should have at most {} items", bound("maxItems").unwrap_or(0)));
        }
        if rules.get("uniqueItems") == Some(&Value::Bool(true))
            && list.iter().enumerate().any(|(i, item)| list[..i].contains(item))
        {
            fail("shouldn't contain duplicates".to_owned());
        }
    }
    if let Some(map) = value.as_object() {
        if bound("minProperties").is_some_and(|min| map.len() < min) {
            fail(format!("should have at least {} properties", bound("minProperties").unwrap_or(0)));
        }
        if bound("maxProperties").is_some_and(|max| map.len() > max) {
            fail(format!("should have at most {} properties", bound("maxProperties").unwrap_or(0)));
        }
    }
    if let Some(allowed) = rules.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let names: Vec<String> =
            allowed.iter().map(|v| v.as_str().map(str::to_owned).unwrap_or_else(|| v.to_string())).collect();
        errors.push(ShapeError::unsupported(path, value, &names));
    }
    check_junctors(rules, value, path, errors);
}

fn check_number(rules: &Value, number: f64, fail: &mut impl FnMut(String)) {
    let exclusive = |name: &str| rules.get(name).and_then(Value::as_bool).unwrap_or(false);
    if let Some(min) = rules.get("minimum").and_then(Value::as_f64) {
        if exclusive("exclusiveMinimum") && number <= min {
            fail(format!("should be greater than {min}"));
        } else if number < min {
            fail(format!("should be greater than or equal to {min}"));
        }
    }
    if let Some(max) = rules.get("maximum").and_then(Value::as_f64) {
        if exclusive("exclusiveMaximum") && number >= max {
            fail(format!("should be less than {max}"));
        } else if number > max {
            fail(format!("should be less than or equal to {max}"));
        }
    }
    if let Some(step) = rules.get("multipleOf").and_then(Value::as_f64)
        && (number / step).fract() != 0.0
    {
        fail(format!("should be a multiple of {step}"));
    }
}

fn check_text(rules: &Value, text: &str, fail: &mut impl FnMut(String)) {
    let length = text.chars().count() as u64;
    if let Some(min) = rules.get("minLength").and_then(Value::as_u64).filter(|min| length < *min) {
        fail(format!("should be at least {min} chars long"));
    }
    if let Some(max) = rules.get("maxLength").and_then(Value::as_u64).filter(|max| length > *max) {
        fail(format!("should be at most {max} chars long"));
    }
    if let Some(pattern) = rules.get("pattern").and_then(Value::as_str)
        && Regex::new(pattern).is_ok_and(|re| !re.is_match(text))
    {
        fail(format!("should match '{pattern}'"));
    }
    let fits = match rules.get("format").and_then(Value::as_str) {
        Some("date-time") => text.parse::<jiff::Timestamp>().is_ok(),
        Some("date") => text.parse::<jiff::civil::Date>().is_ok(),
        Some("ipv4") => text.parse::<std::net::Ipv4Addr>().is_ok(),
        Some("ipv6") => text.parse::<std::net::Ipv6Addr>().is_ok(),
        Some("byte") => crate::value::base64_decode(text).is_some(),
        Some("uuid") => text.len() == 36 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-'),
        _ => true,
    };
    if !fits {
        fail(format!("must be of type {}", rules["format"].as_str().unwrap_or_default()));
    }
}

/// allOf, anyOf, oneOf and not hold plain JSON schemas, which are checked directly.
fn check_junctors(rules: &Value, value: &Value, path: &str, errors: &mut Vec<ShapeError>) {
    let list = |name: &str| rules.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or(&[]);
    for schema in list("allOf") {
        check_schema(schema, value, path, errors);
    }
    let passes = |schema: &Value| {
        let mut inner = Vec::new();
        check_schema(schema, value, path, &mut inner);
        inner.is_empty()
    };
    let any = list("anyOf");
    if !any.is_empty() && !any.iter().any(passes) {
        errors.push(ShapeError::invalid(
            path,
            value,
            &format!("{path} in body must validate at least one schema (anyOf)"),
        ));
    }
    let one = list("oneOf");
    if !one.is_empty() && one.iter().filter(|schema| passes(schema)).count() != 1 {
        errors.push(ShapeError::invalid(
            path,
            value,
            &format!("{path} in body must validate one and only one schema (oneOf)"),
        ));
    }
    if let Some(not) = rules.get("not").filter(|not| not.is_object() && passes(not)) {
        let _ = not;
        errors.push(ShapeError::invalid(
            path,
            value,
            &format!("{path} in body must not validate the schema (not)"),
        ));
    }
}

fn check_schema(schema: &Value, value: &Value, path: &str, errors: &mut Vec<ShapeError>) {
    let fits = match schema.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        _ => true,
    };
    if !fits {
        errors.push(ShapeError::invalid(
            path,
            value,
            &format!("{path} in body must be of type {}", schema["type"]),
        ));
        return;
    }
    for name in
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        if value.is_object() && value.get(name).is_none() {
            errors.push(ShapeError::required(&join(path, name), ""));
        }
    }
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(inner) = value.get(name) {
            check_schema(child, inner, &join(path, name), errors);
        }
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        for (index, inner) in list.iter().enumerate() {
            check_schema(items, inner, &format!("{path}[{index}]"), errors);
        }
    }
    check_rules(schema, value, path, errors);
}
