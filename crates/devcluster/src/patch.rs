//! JSON patch, merge patch and strategic merge patch.
//!
//! Comes in: an object, a patch document, and for strategic merge the shape. Goes out: the patched object or a
//! sentence about what is wrong with the patch.

use serde_json::{Map, Value};

use crate::schema::{Node, any};

/// RFC 6902.
pub(crate) fn json_patch(object: &mut Value, patch: Value) -> Result<(), String> {
    let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|e| format!("invalid JSON patch: {e}"))?;
    json_patch::patch(object, &patch).map_err(|e| e.to_string())
}

/// RFC 7386.
pub(crate) fn merge_patch(object: &mut Value, patch: &Value) {
    json_patch::merge(object, patch);
}

/// Kubernetes' strategic merge, with its `$patch`, `$retainKeys`, `$setElementOrder` and `$deleteFromPrimitiveList`.
pub(crate) fn strategic_merge(shape: &Node, object: &mut Value, patch: &Value) -> Result<(), String> {
    let Some(changes) = patch.as_object() else {
        *object = patch.clone();
        return Ok(());
    };
    match changes.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            let mut whole = changes.clone();
            whole.remove("$patch");
            *object = Value::Object(whole);
            return Ok(());
        }
        Some("delete") => {
            *object = Value::Object(Map::new());
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(format!("unknown patch type found: {other}")),
    }
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(map) = object.as_object_mut() else { return Ok(()) };
    if let Some(retained) = changes.get("$retainKeys").and_then(Value::as_array) {
        map.retain(|name, _| retained.iter().any(|key| key.as_str() == Some(name)));
    }
    for (name, change) in changes.iter().filter(|(name, _)| name.starts_with("$deleteFromPrimitiveList/")) {
        let field = &name["$deleteFromPrimitiveList/".len()..];
        if let (Some(list), Some(gone)) = (map.get_mut(field).and_then(Value::as_array_mut), change.as_array()) {
            list.retain(|item| !gone.contains(item));
        }
    }
    for (name, change) in changes.iter().filter(|(name, _)| !name.starts_with('$')) {
        merge_field(shape, map, name, change)?;
    }
    for (name, order) in changes.iter().filter(|(name, _)| name.starts_with("$setElementOrder/")) {
        let field = &name["$setElementOrder/".len()..];
        let key = shape.child(field).and_then(|child| child.patch.key.clone());
        if let (Some(list), Some(order)) = (map.get_mut(field).and_then(Value::as_array_mut), order.as_array()) {
            set_order(list, order, key.as_deref());
        }
    }
    Ok(())
}

fn merge_field(shape: &Node, map: &mut Map<String, Value>, name: &str, change: &Value) -> Result<(), String> {
    if change.is_null() {
        map.remove(name);
        return Ok(());
    }
    let child = shape.child(name).unwrap_or(any());
    match change {
        Value::Object(_) => {
            if change.get("$patch").and_then(Value::as_str) == Some("delete") {
                map.remove(name);
                return Ok(());
            }
            strategic_merge(child, map.entry(name).or_insert(Value::Null), change)
        }
        Value::Array(items) if child.patch.merge => {
            let existing = map.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            let list = match existing {
                Value::Array(list) => list,
                other => {
                    *other = Value::Array(Vec::new());
                    other.as_array_mut().expect("an array was just put there")
                }
            };
            match &child.patch.key {
                Some(key) => merge_keyed(child, list, items, key, name),
                None => {
                    for item in items {
                        if !list.contains(item) {
                            list.push(item.clone());
                        }
                    }
                    Ok(())
                }
            }
        }
        Value::Array(items) => {
            map.insert(name.to_owned(), Value::Array(items.iter().map(without_directives).collect()));
            Ok(())
        }
        other => {
            map.insert(name.to_owned(), other.clone());
            Ok(())
        }
    }
}

fn merge_keyed(shape: &Node, list: &mut Vec<Value>, items: &[Value], key: &str, field: &str) -> Result<(), String> {
    if items.iter().any(|item| item.get("$patch").and_then(Value::as_str) == Some("replace")) {
        *list = items.iter().filter(|item| item.get("$patch").is_none()).cloned().collect();
        return Ok(());
    }
    let item_shape = shape.item().unwrap_or(any());
    for item in items {
        let Some(id) = item.get(key) else {
            return Err(format!("map: {item} does not contain declared merge key: {key} (in list {field})"));
        };
        let found = list.iter().position(|have| have.get(key) == Some(id));
        if item.get("$patch").and_then(Value::as_str) == Some("delete") {
            list.retain(|have| have.get(key) != Some(id));
            continue;
        }
        match found {
            Some(index) => strategic_merge(item_shape, &mut list[index], item)?,
            None => {
                let mut fresh = Value::Object(Map::new());
                strategic_merge(item_shape, &mut fresh, item)?;
                list.push(fresh);
            }
        }
    }
    Ok(())
}

fn without_directives(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(map) = item.as_object_mut() {
        map.retain(|name, _| !name.starts_with('$'));
    }
    item
}

/// Items named in `order` take that order; the others stay behind the item they followed.
fn set_order(list: &mut Vec<Value>, order: &[Value], key: Option<&str>) {
    let id = |item: &Value| match key {
        Some(key) => item.get(key).cloned().unwrap_or(Value::Null),
        None => item.clone(),
    };
    let wanted: Vec<Value> = order.iter().map(id).collect();
    let position = |item: &Value| wanted.iter().position(|w| *w == id(item));
    let mut anchored: Vec<(usize, usize, Value)> = Vec::new();
    let mut last = 0;
    for (index, item) in list.drain(..).enumerate() {
        let rank = position(&item).map(|p| p + 1);
        last = rank.unwrap_or(last);
        anchored.push((last, if rank.is_some() { 0 } else { index + 1 }, item));
    }
    anchored.sort_by_key(|(rank, index, _)| (*rank, *index));
    list.extend(anchored.into_iter().map(|(_, _, item)| item));
}

#[cfg(test)]
mod tests;
