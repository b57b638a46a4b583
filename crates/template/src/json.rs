//! encoding/json's text: sorted keys, `<`, `>` and `&` escaped, floats as JavaScript writes them.

use crate::exec::Scope;
use crate::float;
use crate::format::{Sink, too_deep};
use crate::value::{IntType, Value};

type Done<T> = Result<T, String>;

pub(crate) struct Style {
    pub(crate) escape_html: bool,
    /// Two blanks a level; none: on one line.
    pub(crate) indent: bool,
}

pub(crate) fn encode(scope: &mut Scope<'_>, value: &Value, style: &Style) -> Done<String> {
    let mut sink = Sink::new(scope);
    write(&mut sink, value, style, 0)?;
    Ok(sink.text)
}

fn write(sink: &mut Sink<'_, '_>, value: &Value, style: &Style, depth: usize) -> Done<()> {
    too_deep(depth)?;
    sink.scope.step()?;
    match value {
        Value::Missing | Value::Nil => sink.push("null"),
        Value::Bool(value) => sink.push(if *value { "true" } else { "false" }),
        Value::Int(value, IntType::Uint64) => sink.push(&(*value as u64).to_string()),
        Value::Int(value, _) => sink.push(&value.to_string()),
        Value::Float(value) if !value.is_finite() => {
            Err(format!("json: unsupported value: {}", float::general(*value)))
        }
        Value::Float(value) => sink.push(&float::json(*value)),
        Value::Text(text) => quote(sink, text, style.escape_html),
        Value::Time(time) => {
            let text = crate::sprig::date::format(time, "2006-01-02T15:04:05.999999999Z07:00");
            quote(sink, &text, style.escape_html)
        }
        Value::Version(version) => quote(sink, &version.to_string(), style.escape_html),
        Value::List(list) if list.items.is_empty() => sink.push("[]"),
        Value::List(list) => {
            sink.push("[")?;
            for (index, item) in list.items.iter().enumerate() {
                separate(sink, style, index, depth + 1)?;
                write(sink, item, style, depth + 1)?;
            }
            line(sink, style, depth)?;
            sink.push("]")
        }
        Value::Map(map) if map.len() == 0 => sink.push("{}"),
        Value::Map(map) => {
            sink.push("{")?;
            for (index, (key, item)) in map.snapshot().iter().enumerate() {
                separate(sink, style, index, depth + 1)?;
                quote(sink, key, style.escape_html)?;
                sink.push(if style.indent { ": " } else { ":" })?;
                write(sink, item, style, depth + 1)?;
            }
            line(sink, style, depth)?;
            sink.push("}")
        }
    }
}

fn separate(sink: &mut Sink<'_, '_>, style: &Style, index: usize, depth: usize) -> Done<()> {
    if index > 0 {
        sink.push(",")?;
    }
    line(sink, style, depth)
}

fn line(sink: &mut Sink<'_, '_>, style: &Style, depth: usize) -> Done<()> {
    if style.indent {
        sink.push("\n")?;
        sink.push(&"  ".repeat(depth))?;
    }
    Ok(())
}

fn quote(sink: &mut Sink<'_, '_>, text: &str, escape_html: bool) -> Done<()> {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' if escape_html => out.push_str(&format!("\\u{:04x}", c as u32)),
            '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    sink.push(&out)
}

/// A value as serde_json has it, for emitters that start from there.
pub(crate) fn to_json(scope: &mut Scope<'_>, value: &Value) -> Done<serde_json::Value> {
    let text = encode(scope, value, &Style { escape_html: false, indent: false })?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
