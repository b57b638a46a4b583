//! OpenAPI documents, made from the shapes on demand: enough for `kubectl explain`, validation and patches.

use std::collections::{BTreeMap, BTreeSet};

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::reply::{json_reply, typed_reply};
use super::{Ask, Body, gnostic};
use crate::error::{ApiError, ApiResult};
use crate::kinds::{Resource, Shape};
use crate::schema::{ListType, Node, Type, builtin, full_name, types};
use crate::value::{Json as _, hash};

pub(super) fn v3_index(ask: &Ask) -> Response<Body> {
    let kinds = ask.cluster.kinds();
    let mut paths = Map::new();
    for (group, versions) in kinds.groups() {
        for version in versions {
            let path =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let content: Vec<Value> = kinds
                .of_version(&group, &version)
                .map(|r| match &r.shape {
                    Shape::Builtin(_, name) => json!(name),
                    Shape::Custom(_, schema) => json!([r.kind, r.status, r.scale.is_some(), &**schema]),
                })
                .collect();
            let url = format!("/openapi/v3/{path}?hash={:08X}", hash(&json!(content), 0));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json_reply(StatusCode::OK, &json!({"paths": paths}))
}

pub(super) fn v3(ask: &Ask, group: &str, version: &str) -> ApiResult<Response<Body>> {
    let kinds = ask.cluster.kinds();
    let resources: Vec<_> = kinds.of_version(group, version).cloned().collect();
    if resources.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let mut document = Document { prefix: "#/components/schemas/", ..Document::default() };
    for resource in &resources {
        document.add(resource);
    }
    let value = json!({
        "openapi": "3.0.0", "info": {"title": "Slipway devcluster", "version": "v1.34.4"},
        "paths": document.paths, "components": {"schemas": document.schemas},
    });
    Ok(typed_reply(StatusCode::OK, "application/json", value.to_string()))
}

pub(super) fn v2(ask: &Ask) -> Response<Body> {
    let mut document = Document { prefix: "#/definitions/", v2: true, ..Document::default() };
    for resource in ask.cluster.kinds().all() {
        document.add(resource);
    }
    let value = json!({
        "swagger": "2.0", "info": {"title": "Slipway devcluster", "version": "v1.34.4"},
        "paths": document.paths, "definitions": document.schemas,
    });
    if ask.header("accept").starts_with("application/com.github.proto-openapi") {
        return typed_reply(StatusCode::OK, gnostic::CONTENT_TYPE, gnostic::encode(&value));
    }
    json_reply(StatusCode::OK, &value)
}

#[derive(Default)]
struct Document {
    prefix: &'static str,
    v2: bool,
    schemas: BTreeMap<String, Value>,
    paths: Map<String, Value>,
    seen: BTreeSet<&'static str>,
}

impl Document {
    fn add(&mut self, resource: &Resource) {
        let gvk = json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
        let name = match &resource.shape {
            Shape::Builtin(_, name) => {
                self.reference(name);
                full_name(name)
            }
            Shape::Custom(_, schema) => {
                let reversed: Vec<&str> = resource.group.rsplit('.').collect();
                let name = format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind);
                let mut schema: Value = serde_json::from_str(schema).expect("a schema was written as JSON");
                schema.default_at("type", json!("object"));
                let meta = self.reference("meta.v1.ObjectMeta");
                schema.default_at("properties", json!({}));
                schema["properties"]["metadata"] = if self.v2 { meta } else { json!({"allOf": [meta]}) };
                for field in ["apiVersion", "kind"] {
                    schema["properties"][field] = json!({"type": "string"});
                }
                self.schemas.insert(name.clone(), schema);
                name
            }
        };
        if let Some(schema) = self.schemas.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = gvk.clone();
        }
        self.add_paths(resource, &name, &gvk[0]);
    }

    fn add_paths(&mut self, resource: &Resource, name: &str, gvk: &Value) {
        let base = if resource.group.is_empty() {
            format!("/api/{}", resource.version)
        } else {
            format!("/apis/{}/{}", resource.group, resource.version)
        };
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{base}{scope}/{}", resource.plural);
        let operation = |action: &str, parameters: &[&str]| {
            let parameters: Vec<Value> = parameters
                .iter()
                .map(|p| {
                    if self.v2 {
                        json!({"name": p, "in": "query", "type": "string", "uniqueItems": true})
                    } else {
                        json!({"name": p, "in": "query", "schema": {"type": "string", "uniqueItems": true}})
                    }
                })
                .collect();
            let reference = json!({"$ref": format!("{}{name}", self.prefix)});
            let answer = if self.v2 {
                json!({"description": "OK", "schema": reference})
            } else {
                json!({"description": "OK", "content": {"application/json": {"schema": reference}}})
            };
            json!({"operationId": format!("{action}{}{}", resource.version, resource.kind), "parameters": parameters, "responses": {"200": answer},
                   "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk})
        };
        let write = ["dryRun", "fieldManager", "fieldValidation"];
        let forced = ["dryRun", "fieldManager", "fieldValidation", "force"];
        let post = json!({"get": operation("list", &["limit", "continue", "labelSelector", "fieldSelector", "watch"]), "post": operation("post", &write)});
        self.paths.insert(collection.clone(), post);
        if !resource.virtual_only {
            let one = json!({"get": operation("get", &[]), "put": operation("put", &write),
                "patch": operation("patch", &forced), "delete": operation("delete", &["dryRun"])});
            self.paths.insert(format!("{collection}/{{name}}"), one);
        }
    }

    /// A reference to a built-in type, which is added with everything below it.
    fn reference(&mut self, name: &'static str) -> Value {
        if self.seen.insert(name)
            && let Some(node) = builtin(name)
        {
            let schema = self.schema(node);
            self.schemas.insert(full_name(name), schema);
        }
        json!({"$ref": format!("{}{}", self.prefix, full_name(name))})
    }

    fn schema(&mut self, node: &Node) -> Value {
        let mut schema = match node.ty {
            Type::Ref(name) => {
                // The static name lives in the table, so that references can be followed once.
                let name = types().get_key_value(name).map(|(key, _)| *key).unwrap_or(name);
                let reference = self.reference(name);
                return if self.v2 { reference } else { json!({"allOf": [reference]}) };
            }
            Type::Any => json!({"x-kubernetes-preserve-unknown-fields": true}),
            Type::String => json!({"type": "string"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
            Type::Quantity if self.v2 => json!({"type": "string"}),
            Type::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            Type::Integer => json!({"type": "integer", "format": "int32"}),
            Type::Long => json!({"type": "integer", "format": "int64"}),
            Type::Number => json!({"type": "number"}),
            Type::Boolean => json!({"type": "boolean"}),
            Type::IntOrString if self.v2 => json!({"type": "string", "format": "int-or-string"}),
            Type::IntOrString => {
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            Type::Object => {
                let fields: Map<String, Value> =
                    node.fields.iter().map(|(name, child)| (name.clone(), self.schema(child))).collect();
                let mut schema = json!({"type": "object"});
                if !fields.is_empty() {
                    schema["properties"] = Value::Object(fields);
                }
                if !node.required.is_empty() {
                    schema["required"] = json!(node.required);
                }
                schema
            }
            Type::Map => {
                let items = node.items.as_deref().map(|items| self.schema(items));
                json!({"type": "object", "additionalProperties": items})
            }
            Type::Array => {
                let items = node.items.as_deref().map(|items| self.schema(items));
                json!({"type": "array", "items": items})
            }
        };
        annotate(node, &mut schema);
        schema
    }
}

fn annotate(node: &Node, schema: &mut Value) {
    match &node.list {
        ListType::Map(keys) => {
            schema["x-kubernetes-list-type"] = json!("map");
            schema["x-kubernetes-list-map-keys"] = json!(keys);
        }
        ListType::Set => schema["x-kubernetes-list-type"] = json!("set"),
        ListType::Atomic if node.atomic && node.ty == Type::Array => {
            schema["x-kubernetes-list-type"] = json!("atomic")
        }
        ListType::Atomic => {}
    }
    if node.atomic && matches!(node.ty, Type::Object | Type::Map) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    if node.patch.merge {
        let strategy = if node.patch.retain_keys { "merge,retainKeys" } else { "merge" };
        schema["x-kubernetes-patch-strategy"] = json!(strategy);
        if let Some(key) = &node.patch.key {
            schema["x-kubernetes-patch-merge-key"] = json!(key);
        }
    }
}
