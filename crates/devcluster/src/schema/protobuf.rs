//! Reads objects in Kubernetes' protobuf encoding, which typed clients such as `kubectl create` send.
//!
//! Comes in: bytes. Goes out: the same object as JSON. Answers are always JSON, which those clients read too.
//! `protobuf.txt` has the field numbers: `number:field:type`. Types as in `builtin.txt`, with `*` repeated, `%` a map by
//! string, `d` a double, `i` any integer; `^` as field means that the message's fields are inlined; a trailing `?` means
//! that a zero value is left out, as Go's JSON encoder does.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::value::{base64_encode, time_text};

static TABLE: &str = include_str!("protobuf.txt");

struct Field {
    name: &'static str,
    ty: &'static str,
    drop_zero: bool,
}

static MESSAGES: LazyLock<HashMap<&'static str, HashMap<u64, Field>>> = LazyLock::new(|| {
    let mut messages = HashMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let fields = words.filter_map(|word| {
            let mut parts = word.splitn(3, ':');
            let number = parts.next()?.parse().ok()?;
            let (name, ty) = (parts.next()?, parts.next()?);
            Some((number, Field { name, ty: ty.trim_end_matches(['?', '!']), drop_zero: ty.ends_with('?') }))
        });
        messages.insert(name, fields.collect());
    }
    messages
});

const MAGIC: &[u8] = b"k8s\0";

/// Decodes a whole body. `find` gives the built-in type's name for an apiVersion and kind.
pub(crate) fn decode(bytes: &[u8], find: impl Fn(&str, &str) -> Option<&'static str>) -> Result<Value, String> {
    let body = bytes.strip_prefix(MAGIC).ok_or("the body does not begin with Kubernetes' protobuf mark")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), Vec::new());
    for (number, value) in fields(body)? {
        match (number, value) {
            (1, Wire::Bytes(meta)) => {
                for (number, value) in fields(meta)? {
                    if let Wire::Bytes(text) = value {
                        let text = String::from_utf8_lossy(text).into_owned();
                        if number == 1 { api_version = text } else { kind = text }
                    }
                }
            }
            (2, Wire::Bytes(inner)) => raw = inner.to_vec(),
            _ => {}
        }
    }
    let name = find(&api_version, &kind).ok_or_else(|| format!("{kind} of {api_version} is not read from protobuf here; send JSON"))?;
    let mut object = message(name, &raw)?;
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), json!(api_version));
        map.insert("kind".to_owned(), json!(kind));
    }
    Ok(object)
}

enum Wire<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &[u8], position: &mut usize) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*position).ok_or("the message ends in the middle of a number")?;
        *position += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number is too long".to_owned())
}

fn fields(bytes: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, String> {
    let mut list = Vec::new();
    let mut position = 0;
    let take = |position: &mut usize, length: usize| {
        let end = position.checked_add(length).ok_or("a length is too large")?;
        let part = bytes.get(*position..end).ok_or("the message is cut off")?;
        *position = end;
        Ok::<_, String>(part)
    };
    while position < bytes.len() {
        let tag = varint(bytes, &mut position)?;
        let value = match tag & 7 {
            0 => Wire::Number(varint(bytes, &mut position)?),
            1 => Wire::Fixed(u64::from_le_bytes(take(&mut position, 8)?.try_into().map_err(|_| "eight bytes")?)),
            2 => {
                let length = varint(bytes, &mut position)? as usize;
                Wire::Bytes(take(&mut position, length)?)
            }
            5 => Wire::Fixed(u64::from(u32::from_le_bytes(take(&mut position, 4)?.try_into().map_err(|_| "four bytes")?))),
            other => return Err(format!("wire type {other} is unknown")),
        };
        list.push((tag >> 3, value));
    }
    Ok(list)
}

fn message(name: &str, bytes: &[u8]) -> Result<Value, String> {
    let table = MESSAGES.get(name).ok_or_else(|| format!("type {name} is unknown"))?;
    let mut map = Map::new();
    for (number, wire) in fields(bytes)? {
        let Some(field) = table.get(&number) else { continue };
        if let Some(ty) = field.ty.strip_prefix('*') {
            let item = value(ty, wire)?;
            if let Value::Array(list) = map.entry(field.name).or_insert_with(|| json!([])) {
                list.push(item);
            }
        } else if let Some(ty) = field.ty.strip_prefix('%') {
            let Wire::Bytes(entry) = wire else { continue };
            let (key, item) = map_entry(ty, entry)?;
            if let Value::Object(inner) = map.entry(field.name).or_insert_with(|| json!({})) {
                inner.insert(key, item);
            }
        } else {
            let item = value(field.ty, wire)?;
            if field.name == "^" {
                if let Value::Object(inner) = item {
                    map.extend(inner);
                }
            } else if !(item.is_null() || field.drop_zero && is_zero(&item)) {
                map.insert(field.name.to_owned(), item);
            }
        }
    }
    Ok(Value::Object(map))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(flag) => !flag,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null => true,
    }
}

fn map_entry(ty: &str, bytes: &[u8]) -> Result<(String, Value), String> {
    let (mut key, mut item) = (String::new(), None);
    for (number, wire) in fields(bytes)? {
        match (number, wire) {
            (1, Wire::Bytes(text)) => key = String::from_utf8_lossy(text).into_owned(),
            (2, wire) => item = Some(value(ty, wire)?),
            _ => {}
        }
    }
    Ok((key, item.unwrap_or(json!(""))))
}

fn value(ty: &str, wire: Wire<'_>) -> Result<Value, String> {
    Ok(match (ty, wire) {
        ("s", Wire::Bytes(text)) => json!(String::from_utf8_lossy(text)),
        ("y", Wire::Bytes(bytes)) => json!(base64_encode(bytes)),
        ("b", Wire::Number(number)) => json!(number != 0),
        ("i", Wire::Number(number)) => json!(number as i64),
        ("d", Wire::Fixed(bits)) => json!(f64::from_bits(bits)),
        ("q", Wire::Bytes(bytes)) => first_text(bytes)?,
        ("t" | "u", Wire::Bytes(bytes)) => time(bytes)?,
        ("I", Wire::Bytes(bytes)) => int_or_string(bytes)?,
        ("x", Wire::Bytes(bytes)) => raw(bytes)?,
        (name, Wire::Bytes(bytes)) if name.starts_with('@') => message(&name[1..], bytes)?,
        (other, _) => return Err(format!("a field of type {other} has the wrong wire type")),
    })
}

fn first_text(bytes: &[u8]) -> Result<Value, String> {
    let found = fields(bytes)?.into_iter().find_map(|(number, wire)| match wire {
        Wire::Bytes(text) if number == 1 => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    });
    Ok(json!(found.unwrap_or_else(|| "0".to_owned())))
}

fn time(bytes: &[u8]) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (0, 0);
    for (number, wire) in fields(bytes)? {
        if let Wire::Number(value) = wire {
            if number == 1 { seconds = value as i64 } else { nanos = value as i32 }
        }
    }
    // Go's zero time is in the year 1; it means that there is none.
    if seconds <= -62_135_596_800 || (seconds == 0 && nanos == 0) {
        return Ok(Value::Null);
    }
    Ok(jiff::Timestamp::new(seconds, nanos).map(|t| json!(time_text(t))).unwrap_or(Value::Null))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut text, mut number, mut is_text) = (String::new(), 0, false);
    for (field, wire) in fields(bytes)? {
        match (field, wire) {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = value as i64 as i32,
            (3, Wire::Bytes(value)) => text = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

fn raw(bytes: &[u8]) -> Result<Value, String> {
    for (number, wire) in fields(bytes)? {
        if let (1, Wire::Bytes(inner)) = (number, wire) {
            return serde_json::from_slice(inner).map_err(|e| e.to_string());
        }
    }
    Ok(Value::Null)
}
