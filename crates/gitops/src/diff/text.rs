//! A difference as people read it.

use super::Diff;
use serde_json::Value;
use similar::TextDiff;

impl Diff {
    /// Unified text of live against predicted, as YAML-like lines; empty when nothing differs.
    pub fn unified_text(&self, name: &str) -> String {
        unified(name, &self.live, &self.predicted)
    }
}

/// Unified text of two objects.
pub fn unified(name: &str, live: &Value, predicted: &Value) -> String {
    if live == predicted {
        return String::new();
    }
    let (old, new) = (lines(live), lines(predicted));
    TextDiff::from_lines(&old, &new)
        .unified_diff()
        .context_radius(3)
        .header(&format!("live/{name}"), &format!("desired/{name}"))
        .to_string()
}

/// An object as people read it; empty for none.
pub fn block_text(value: &Value) -> String {
    lines(value)
}

/// The object in block style. It is for eyes: quoted only where two different values would look the same.
fn lines(value: &Value) -> String {
    let mut text = String::new();
    if !value.is_null() {
        write_block(value, 0, &mut text);
    }
    text
}

fn write_block(value: &Value, indent: usize, text: &mut String) {
    let pad = "  ".repeat(indent);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                text.push_str(&format!("{pad}{key}:"));
                write_inline(value, indent, text);
            }
        }
        Value::Array(list) => {
            for item in list {
                let mut inner = String::new();
                write_block(item, indent + 1, &mut inner);
                if is_block(item) {
                    text.push_str(&format!("{pad}- {}", inner.trim_start()));
                } else {
                    text.push_str(&format!("{pad}- {}\n", scalar(item)));
                }
            }
        }
        other => text.push_str(&format!("{pad}{}\n", scalar(other))),
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    }
}

fn write_inline(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::String(long) if long.contains('\n') => {
            text.push_str(if long.ends_with('\n') { " |\n" } else { " |-\n" });
            let pad = "  ".repeat(indent + 1);
            for line in long.lines() {
                text.push_str(format!("{pad}{line}").trim_end());
                text.push('\n');
            }
        }
        value if is_block(value) => {
            text.push('\n');
            let deeper = if value.is_array() { indent } else { indent + 1 };
            write_block(value, deeper, text);
        }
        value => text.push_str(&format!(" {}\n", scalar(value))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if needs_quotes(text) => Value::String(text.clone()).to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn needs_quotes(text: &str) -> bool {
    text.is_empty()
        || text.trim() != text
        || text.contains('\n')
        || text.parse::<f64>().is_ok()
        || matches!(text, "true" | "false" | "null" | "{}" | "[]" | "~" | "yes" | "no" | "on" | "off")
}
