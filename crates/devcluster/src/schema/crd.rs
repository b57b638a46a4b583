//! Turns a CRD's `openAPIV3Schema` into a `Node`, and says what is not structural about it.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::{ListType, Node, Type};

/// What places of one definition say, each text once.
type Said = HashMap<String, Arc<Value>>;

/// Builds the shape of a custom resource. `preserve_root` is for CRDs without a schema.
pub(crate) fn from_openapi(schema: &Value) -> Node {
    let mut root = convert(schema, &mut Said::new());
    root.ty = Type::Object;
    for name in ["apiVersion", "kind"] {
        root.fields.insert(name.to_owned(), Node::of(Type::String));
    }
    root.fields.insert("metadata".to_owned(), Node::of(Type::Ref("meta.v1.ObjectMeta")));
    root
}

fn convert(schema: &Value, said: &mut Said) -> Node {
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let mut node = Node {
        preserve: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        nullable: flag("nullable"),
        default: schema.get("default").filter(|v| !v.is_null()).cloned(),
        atomic: text("x-kubernetes-map-type") == Some("atomic"),
        rules: Some(rules(schema, said)),
        ..Node::default()
    };
    if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
        node.fields = fields.iter().map(|(name, child)| (name.clone(), convert(child, said))).collect();
    }
    if let Some(required) = schema.get("required").and_then(Value::as_array) {
        node.required = required.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    node.ty = match text("type") {
        _ if flag("x-kubernetes-int-or-string") => Type::IntOrString,
        Some("string") => Type::String,
        Some("integer") => Type::Long,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        Some("array") => Type::Array,
        Some("object") => object_type(schema, &mut node, said),
        _ if !node.fields.is_empty() => Type::Object,
        _ => Type::Any,
    };
    if node.embedded {
        for name in ["apiVersion", "kind"] {
            node.fields.entry(name.to_owned()).or_insert_with(|| Node::of(Type::String));
        }
        node.fields.insert("metadata".to_owned(), Node::of(Type::Ref("meta.v1.ObjectMeta")));
        node.ty = Type::Object;
    }
    if node.ty == Type::Array {
        node.items =
            Some(Box::new(schema.get("items").map(|items| convert(items, said)).unwrap_or_default()));
        node.list = list_type(schema);
    }
    node
}

fn object_type(schema: &Value, node: &mut Node, said: &mut Said) -> Type {
    match schema.get("additionalProperties") {
        Some(Value::Bool(true)) => {
            node.items = Some(Box::new(Node { preserve: true, ..Node::default() }));
        }
        Some(inner @ Value::Object(_)) => node.items = Some(Box::new(convert(inner, said))),
        _ => return Type::Object,
    }
    if node.fields.is_empty() { Type::Map } else { Type::Object }
}

fn list_type(schema: &Value) -> ListType {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            ListType::Map(keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => ListType::Atomic,
    }
}

/// What a place says beside its children.
fn rules(schema: &Value, said: &mut Said) -> Arc<Value> {
    let mut rules = serde_json::Map::new();
    for (name, rule) in schema.as_object().into_iter().flatten() {
        match name.as_str() {
            "properties" | "items" | "additionalProperties" | "description" | "default" | "required" => {}
            _ => drop(rules.insert(name.clone(), rule.clone())),
        }
    }
    let rules = Value::Object(rules);
    said.entry(rules.to_string()).or_insert_with(|| Arc::new(rules)).clone()
}

/// What keeps a schema from being structural, with the path of each finding.
pub(crate) fn structural_errors(schema: &Value, path: &str, errors: &mut Vec<(String, String)>) {
    let Some(map) = schema.as_object() else { return };
    let preserve = map.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool).unwrap_or(false);
    let int_or_string = map.get("x-kubernetes-int-or-string").and_then(Value::as_bool).unwrap_or(false);
    if map.get("type").and_then(Value::as_str).unwrap_or("").is_empty() && !preserve && !int_or_string {
        errors.push((
            format!("{path}.type"),
            "Required value: must not be empty for specified object fields".into(),
        ));
    }
    if map.get("type").and_then(Value::as_str) == Some("array") && !map.contains_key("items") {
        errors.push((format!("{path}.items"), "Required value: must be specified".into()));
    }
    if map.contains_key("properties")
        && map.get("additionalProperties").is_some_and(|v| *v != Value::Bool(false))
    {
        errors.push((
            format!("{path}.additionalProperties"),
            "Forbidden: additionalProperties and properties are mutual exclusive".into(),
        ));
    }
    for (name, child) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        structural_errors(child, &format!("{path}.properties[{name}]"), errors);
    }
    if let Some(items) = map.get("items") {
        structural_errors(items, &format!("{path}.items"), errors);
    }
    if let Some(inner @ Value::Object(_)) = map.get("additionalProperties") {
        structural_errors(inner, &format!("{path}.additionalProperties"), errors);
    }
}
