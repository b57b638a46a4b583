//! Merging an applied configuration into an object, and removing abandoned fields from it.

use serde_json::{Map, Value};

use super::fields::{FieldSet, item_element};
use crate::schema::{ListType, Node, any};

/// `config` over `live`: maps and keyed lists are merged, everything else is replaced.
pub(super) fn merge(shape: &Node, live: &Value, config: &Value) -> Value {
    if shape.is_atomic() {
        return config.clone();
    }
    match (live, config) {
        (Value::Object(old), Value::Object(new)) => {
            let mut merged = old.clone();
            for (name, value) in new {
                let child = shape.child(name).unwrap_or(any());
                let result = match old.get(name) {
                    Some(was) => merge(child, was, value),
                    None => value.clone(),
                };
                merged.insert(name.clone(), result);
            }
            Value::Object(merged)
        }
        (Value::Array(old), Value::Array(new)) if *shape.resolve_list() != ListType::Atomic => {
            Value::Array(merge_list(shape, old, new))
        }
        _ => config.clone(),
    }
}

/// Items that both have keep their place relative to the configuration's order; items only live keep theirs.
fn merge_list(shape: &Node, old: &[Value], new: &[Value]) -> Vec<Value> {
    let item_shape = shape.item().unwrap_or(any());
    let key = |item: &Value| item_element(shape, item);
    let new_keys: Vec<Option<String>> = new.iter().map(key).collect();
    let mut merged: Vec<Value> = Vec::new();
    let mut next_new = 0;
    for item in old {
        let element = key(item);
        match new_keys.iter().position(|k| *k == element && element.is_some()) {
            None => merged.push(item.clone()),
            // Everything the configuration lists before this item comes first.
            Some(position) if position >= next_new => {
                for index in next_new..=position {
                    merged.push(combined(item_shape, old, &new[index], &new_keys[index], &key));
                }
                next_new = position + 1;
            }
            Some(_) => {}
        }
    }
    for index in next_new..new.len() {
        merged.push(combined(item_shape, old, &new[index], &new_keys[index], &key));
    }
    merged
}

fn combined(
    shape: &Node,
    old: &[Value],
    new: &Value,
    element: &Option<String>,
    key: &impl Fn(&Value) -> Option<String>,
) -> Value {
    match old.iter().find(|item| element.is_some() && key(item) == *element) {
        Some(was) => merge(shape, was, new),
        None => new.clone(),
    }
}

/// Removes the members of `abandoned`, except where something below is still owned (`kept`).
pub(super) fn remove(shape: &Node, value: &mut Value, abandoned: &FieldSet, kept: &FieldSet) {
    match value {
        Value::Object(map) => {
            let names: Vec<String> = map.keys().cloned().collect();
            for name in names {
                let element = format!("f:{name}");
                let Some(gone) = abandoned.child(&element) else { continue };
                let child = shape.child(&name).unwrap_or(any());
                if remove_one(child, map.get_mut(&name), gone, kept.child(&element)) {
                    map.remove(&name);
                }
            }
        }
        Value::Array(list) if *shape.resolve_list() != ListType::Atomic => {
            let item_shape = shape.item().unwrap_or(any());
            list.retain_mut(|item| {
                let Some(element) = item_element(shape, item) else { return true };
                let Some(gone) = abandoned.child(&element) else { return true };
                !remove_one(item_shape, Some(item), gone, kept.child(&element))
            });
        }
        _ => {}
    }
}

fn remove_one(shape: &Node, value: Option<&mut Value>, gone: &FieldSet, kept: Option<&FieldSet>) -> bool {
    let still_owned = kept.is_some_and(|set| !set.is_empty());
    if gone.here() && !still_owned {
        return true;
    }
    let Some(value) = value else { return false };
    let none = FieldSet::default();
    let was_filled = filled(value);
    remove(shape, value, gone, kept.unwrap_or(&none));
    // A struct that only held abandoned fields goes with them.
    was_filled && !filled(value) && !still_owned
}

fn filled(value: &Value) -> bool {
    match value {
        Value::Object(map) => !Map::is_empty(map),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}
