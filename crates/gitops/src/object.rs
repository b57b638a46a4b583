//! Kubernetes objects as JSON values: who an object is and what its metadata says.
//!
//! Values come from a render or a cluster and may be malformed; every helper answers with something empty then.

use serde_json::{Map, Value};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// What identifies an object in a cluster, whatever version it is read in.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct ResourceKey {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl ResourceKey {
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(object: &Value) -> Self {
        Self::new(group(object), kind(object), namespace(object), name(object))
    }

    /// `group/kind/name`, as status messages write it (a core kind starts with `/`).
    pub fn short(&self) -> String {
        format!("{}/{}/{}", self.group, self.kind, self.name)
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}", self.name)
    }
}

/// A whole object on its way to or from a cluster. It may hold a Secret, so it prints as its key alone.
#[derive(Clone, PartialEq)]
pub struct Manifest(Arc<Value>);

impl Manifest {
    pub fn new(object: Value) -> Self {
        Self(Arc::new(object))
    }

    pub fn key(&self) -> ResourceKey {
        ResourceKey::of(self)
    }

    pub fn to_value(&self) -> Value {
        (*self.0).clone()
    }
}

impl Deref for Manifest {
    type Target = Value;
    fn deref(&self) -> &Value {
        &self.0
    }
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({})", self.key())
    }
}

/// Text at a path of field names, or "".
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a path of field names.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(*field))
}

/// A whole number at a path of field names.
pub fn integer(object: &Value, path: &[&str]) -> Option<i64> {
    let value = at(object, path)?;
    value.as_i64().or_else(|| value.as_f64().map(|f| f as i64))
}

/// The list at a path of field names, or an empty one.
pub fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub fn api_version(object: &Value) -> &str {
    text(object, &["apiVersion"])
}

pub fn group(object: &Value) -> &str {
    api_version(object).split_once('/').map(|(group, _)| group).unwrap_or_default()
}

pub fn version(object: &Value) -> &str {
    let whole = api_version(object);
    whole.split_once('/').map_or(whole, |(_, version)| version)
}

pub fn kind(object: &Value) -> &str {
    text(object, &["kind"])
}

pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

pub fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

pub fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    at(object, &["metadata", "annotations"])?.get(name)?.as_str()
}

pub fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    at(object, &["metadata", "labels"])?.get(name)?.as_str()
}

/// The comma-separated parts of an annotation, trimmed, empty ones left out.
pub fn annotation_parts<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = &'a str> {
    annotation(object, name).unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty())
}

pub fn is_being_deleted(object: &Value) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}

pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    list(object, &["metadata", "finalizers"]).iter().any(|f| f.as_str() == Some(finalizer))
}

pub fn has_owner(object: &Value) -> bool {
    !list(object, &["metadata", "ownerReferences"]).is_empty()
}

/// True for a CustomResourceDefinition.
pub fn is_crd(object: &Value) -> bool {
    kind(object) == "CustomResourceDefinition" && group(object) == "apiextensions.k8s.io"
}

/// `metadata`, made if it is not there.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    map_mut(object.as_object_mut()?, "metadata")
}

/// Sets an annotation. An object that is not a map is left alone.
pub fn set_annotation(object: &mut Value, name: &str, value: &str) {
    if let Some(map) = metadata_mut(object).and_then(|meta| map_mut(meta, "annotations")) {
        map.insert(name.into(), value.into());
    }
}

/// Sets a label. An object that is not a map is left alone.
pub fn set_label(object: &mut Value, name: &str, value: &str) {
    if let Some(map) = metadata_mut(object).and_then(|meta| map_mut(meta, "labels")) {
        map.insert(name.into(), value.into());
    }
}

fn map_mut<'a>(parent: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    let slot = parent.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}
