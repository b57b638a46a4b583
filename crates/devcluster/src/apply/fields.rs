//! Sets of field paths, kept as the tree that `fieldsV1` is.
//!
//! Path elements stay in their written form: `f:name`, `k:{"name":"a"}`, `v:"x"`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::{ListType, Node, Type};

/// A set of paths. `here` says that the path to this place is itself in the set.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FieldSet {
    here: bool,
    children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    pub(crate) fn is_empty(&self) -> bool {
        !self.here && self.children.values().all(FieldSet::is_empty)
    }

    pub(crate) fn from_json(value: &Value) -> Self {
        let mut set = FieldSet::default();
        if let Some(map) = value.as_object() {
            set.here = map.contains_key(".");
            for (key, inner) in map.iter().filter(|(key, _)| *key != ".") {
                let mut child = FieldSet::from_json(inner);
                // An element without children is a member; "." is only written when there are children too.
                child.here |= inner.as_object().is_none_or(Map::is_empty);
                set.children.insert(key.clone(), child);
            }
        }
        set
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.here && !self.children.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (key, child) in &self.children {
            map.insert(key.clone(), child.to_json());
        }
        Value::Object(map)
    }

    pub(crate) fn add(&mut self, other: &FieldSet) {
        self.here |= other.here;
        for (key, child) in &other.children {
            self.children.entry(key.clone()).or_default().add(child);
        }
    }

    pub(crate) fn subtract(&mut self, other: &FieldSet) {
        self.here &= !other.here;
        for (key, child) in &other.children {
            if let Some(own) = self.children.get_mut(key) {
                own.subtract(child);
                if own.is_empty() {
                    self.children.remove(key);
                }
            }
        }
    }

    pub(crate) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut set = FieldSet { here: self.here && other.here, children: BTreeMap::new() };
        for (key, child) in &self.children {
            if let Some(theirs) = other.children.get(key) {
                let both = child.intersection(theirs);
                if !both.is_empty() {
                    set.children.insert(key.clone(), both);
                }
            }
        }
        set
    }

    pub(crate) fn here(&self) -> bool {
        self.here
    }

    pub(crate) fn child(&self, element: &str) -> Option<&FieldSet> {
        self.children.get(element)
    }

    /// The members as people read them: `.spec.containers[name="a"].image`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(String::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: String, paths: &mut Vec<String>) {
        if self.here {
            paths.push(prefix.clone());
        }
        for (key, child) in &self.children {
            child.collect(format!("{prefix}{}", readable(key)), paths);
        }
    }

    fn insert(&mut self, path: &[String]) {
        match path.split_first() {
            None => self.here = true,
            Some((head, tail)) => self.children.entry(head.clone()).or_default().insert(tail),
        }
    }
}

fn readable(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let parts: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("[{}]", parts.join(","))
        }
        Some(("v", value)) => format!("[={value}]"),
        _ => format!("[{element}]"),
    }
}

/// The path element of a list item, or nothing when it has no usable key.
pub(super) fn item_element(list: &Node, item: &Value) -> Option<String> {
    match &list.resolve_list() {
        ListType::Atomic => None,
        ListType::Set => Some(format!("v:{item}")),
        ListType::Map(keys) => {
            let shape = list.item();
            let mut map = Map::new();
            for key in keys {
                let value = item.get(key).cloned().or_else(|| key_default(shape, key));
                if let Some(value) = value {
                    map.insert(key.clone(), value);
                }
            }
            if map.is_empty() { None } else { Some(format!("k:{}", Value::Object(map))) }
        }
    }
}

/// Key fields that Kubernetes defaults before it compares, so that `protocol` may be left out.
fn key_default(shape: Option<&Node>, key: &str) -> Option<Value> {
    let node = shape?.resolve();
    node.fields.get(key).and_then(|field| field.default.clone()).or_else(|| match key {
        "protocol" if node.rules.is_none() => Some("TCP".into()),
        _ => None,
    })
}

impl Node {
    pub(super) fn resolve_list(&self) -> &ListType {
        match self.ty {
            Type::Ref(_) => &self.resolve().list,
            _ => &self.list,
        }
    }
}

/// All leaves of a value, as an applier owns them.
pub(super) fn field_set(shape: &Node, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(shape, value, &mut Vec::new(), &mut set);
    set
}

fn collect(shape: &Node, value: &Value, path: &mut Vec<String>, set: &mut FieldSet) {
    if !path.is_empty() && shape.is_atomic() {
        set.insert(path);
        return;
    }
    match value {
        Value::Object(map) => {
            let node = shape.resolve();
            for (name, inner) in map {
                path.push(format!("f:{name}"));
                let child = node.child(name).unwrap_or(crate::schema::any());
                collect(child, inner, path, set);
                let empty = inner.is_null() || inner.as_object().is_some_and(Map::is_empty);
                if empty || !node.fields.contains_key(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Value::Array(list) => {
            if *shape.resolve_list() == ListType::Atomic {
                set.insert(path);
                return;
            }
            for item in list {
                let Some(element) = item_element(shape, item) else { continue };
                path.push(element);
                collect(shape.item().unwrap_or(crate::schema::any()), item, path, set);
                set.insert(path);
                path.pop();
            }
        }
        _ => set.insert(path),
    }
}

/// What differs between two versions of an object.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    pub(super) fn touched(&self) -> FieldSet {
        let mut set = self.added.clone();
        set.add(&self.modified);
        set
    }
}

pub(super) fn compare(shape: &Node, before: &Value, after: &Value) -> Changes {
    let mut changes = Changes::default();
    walk(shape, Some(before), Some(after), &mut Vec::new(), &mut changes);
    changes
}

fn walk(shape: &Node, before: Option<&Value>, after: Option<&Value>, path: &mut Vec<String>, out: &mut Changes) {
    match (before, after) {
        (None, None) => {}
        (None, Some(new)) => collect(shape, new, path, &mut out.added),
        (Some(old), None) => {
            collect(shape, old, path, &mut out.removed);
        }
        (Some(old), Some(new)) if old == new => {}
        (Some(_), Some(_)) if !path.is_empty() && shape.is_atomic() => out.modified.insert(path),
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let node = shape.resolve();
            let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                path.push(format!("f:{name}"));
                let child = node.child(name).unwrap_or(crate::schema::any());
                let (was, is) = (old.get(name), new.get(name));
                walk(child, was, is, path, out);
                let open = !node.fields.contains_key(name);
                match (was, is) {
                    (None, Some(v)) if open || is_hollow(v) => out.added.insert(path),
                    (Some(v), None) if open || is_hollow(v) => out.removed.insert(path),
                    _ => {}
                }
                path.pop();
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if *shape.resolve_list() != ListType::Atomic => {
            let item_shape = shape.item().unwrap_or(crate::schema::any());
            let index = |list: &[Value]| -> BTreeMap<String, Value> {
                list.iter().filter_map(|item| Some((item_element(shape, item)?, item.clone()))).collect()
            };
            let (old, new) = (index(old), index(new));
            let elements: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for element in elements {
                path.push(element.clone());
                let (was, is) = (old.get(element), new.get(element));
                walk(item_shape, was, is, path, out);
                match (was, is) {
                    (None, Some(_)) => out.added.insert(path),
                    (Some(_), None) => out.removed.insert(path),
                    _ => {}
                }
                path.pop();
            }
        }
        (Some(_), Some(_)) => out.modified.insert(path),
    }
}

fn is_hollow(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}
