//! Who owns which field: managed fields and server-side apply.
//!
//! Comes in: the live object, the new one or an applied configuration, and the shape. Goes out: the merged object
//! with its `managedFields`, or the conflicts. Does not know: HTTP, storage, clock (the time comes in).
//! The rules are those of sigs.k8s.io/structured-merge-diff (merge/update.go, typed/{tofieldset,merge,remove}.go).

mod fields;
mod merge;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub(crate) use fields::FieldSet;
use fields::{Changes, compare, field_set};

use crate::schema::Node;
use crate::value::Json as _;

/// A manager is told apart by name, operation and subresource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ManagerKey {
    manager: String,
    apply: bool,
    subresource: String,
    api_version: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Managed {
    time: String,
    set: FieldSet,
}

type Managers = BTreeMap<ManagerKey, Managed>;

/// Who writes, in what role.
#[derive(Debug, Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) now: &'a str,
    /// Top-level fields that this endpoint does not write and so cannot own.
    pub(crate) ignored: &'a [&'static str],
}

/// Another manager owns a field that the applied configuration wants to change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Conflict {
    pub(crate) manager: String,
    pub(crate) field: String,
}

fn read_managers(object: &Value) -> Managers {
    let mut managers = Managers::new();
    for entry in object.list_at("metadata.managedFields") {
        let key = ManagerKey {
            manager: entry.str_at("manager").to_owned(),
            apply: entry.str_at("operation") == "Apply",
            subresource: entry.str_at("subresource").to_owned(),
            api_version: entry.str_at("apiVersion").to_owned(),
        };
        let set = FieldSet::from_json(entry.get("fieldsV1").unwrap_or(&Value::Null));
        managers.insert(key, Managed { time: entry.str_at("time").to_owned(), set });
    }
    managers
}

fn write_managers(object: &mut Value, managers: Managers) {
    let mut entries: Vec<(ManagerKey, Managed)> = managers.into_iter().collect();
    // Applied entries first, then by time and name, so that the order never flickers.
    entries.sort_by(|(ka, ma), (kb, mb)| {
        kb.apply.cmp(&ka.apply).then_with(|| ma.time.cmp(&mb.time)).then_with(|| ka.cmp(kb))
    });
    let list: Vec<Value> = entries
        .into_iter()
        .map(|(key, managed)| {
            let mut entry = json!({
                "manager": key.manager, "operation": if key.apply { "Apply" } else { "Update" },
                "apiVersion": key.api_version, "time": managed.time,
                "fieldsType": "FieldsV1", "fieldsV1": managed.set.to_json(),
            });
            if !key.subresource.is_empty() {
                entry["subresource"] = key.subresource.into();
            }
            entry
        })
        .collect();
    if list.is_empty() {
        object.remove_at("metadata.managedFields");
    } else {
        object.set_at("metadata.managedFields", Value::Array(list));
    }
}

/// The object as ownership sees it: without the fields that nobody owns.
fn owned_view(object: &Value, ignored: &[&str]) -> Value {
    let mut view = object.clone();
    if let Some(map) = view.as_object_mut() {
        for name in ["apiVersion", "kind"].iter().chain(ignored) {
            map.remove(*name);
        }
        if let Some(meta) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            for name in [
                "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
                "managedFields", "resourceVersion", "generateName", "deletionTimestamp", "deletionGracePeriodSeconds",
            ] {
                meta.remove(name);
            }
            if meta.is_empty() {
                map.remove("metadata");
            }
        }
    }
    view
}

/// Records what a create, update or patch changed.
pub(crate) fn track_update(shape: &Node, live: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    // A client that sends `managedFields: []` asks for a reset; otherwise the live record stays authoritative.
    let reset = new.at("metadata.managedFields").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let mut managers = live.filter(|_| !reset).map(read_managers).unwrap_or_default();
    let empty = Value::Object(Map::new());
    let before = live.map(|l| owned_view(l, writer.ignored)).unwrap_or_else(|| empty.clone());
    let after = owned_view(new, writer.ignored);
    let changes = compare(shape, &before, &after);
    let key = ManagerKey {
        manager: writer.manager.to_owned(),
        apply: false,
        subresource: writer.subresource.to_owned(),
        api_version: new.str_at("apiVersion").to_owned(),
    };
    if !reset && !changes.is_empty() {
        let touched = changes.touched();
        for (other, managed) in managers.iter_mut() {
            if *other != key {
                managed.set.subtract(&touched);
            }
            managed.set.subtract(&changes.removed);
        }
        let own = managers
            .entry(key)
            .or_insert_with(|| Managed { time: writer.now.to_owned(), set: FieldSet::default() });
        let before = own.set.clone();
        own.set.add(&touched);
        own.set.subtract(&changes.removed);
        if own.set != before {
            own.time = writer.now.to_owned();
        }
    }
    managers.retain(|_, managed| !managed.set.is_empty());
    write_managers(new, managers);
}

/// Server-side apply of `config` onto `live`.
pub(crate) fn server_side_apply(
    shape: &Node,
    live: Option<&Value>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Value, Vec<Conflict>> {
    let empty = Value::Object(Map::new());
    let live_value = live.unwrap_or(&empty);
    let mut managers = read_managers(live_value);
    let key = ManagerKey {
        manager: writer.manager.to_owned(),
        apply: true,
        subresource: writer.subresource.to_owned(),
        api_version: config.str_at("apiVersion").to_owned(),
    };
    let mut config = config.clone();
    if let Some(map) = config.as_object_mut() {
        for name in writer.ignored {
            map.remove(*name);
        }
    }
    let wanted = field_set(shape, &owned_view(&config, writer.ignored));
    let mut merged = merge::merge(shape, live_value, &config);
    // An entry written under another version of the kind is the same applier.
    let last: FieldSet = take_applied(&mut managers, &key);
    let changes = compare(shape, &owned_view(live_value, writer.ignored), &owned_view(&merged, writer.ignored));
    let conflicts = find_conflicts(&managers, &key, &changes);
    if !conflicts.is_empty() && !force {
        return Err(conflicts);
    }
    let touched = changes.touched();
    for (other, managed) in managers.iter_mut() {
        if other.manager != key.manager || !other.apply {
            managed.set.subtract(&touched);
        }
    }
    prune_abandoned(shape, &mut merged, &managers, &last, &wanted);
    let time = match live.map(read_managers).unwrap_or_default().get(&key) {
        Some(old) if old.set == wanted && changes.is_empty() => old.time.clone(),
        _ => writer.now.to_owned(),
    };
    managers.retain(|_, managed| !managed.set.is_empty());
    if !wanted.is_empty() {
        managers.insert(key, Managed { time, set: wanted });
    }
    write_managers(&mut merged, managers);
    Ok(merged)
}

fn take_applied(managers: &mut Managers, key: &ManagerKey) -> FieldSet {
    let mut last = FieldSet::default();
    managers.retain(|other, managed| {
        let same = other.apply && other.manager == key.manager && other.subresource == key.subresource;
        if same {
            last.add(&managed.set);
        }
        !same
    });
    last
}

fn find_conflicts(managers: &Managers, key: &ManagerKey, changes: &Changes) -> Vec<Conflict> {
    let touched = changes.touched();
    let mut conflicts = Vec::new();
    for (other, managed) in managers {
        if other == key {
            continue;
        }
        for field in managed.set.intersection(&touched).paths() {
            let suffix =
                if other.apply { String::new() } else { format!(" using {} at {}", other.api_version, managed.time) };
            let at = if other.subresource.is_empty() {
                String::new()
            } else {
                format!(" with subresource \"{}\"", other.subresource)
            };
            conflicts.push(Conflict { manager: format!("\"{}\"{at}{suffix}", other.manager), field });
        }
    }
    conflicts
}

/// Removes what the applier had and now leaves out, unless somebody else owns it.
fn prune_abandoned(shape: &Node, merged: &mut Value, managers: &Managers, last: &FieldSet, wanted: &FieldSet) {
    let mut abandoned = last.clone();
    abandoned.subtract(wanted);
    for managed in managers.values() {
        abandoned.subtract(&managed.set);
    }
    if abandoned.is_empty() {
        return;
    }
    let mut kept = wanted.clone();
    for managed in managers.values() {
        kept.add(&managed.set);
    }
    merge::remove(shape, merged, &abandoned, &kept);
}

#[cfg(test)]
mod tests;
