//! The objects of routers: as they are, and what becomes of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::names;
use crate::plan::{Action, Target};

/// An object of a router. Which version of its kind is served is for the cluster to say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Reference {
    pub(super) fn new((group, kind): (&str, &str), namespace: &str, name: &str) -> Self {
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
        Self { group, kind, namespace, name }
    }

    fn target(&self, api_version: &str) -> Target {
        Target::new(api_version, &self.kind, &self.namespace, &self.name)
    }
}

/// What there is of the objects that were asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    pub objects: BTreeMap<Reference, Value>,
    /// The `apiVersion` that the cluster serves of a kind, by group and kind.
    pub served: BTreeMap<(String, String), String>,
}

impl Seen {
    pub(super) fn get(&self, at: &Reference) -> Result<&Value, String> {
        self.objects.get(at).ok_or_else(|| format!("{} \"{}\" not found", at.kind, at.name))
    }

    pub(super) fn find(&self, at: &Reference) -> Option<&Value> {
        self.objects.get(at)
    }

    /// The version to make a new object with.
    pub(super) fn version(&self, (group, kind): (&str, &str), otherwise: &str) -> String {
        let served = self.served.get(&(group.to_owned(), kind.to_owned()));
        served.cloned().unwrap_or_else(|| format!("{group}/{otherwise}"))
    }

    /// As if it had been written.
    pub(crate) fn take(&mut self, write: &Write) {
        match write {
            Write::Create(at, object) | Write::Change(at, object) => {
                self.objects.insert(at.clone(), object.clone());
            }
            Write::Delete(at) => {
                self.objects.remove(at);
            }
        }
    }

    /// The request that writes it; none when there is nothing to change.
    pub(crate) fn action(&self, write: &Write) -> Option<Action> {
        match write {
            Write::Create(_, object) => Some(Action::Create(object.clone())),
            Write::Change(at, after) => {
                let before = self.objects.get(at)?;
                let mut patch = difference(before, after)?;
                // Lists are written whole: nobody else's change may be lost with them.
                if let Some(version) = before["metadata"]["resourceVersion"].as_str() {
                    patch["metadata"]["resourceVersion"] = version.into();
                }
                let api_version = before["apiVersion"].as_str().unwrap_or_default();
                Some(Action::patch(at.target(api_version), patch))
            }
            Write::Delete(at) => {
                let before = self.objects.get(at)?;
                let api_version = before["apiVersion"].as_str().unwrap_or_default();
                let uid = before["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                Some(Action::Delete { target: at.target(api_version), uid })
            }
        }
    }
}

/// What becomes of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Create(Reference, Value),
    Change(Reference, Value),
    Delete(Reference),
}

/// The change of an object, if it is one. That a Rollout divides it stands on it, so that a GitOps engine knows what to leave alone. Several
/// Rollouts may have routes in one object: the first one's name stays, because each change wakes the others, and they would write
/// their names in turns for ever.
pub(super) fn change(at: &Reference, before: &Value, mut after: Value, rollout: &str) -> Vec<Write> {
    if text(&after["metadata"]["annotations"][names::MANAGED_BY]).is_empty() {
        after["metadata"]["annotations"][names::MANAGED_BY] = rollout.into();
    }
    without_nothing(&mut after);
    if *before == after { Vec::new() } else { vec![Write::Change(at.clone(), after)] }
}

/// Fields that were only looked at are none; Kubernetes keeps no nulls.
fn without_nothing(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nothing);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nothing),
        _ => {}
    }
}

/// A JSON merge patch that leads from one to the other.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else { return Some(after.clone()) };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(name) {
            None => {
                patch.insert(name.clone(), value.clone());
            }
            Some(known) => patch.extend(difference(known, value).map(|inner| (name.clone(), inner))),
        }
    }
    Some(Value::Object(patch))
}

/// No longer than this in bytes; names that users write may hold any letter.
pub(super) fn cut(mut name: String, bytes: usize) -> String {
    name.truncate(name.floor_char_boundary(bytes));
    name
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The items of a list; nothing when it is none.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Sets a number where it differs, so that a number which is written as `20.0` stays as it is.
pub(super) fn set_number(value: &mut Value, number: i64) {
    if value.as_f64() != Some(number as f64) {
        *value = json!(number);
    }
}

/// Ours as they are there, where they say what is wanted: an API server fills in defaults, which are no difference.
pub(super) fn as_they_are(own: Vec<Value>, there: &[Value]) -> Vec<Value> {
    let known =
        |one: &Value| there.iter().find(|other| other["name"] == one["name"] && covers(other, one)).cloned();
    own.into_iter().map(|one| known(&one).unwrap_or(one)).collect()
}

/// Everything that is wanted is there; what is there besides does not count.
fn covers(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| there.get(name).is_some_and(|known| covers(known, value)))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(known, value)| covers(known, value))
        }
        (Value::Number(there), Value::Number(wanted)) => there.as_f64() == wanted.as_f64(),
        (there, wanted) => there == wanted,
    }
}

/// True when this Rollout made the object.
pub(super) fn is_owned(object: &Value, uid: &str) -> bool {
    items(&object["metadata"]["ownerReferences"])
        .iter()
        .any(|owner| owner["controller"] == true && owner["uid"] == uid)
}
