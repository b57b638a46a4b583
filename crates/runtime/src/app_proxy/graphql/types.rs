//! Types of GraphQL, made from those that REST answers with: one description of each, so that the two doors cannot differ.
//!
//! In: types of the contract, by their OpenAPI schemas. Out: objects, inputs and enums of the same names and fields. Maps, and what may
//! be any JSON (an Application), are the scalar `JSON`.

use std::collections::BTreeMap;

use async_graphql::Value as GraphqlValue;
use async_graphql::dynamic::{
    Enum, EnumItem, Field, FieldFuture, FieldValue, InputObject, InputValue, Object, Scalar, SchemaBuilder,
    Type, TypeRef,
};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

const ANY: &str = "JSON";

/// Whether a type is sent or answered: GraphQL keeps them apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

#[derive(Default)]
pub(super) struct Types {
    made: BTreeMap<String, Type>,
}

impl Types {
    /// The type's name, as what is sent.
    pub(super) fn input<T: ToSchema>(&mut self) -> String {
        self.add::<T>(Way::In)
    }

    /// The type's name, as what is answered.
    pub(super) fn output<T: ToSchema>(&mut self) -> String {
        self.add::<T>(Way::Out)
    }

    fn add<T: ToSchema>(&mut self, way: Way) -> String {
        let mut beside: Vec<(String, RefOr<Schema>)> = Vec::new();
        T::schemas(&mut beside);
        let name = T::name().into_owned();
        self.make(&name, &json(&T::schema()), way);
        for (name, schema) in beside {
            self.make(&name, &json(&schema), way);
        }
        name
    }

    fn make(&mut self, name: &str, schema: &Value, way: Way) {
        if self.made.contains_key(name) {
            return;
        }
        let says = schema["description"].as_str().unwrap_or_default();
        let made: Type = if let Some(words) = schema["enum"].as_array() {
            let words = words.iter().filter_map(Value::as_str).map(EnumItem::new);
            let made = Enum::new(name).items(words);
            if says.is_empty() { made } else { made.description(says) }.into()
        } else {
            match way {
                Way::In => input_object(name, schema, says).into(),
                Way::Out => object(name, schema, says).into(),
            }
        };
        self.made.insert(name.to_owned(), made);
    }

    pub(super) fn register(self, builder: SchemaBuilder) -> SchemaBuilder {
        let any = Scalar::new(ANY).description("Any JSON.");
        self.made.into_values().fold(builder.register(any), SchemaBuilder::register)
    }
}

fn json(schema: &RefOr<Schema>) -> Value {
    serde_json::to_value(schema).expect("a schema is JSON")
}

/// Name, type and description of each field.
fn fields(schema: &Value) -> impl Iterator<Item = (&str, TypeRef, &str)> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    schema["properties"].as_object().into_iter().flatten().map(move |(name, schema)| {
        let says = schema["description"].as_str().unwrap_or_default();
        let (kind, nullable) = kind_of(schema);
        let kind = match required.contains(&name.as_str()) && !nullable {
            true => TypeRef::NonNull(Box::new(kind)),
            false => kind,
        };
        (name.as_str(), kind, says)
    })
}

/// The type, and whether it may be null.
fn kind_of(schema: &Value) -> (TypeRef, bool) {
    if let Some(name) = schema["$ref"].as_str() {
        return (TypeRef::named(name.rsplit('/').next().unwrap_or_default()), false);
    }
    if let Some(several) = schema["oneOf"].as_array().or(schema["allOf"].as_array()) {
        let one = several.iter().find(|one| one["type"] != "null").unwrap_or(&Value::Null);
        return (kind_of(one).0, several.iter().any(|one| one["type"] == "null"));
    }
    let words: Vec<&str> = match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let kind = match words.iter().find(|word| **word != "null") {
        Some(&"string") => TypeRef::named(TypeRef::STRING),
        Some(&"integer") => TypeRef::named(TypeRef::INT),
        Some(&"number") => TypeRef::named(TypeRef::FLOAT),
        Some(&"boolean") => TypeRef::named(TypeRef::BOOLEAN),
        Some(&"array") => TypeRef::List(Box::new(TypeRef::NonNull(Box::new(kind_of(&schema["items"]).0)))),
        _ => TypeRef::named(ANY),
    };
    (kind, words.contains(&"null"))
}

fn input_object(name: &str, schema: &Value, says: &str) -> InputObject {
    let made = InputObject::new(name);
    let made = if says.is_empty() { made } else { made.description(says) };
    fields(schema).fold(made, |object, (name, kind, says)| {
        let field = InputValue::new(name, kind);
        object.field(if says.is_empty() { field } else { field.description(says) })
    })
}

fn object(name: &str, schema: &Value, says: &str) -> Object {
    let made = Object::new(name);
    let made = if says.is_empty() { made } else { made.description(says) };
    fields(schema).fold(made, |object, (name, kind, says)| {
        let key = name.to_owned();
        let field = Field::new(name, kind, move |context| {
            let found = match context.parent_value.as_value() {
                Some(GraphqlValue::Object(fields)) => fields.get(key.as_str()).cloned(),
                _ => None,
            };
            // What was left out of the answer, and null, is nothing.
            let found = found.filter(|value| *value != GraphqlValue::Null);
            FieldFuture::Value(found.map(FieldValue::value))
        });
        object.field(if says.is_empty() { field } else { field.description(says) })
    })
}
