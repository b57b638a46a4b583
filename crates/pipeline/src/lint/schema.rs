//! A JSON Schema of the language for editors, made from the same shapes that the linter checks.

use serde_json::{Map, Value, json};

use crate::lint::shape::{Object, Rule, Shape};
use crate::lint::steps::{self, Setting};
use crate::parse::KNOWN_TYPES;

const SHAPED_TYPES: [&str; 14] = [
    "freestyle",
    "build",
    "push",
    "push-tag",
    "git-clone",
    "composition",
    "launch-composition",
    "deploy",
    "pending-approval",
    "parallel",
    "helm",
    "travis",
    "simple_travis",
    "integration-test",
];

/// Draft-07, which is what editors know.
pub fn schema() -> Value {
    let mut root = of(&steps::root());
    let step_map = json!({
        "type": "object",
        "propertyNames": { "pattern": "^[^.#$\\[\\]]*$", "maxLength": 150 },
        "additionalProperties": { "$ref": "#/definitions/step" },
    });
    root["properties"]["steps"] = step_map.clone();
    root["properties"]["version"] = json!({ "enum": [1, "1", "1.0"], "description": "always '1.0'" });
    let mut definitions = Map::new();
    let setting = Setting { stages: &[], build_v2: true, in_hook: false };
    let mut choices = Vec::new();
    for type_name in SHAPED_TYPES {
        let Some(Shape::Object(object)) = steps::step(type_name, &setting) else { continue };
        let mut shape = step_object(&object, type_name);
        if type_name == "parallel" {
            shape["properties"]["steps"] = step_map.clone();
        }
        definitions.insert(type_name.to_owned(), shape);
        let then = json!({ "$ref": format!("#/definitions/{type_name}") });
        let named = json!({ "properties": { "type": { "const": type_name } }, "required": ["type"] });
        choices.push(json!({ "if": named, "then": then }));
    }
    choices.push(json!({
        "if": { "not": { "anyOf": [{ "required": ["type"] }, { "required": ["matrix"] }, { "required": ["scale"] }] } },
        "then": { "$ref": "#/definitions/freestyle" },
    }));
    definitions.insert(
        "step".to_owned(),
        json!({
            "type": "object",
            "properties": { "type": { "type": "string", "examples": KNOWN_TYPES } },
            "allOf": choices,
        }),
    );
    root["definitions"] = Value::Object(definitions);
    root["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    root["title"] = json!("Slipway pipeline");
    root
}

/// A step may give its fields under `arguments` too, so what is required may stand in either place.
fn step_object(object: &Object, type_name: &str) -> Value {
    let mut shape = of(&Shape::Object(Box::new(object.clone())));
    let required = shape.as_object_mut().and_then(|shape| shape.remove("required"));
    let either: Vec<Value> = required
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|field| {
            let inside = json!({
                "required": ["arguments"],
                "properties": { "arguments": { "required": [field] } },
            });
            json!({ "anyOf": [{ "required": [field] }, inside, { "required": ["matrix"] }, { "required": ["scale"] }] })
        })
        .collect();
    if !either.is_empty() {
        shape["allOf"] = Value::Array(either);
    }
    for block in ["scale", "matrix"] {
        shape["properties"][block] = json!({ "type": "object" });
    }
    shape["properties"]["stage"] = json!({ "type": "string", "description": "one of the root's `stages`" });
    shape["description"] = json!(format!("a {type_name} step"));
    shape
}

fn of(shape: &Shape) -> Value {
    let variable = json!({ "type": "string", "pattern": "^\\$\\{\\{.+\\}\\}$" });
    match shape {
        Shape::Any => json!({}),
        Shape::Forbidden => json!(false),
        Shape::Text => json!({ "type": "string", "minLength": 1 }),
        Shape::TextLike(_, wanted) => json!({ "type": "string", "minLength": 1, "description": wanted }),
        Shape::Word(words) if words.is_empty() => json!({ "type": "string" }),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::Number => json!({ "type": ["number", "string"] }),
        Shape::Positive => {
            json!({ "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "string" }] })
        }
        Shape::Flag => {
            json!({ "anyOf": [{ "type": "boolean" }, { "enum": ["true", "false", "yes", "no", "on", "off"] }, variable] })
        }
        Shape::StrictFlag => json!({ "anyOf": [{ "type": "boolean" }, variable] }),
        Shape::List { item, min } => json!({ "type": "array", "items": of(item), "minItems": min }),
        Shape::Map { value, min, .. } => {
            json!({ "type": "object", "additionalProperties": of(value), "minProperties": min })
        }
        Shape::Either(shapes) => json!({ "anyOf": shapes.iter().map(of).collect::<Vec<_>>() }),
        Shape::OrNull(inner) => json!({ "anyOf": [{ "type": "null" }, of(inner)] }),
        Shape::Object(object) => of_object(object),
    }
}

fn of_object(object: &Object) -> Value {
    let mut properties = Map::new();
    for field in &object.fields {
        properties.insert(field.name.to_owned(), of(&field.shape));
    }
    for rule in &object.rules {
        if let Rule::InsteadOf { field, .. } | Rule::NeedsSwitch { field, .. } = rule {
            properties.insert((*field).to_owned(), of(&Shape::Text));
        }
    }
    for (old, new) in &object.renames {
        if let Some(known) = properties.get(*new).cloned() {
            properties.insert((*old).to_owned(), known);
        }
    }
    let required: Vec<&str> =
        object.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut shape = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        shape["required"] = json!(required);
    }
    if !object.open {
        shape["additionalProperties"] = json!(false);
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_type_and_root_key_is_described() {
        let schema = schema();
        for type_name in SHAPED_TYPES {
            assert!(schema["definitions"][type_name]["properties"].is_object(), "{type_name}");
        }
        let root: Vec<&String> =
            schema["properties"].as_object().map(|keys| keys.keys().collect()).unwrap_or_default();
        assert_eq!(root.len(), 11, "{root:?}");
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["definitions"]["freestyle"]["properties"]["shell"]["enum"], json!(["sh", "bash"]));
        assert!(schema["definitions"]["build"]["properties"]["image-name"].is_object(), "old spellings too");
    }
}
