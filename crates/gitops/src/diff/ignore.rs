//! Differences that do not count: JSON pointers, jq paths, fields of other managers.

use crate::cluster::{IgnoreStatus, Settings};
use crate::object;
use serde_json::{Map, Value};
use slipway_crd::IgnoreDifference;
use slipway_dialect::glob;
use slipway_dialect::jq::JqPath;

/// All that is to be ignored in one application.
#[derive(Debug, Clone, Default)]
pub struct IgnoreRules {
    rules: Vec<Rule>,
    problems: Vec<String>,
    status: IgnoreStatus,
    aggregated_roles: bool,
    sensitive_annotations: Vec<String>,
}

/// A rule with its expressions read.
#[derive(Debug, Clone)]
struct Rule {
    given: IgnoreDifference,
    expressions: Vec<JqPath>,
}

impl IgnoreRules {
    pub fn new(of_application: &[IgnoreDifference], settings: &Settings) -> Self {
        let mut problems = Vec::new();
        let mut read = |given: &IgnoreDifference| {
            let mut expressions = Vec::new();
            for text in &given.jq_path_expressions {
                match JqPath::parse(text) {
                    Ok(expression) => expressions.push(expression),
                    Err(error) => problems.push(error.to_string()),
                }
            }
            Rule { given: given.clone(), expressions }
        };
        Self {
            rules: of_application.iter().chain(&settings.ignore_differences).map(&mut read).collect(),
            problems,
            status: settings.ignore_status,
            aggregated_roles: settings.ignore_aggregated_roles,
            sensitive_annotations: settings.sensitive_annotations.clone(),
        }
    }

    /// Sentences about rules that cannot be used.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    pub(super) fn ignores_status(&self, custom: bool) -> bool {
        match self.status {
            IgnoreStatus::All => true,
            IgnoreStatus::CustomResources => custom,
            IgnoreStatus::None => false,
        }
    }

    pub(super) fn ignores_aggregated_roles(&self) -> bool {
        self.aggregated_roles
    }

    pub(super) fn sensitive_annotations(&self) -> &[String] {
        &self.sensitive_annotations
    }

    fn matching<'a>(&'a self, object: &'a Value) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(move |rule| {
            let rule = &rule.given;
            glob::matches(&rule.group, object::group(object))
                && glob::matches(&rule.kind, object::kind(object))
                && (rule.name.is_empty() || rule.name == object::name(object))
                && (rule.namespace.is_empty() || rule.namespace == object::namespace(object))
        })
    }

    /// Takes the ignored fields out of both sides.
    pub(super) fn remove_ignored(&self, object: &Value, live: Option<&Value>, a: &mut Value, b: &mut Value) {
        for rule in self.matching(object) {
            for side in [&mut *a, &mut *b] {
                for pointer in &rule.given.json_pointers {
                    remove_pointer(side, pointer);
                }
                for expression in &rule.expressions {
                    // A place that this object does not have is nothing to ignore.
                    let _ = expression.delete_from(side);
                }
            }
            for manager in &rule.given.managed_fields_managers {
                if let Some(owned) = live.and_then(|live| owned_fields(live, manager)) {
                    remove_owned(a, &owned);
                    remove_owned(b, &owned);
                }
            }
        }
    }
}

/// Removes what a JSON pointer names; a path that is not there is fine.
pub(crate) fn remove_pointer(object: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    let last = last.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.remove(&last);
        }
        Some(Value::Array(list)) => {
            if let Ok(index) = last.parse::<usize>()
                && index < list.len()
            {
                list.remove(index);
            }
        }
        _ => {}
    }
}

/// The fields that a manager owns, as managedFields writes them (`f:`, `k:`, `v:`), of all its entries.
fn owned_fields(live: &Value, manager: &str) -> Option<Value> {
    let mut all = Value::Object(Map::new());
    let mut found = false;
    for entry in object::list(live, &["metadata", "managedFields"]) {
        if entry.get("manager").and_then(Value::as_str) == Some(manager)
            && let Some(fields) = entry.get("fieldsV1")
        {
            found = true;
            union(&mut all, fields);
        }
    }
    found.then_some(all)
}

fn union(into: &mut Value, from: &Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        for (key, value) in from {
            union(into.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())), value);
        }
    }
}

/// The live object cut down to what the manager owns: what a server-side apply would take out if it were not
/// in the manifest any more.
pub(super) fn fields_owned_by(live: &Value, manager: &str) -> Option<Value> {
    let owned = owned_fields(live, manager)?;
    Some(select_owned(live, &owned))
}

fn is_leaf(fields: &Value) -> bool {
    fields.as_object().is_none_or(|map| map.keys().all(|key| key == "."))
}

fn select_owned(value: &Value, owned: &Value) -> Value {
    if is_leaf(owned) {
        return value.clone();
    }
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter_map(|(key, value)| {
                    owned.get(format!("f:{key}")).map(|inner| (key.clone(), select_owned(value, inner)))
                })
                .collect(),
        ),
        Value::Array(list) => Value::Array(
            list.iter()
                .filter_map(|item| owned_entry(item, owned).map(|inner| select_item(item, inner)))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// An owned entry of a keyed list keeps its key fields, which are named in its own set as `f:` too.
fn select_item(item: &Value, inner: &Value) -> Value {
    select_owned(item, inner)
}

/// What is owned inside the entry of a list, found by its key (`k:{...}`) or value (`v:...`).
fn owned_entry<'a>(item: &Value, owned: &'a Value) -> Option<&'a Value> {
    owned.as_object()?.iter().find_map(|(name, inner)| {
        let matches = match name.split_at_checked(2)? {
            ("k:", key) => {
                let key: Map<String, Value> = serde_json::from_str(key).ok()?;
                key.iter().all(|(field, value)| match item.get(field) {
                    Some(own) => own == value,
                    None => super::schema::key_default(field).is_some_and(|default| value == default),
                })
            }
            ("v:", value) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item),
            _ => false,
        };
        matches.then_some(inner)
    })
}

/// Takes owned fields out. Key fields of list entries stay while anything else of the entry stays.
fn remove_owned(value: &mut Value, owned: &Value) {
    match value {
        Value::Object(map) => {
            let names: Vec<String> = map.keys().cloned().collect();
            for name in names {
                let Some(inner) = owned.get(format!("f:{name}")) else { continue };
                if is_leaf(inner) {
                    map.remove(&name);
                } else if let Some(child) = map.get_mut(&name) {
                    remove_owned(child, inner);
                }
            }
        }
        Value::Array(list) => {
            list.retain_mut(|item| {
                let Some(inner) = owned_entry(item, owned) else { return true };
                if item.is_object() && !is_leaf(inner) {
                    remove_owned(item, inner);
                    return item.as_object().is_some_and(|map| !map.is_empty());
                }
                false
            });
        }
        _ => {}
    }
}

/// RespectIgnoreDifferences: what is ignored is taken from live, so that an apply leaves it alone.
pub(super) fn restore_ignored(target: &Value, live: &Value, rules: &IgnoreRules) -> Value {
    let mut stripped_live = live.clone();
    let mut stripped_target = target.clone();
    rules.remove_ignored(target, Some(live), &mut stripped_live, &mut stripped_target);
    let mut result = stripped_target.clone();
    overlay(&mut result, live, &stripped_live, "");
    result
}

/// Puts back from `live` what is not in `stripped`: those are the ignored fields.
fn overlay(result: &mut Value, live: &Value, stripped: &Value, path: &str) {
    let (Value::Object(result), Value::Object(live), Value::Object(stripped)) = (result, live, stripped)
    else {
        return;
    };
    for (key, value) in live {
        if path.is_empty() && key == "status" {
            continue;
        }
        let inner = format!("{path}/{key}");
        match stripped.get(key) {
            None => {
                result.insert(key.clone(), value.clone());
            }
            Some(same) if same == value => {}
            Some(changed) => {
                if let (Value::Array(live_list), Value::Array(_)) = (value, changed) {
                    overlay_list(result, key, live_list, changed, &inner);
                } else if let Some(slot) = result.get_mut(key) {
                    overlay(slot, value, changed, &inner);
                }
            }
        }
    }
}

/// Lists: entry by entry where the lengths agree, else the live list as a whole.
fn overlay_list(result: &mut Map<String, Value>, key: &str, live: &[Value], stripped: &Value, path: &str) {
    let stripped = stripped.as_array().map(Vec::as_slice).unwrap_or_default();
    match result.get_mut(key).and_then(Value::as_array_mut) {
        Some(list) if list.len() == live.len() && stripped.len() == live.len() => {
            for ((item, live), stripped) in list.iter_mut().zip(live).zip(stripped) {
                overlay(item, live, stripped, path);
            }
        }
        _ => {
            result.insert(key.to_string(), Value::Array(live.to_vec()));
        }
    }
}
