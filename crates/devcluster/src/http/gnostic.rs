//! The OpenAPI v2 document in the protobuf form that Go clients ask for (gnostic's OpenAPIv2.proto).
//!
//! Comes in: the JSON document. Goes out: its definitions as bytes; paths are left out, clients that need them use v3.

use serde_json::{Map, Value};

use crate::value::Json as _;

// Asked for with an `@`, answered with a dot: an `@` is no media type.
pub(super) const CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A length-delimited field: a text or a message.
fn field(tag: u64, bytes: &[u8], out: &mut Vec<u8>) {
    number(tag << 3 | 2, out);
    number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn text(tag: u64, value: &str, out: &mut Vec<u8>) {
    if !value.is_empty() {
        field(tag, value.as_bytes(), out);
    }
}

/// `NamedSchema` entries in field 1: what both Definitions and Properties are.
fn named(map: Option<&Map<String, Value>>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in map.into_iter().flatten() {
        let mut entry = Vec::new();
        text(1, name, &mut entry);
        field(2, &schema(value), &mut entry);
        field(1, &entry, &mut out);
    }
    out
}

fn wrapped(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    field(1, &schema(value), &mut out);
    out
}

fn schema(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(1, value["$ref"].as_str().unwrap_or(""), &mut out);
    text(2, value.str_at("format"), &mut out);
    text(4, value.str_at("description"), &mut out);
    for name in value.list_at("required").iter().filter_map(Value::as_str) {
        text(19, name, &mut out);
    }
    if let Some(inner @ Value::Object(_)) = value.get("additionalProperties") {
        field(21, &wrapped(inner), &mut out);
    }
    if let Some(ty) = value.get("type").and_then(Value::as_str) {
        let mut item = Vec::new();
        text(1, ty, &mut item);
        field(22, &item, &mut out);
    }
    if let Some(inner @ Value::Object(_)) = value.get("items") {
        field(23, &wrapped(inner), &mut out);
    }
    if let Some(map) = value.map_at("properties") {
        field(25, &named(Some(map)), &mut out);
    }
    for (name, extension) in
        value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-"))
    {
        let (mut any, mut entry) = (Vec::new(), Vec::new());
        // The value travels as YAML, which JSON is.
        text(2, &format!("{extension}\n"), &mut any);
        text(1, name, &mut entry);
        field(2, &any, &mut entry);
        field(31, &entry, &mut out);
    }
    out
}

pub(super) fn encode(document: &Value) -> Vec<u8> {
    let (mut out, mut info) = (Vec::new(), Vec::new());
    text(1, document.str_at("swagger"), &mut out);
    text(1, document.str_at("info.title"), &mut info);
    text(2, document.str_at("info.version"), &mut info);
    field(2, &info, &mut out);
    field(8, &[], &mut out);
    field(9, &named(document.map_at("definitions")), &mut out);
    out
}
