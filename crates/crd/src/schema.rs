//! Schemas of custom resources, from the types that [`crate::wire`] declares.
//!
//! They name what we know and let the rest pass (`x-kubernetes-preserve-unknown-fields`), as the types do: a manifest written for
//! a newer Argo must not lose fields here. A type says what it is by [`Schema`]; where the type says too little (a number or a
//! string, one of a few words), the field says more beside it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub(crate) trait Schema {
    fn schema() -> Value;
}

impl Schema for String {
    fn schema() -> Value {
        json!({"type": "string"})
    }
}

impl Schema for i64 {
    fn schema() -> Value {
        json!({"type": "integer", "format": "int64"})
    }
}

impl Schema for bool {
    fn schema() -> Value {
        json!({"type": "boolean"})
    }
}

/// Whatever it is.
impl Schema for Value {
    fn schema() -> Value {
        json!({"x-kubernetes-preserve-unknown-fields": true})
    }
}

impl<T: Schema> Schema for Option<T> {
    fn schema() -> Value {
        T::schema()
    }
}

impl<T: Schema> Schema for Vec<T> {
    fn schema() -> Value {
        list(T::schema())
    }
}

impl<T: Schema> Schema for BTreeMap<String, T> {
    fn schema() -> Value {
        map_of(T::schema())
    }
}

pub(crate) fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

pub(crate) fn map_of(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

/// An object of which nothing is said.
pub(crate) fn open() -> Value {
    open_with(&[])
}

/// An object whose named fields are typed and whose other fields pass.
pub(crate) fn open_with(fields: &[(&str, Value)]) -> Value {
    let fields: Map<_, _> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": fields, "x-kubernetes-preserve-unknown-fields": true})
}

pub(crate) fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

pub(crate) fn text_of_at_most(chars: usize) -> Value {
    json!({"type": "string", "maxLength": chars})
}

pub(crate) fn int_or_string() -> Value {
    json!({"x-kubernetes-int-or-string": true})
}

/// A whole custom resource: the API server knows what metadata is and keeps no fields beside these.
pub(crate) fn root<T: Schema>() -> Value {
    let mut schema = T::schema();
    schema["required"] = json!(["metadata", "spec"]);
    schema["properties"]["metadata"] = json!({"type": "object"});
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("x-kubernetes-preserve-unknown-fields");
    }
    schema
}

/// A field as it is declared.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Where it is not the name in camelCase.
    pub(crate) renamed: Option<&'static str>,
    pub(crate) docs: &'static [&'static str],
    pub(crate) required: bool,
}

/// An object that is being described.
pub(crate) struct Object {
    description: String,
    fields: Map<String, Value>,
    required: Vec<String>,
}

impl Object {
    pub(crate) fn new(docs: &[&str]) -> Self {
        Self { description: sentence(docs), fields: Map::new(), required: Vec::new() }
    }

    pub(crate) fn field(&mut self, field: Field, mut schema: Value) {
        let name = field.renamed.map_or_else(|| camel_case(field.name), str::to_owned);
        if !field.docs.is_empty() {
            schema["description"] = sentence(field.docs).into();
        }
        if field.required {
            self.required.push(name.clone());
        }
        self.fields.insert(name, schema);
    }

    pub(crate) fn finish(mut self) -> Value {
        let mut schema = json!({"type": "object", "properties": self.fields, "x-kubernetes-preserve-unknown-fields": true});
        if !self.description.is_empty() {
            schema["description"] = self.description.into();
        }
        if !self.required.is_empty() {
            self.required.sort();
            schema["required"] = json!(self.required);
        }
        schema
    }
}

fn sentence(docs: &[&str]) -> String {
    docs.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// As serde writes it.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut text, word| {
        let mut letters = word.chars();
        text.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        text.push_str(letters.as_str());
        text
    })
}

/// The other name of a field, if it has one.
macro_rules! named {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}

/// The schema of a field: its own, or that of its type.
macro_rules! schema_of {
    ($type:ty) => {
        <$type as Schema>::schema()
    };
    ($type:ty, $schema:expr) => {
        $schema
    };
}
pub(crate) use {named, schema_of};

#[cfg(test)]
#[allow(unreachable_pub, reason = "the macro makes public structs")]
mod tests {
    use super::*;
    use crate::wire::wire_struct;

    wire_struct! {
        /// A toy,
        /// in two lines.
        Toy {
            keep { repo_url as "repoURL": String, }
            write { phase: Option<String> => one_of(&["On", "Off"]), }
            omit {
                /// How many.
                max_count: i64,
                anything: Value,
                labels: BTreeMap<String, bool>,
            }
        }
    }

    #[test]
    fn a_struct_of_the_wire_tells_its_schema() {
        let wanted = json!({"type": "object", "description": "A toy, in two lines.", "required": ["repoURL"],
        "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "repoURL": {"type": "string"},
            "phase": {"type": "string", "enum": ["On", "Off"]},
            "maxCount": {"type": "integer", "format": "int64", "description": "How many."},
            "anything": {"x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "boolean"}},
        }});
        assert_eq!(Toy::schema(), wanted);
        let toy: Toy =
            serde_json::from_value(json!({"repoURL": "r", "maxCount": null, "more": 1})).expect("readable");
        let written = json!({"repoURL": "r", "phase": null, "more": 1});
        assert_eq!(serde_json::to_value(&toy).expect("writable"), written);
    }
}
