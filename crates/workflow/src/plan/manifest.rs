//! YAML inside of a text, with tags in it: read first, filled then.
//!
//! In: the text as its author wrote it, and values. Out: a tree of the shape that the author wrote. What a value holds is one scalar in it: where the
//! author wrote a tag without quotes, it may be a number or a truth value, as if the value stood there; it is never a mapping, a list or
//! a second line. A text that is one tag and nothing else is a value that its author asked to be read as a whole.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::scope::{Scope, end_of_tag};

/// Stands for a tag while the text is read: no letter of it means anything to YAML.
fn mark(number: usize, quoted: bool) -> String {
    format!("slipway{}tag{number}end", if quoted { "text" } else { "plain" })
}

pub(super) fn filled(text: &str, scope: &Scope, now: Timestamp) -> Result<Value, String> {
    let trimmed = text.trim();
    if trimmed.starts_with("{{") && end_of_tag(trimmed).is_some_and(|end| end + 2 == trimmed.len()) {
        return read(&known(trimmed, scope, now)?);
    }
    if text.contains("slipwaytexttag") || text.contains("slipwayplaintag") {
        return Err("it holds a word that stands for a tag".into());
    }
    let (mut plain, mut values, mut rest) = (String::new(), Vec::new(), text);
    while let Some(start) = rest.find("{{") {
        plain.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some(end) = end_of_tag(rest) else { break };
        let value = known(&rest[..end + 2], scope, now)?;
        let quoted = is_quoted(&plain);
        plain.push_str(&mark(values.len(), quoted));
        values.push(value);
        rest = &rest[end + 2..];
    }
    plain.push_str(rest);
    Ok(replaced(&read(&plain)?, &values))
}

/// A name that nobody knows is an error here: the text is needed now.
fn known(tag: &str, scope: &Scope, now: Timestamp) -> Result<String, String> {
    let value = scope.fill_text(tag, now)?;
    if value == tag { Err(format!("failed to resolve {tag}")) } else { Ok(value) }
}

fn read(text: &str) -> Result<Value, String> {
    let mut all = slipway_yaml::load_all_json(text).map_err(|errors| {
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        format!("it cannot be read: {first}")
    })?;
    match all.len() {
        1 => Ok(all.remove(0).0),
        count => Err(format!("it has {count} documents, and may have one")),
    }
}

/// Whether a quote is open at the end of a text: an odd number of one kind on its last line.
fn is_quoted(text: &str) -> bool {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let (mut open, mut escaped) = (None, false);
    for letter in line.chars() {
        match (open, letter) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(quote), letter) if quote == letter => open = None,
            (None, '"' | '\'') => open = Some(letter),
            _ => {}
        }
    }
    open.is_some()
}

fn replaced(value: &Value, values: &[String]) -> Value {
    match value {
        Value::String(text) => scalar(text, values),
        Value::Array(items) => items.iter().map(|item| replaced(item, values)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (texts(name, values), replaced(value, values)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn scalar(text: &str, values: &[String]) -> Value {
    for (number, value) in values.iter().enumerate() {
        if text == mark(number, false) {
            return match read(value) {
                Ok(found @ (Value::Number(_) | Value::Bool(_))) => found,
                _ => Value::String(value.clone()),
            };
        }
    }
    Value::String(texts(text, values))
}

/// From the last one: `tag1` is no beginning of `tag10`, because of its end.
fn texts(text: &str, values: &[String]) -> String {
    let Some(start) = text.find("slipway") else { return text.to_owned() };
    let found = values.iter().enumerate().find_map(|(number, value)| {
        let mut marks = [mark(number, true), mark(number, false)].into_iter();
        marks.find(|mark| text[start..].starts_with(mark.as_str())).map(|mark| (mark.len(), value))
    });
    // What follows is looked at, what was put in is not.
    match found {
        Some((length, value)) => {
            format!("{}{value}{}", &text[..start], texts(&text[start + length..], values))
        }
        None => {
            let next = start + "slipway".len();
            format!("{}{}", &text[..next], texts(&text[next..], values))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fill(text: &str) -> Result<Value, String> {
        let mut scope = Scope::default();
        scope.set("n", "3");
        scope.set("name", "shop");
        scope.set("hostile", "x\nprivileged: true\ny: {a: 1}");
        scope.set("object", "{\"a\": [1, 2]}");
        filled(text, &scope, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn what_a_value_holds_is_one_scalar_of_the_text() {
        for (text, wanted) in [
            ("replicas: {{n}}\nname: {{name}}-{{n}}", json!({"replicas": 3, "name": "shop-3"})),
            ("replicas: \"{{n}}\"", json!({"replicas": "3"})),
            ("a: {{hostile}}", json!({"a": "x\nprivileged: true\ny: {a: 1}"})),
            ("a: \"{{hostile}}\"\nb: 1", json!({"a": "x\nprivileged: true\ny: {a: 1}", "b": 1})),
            ("a: {{object}}", json!({"a": "{\"a\": [1, 2]}"})),
            ("'{{name}}': [{{n}}, '{{n}}']", json!({"shop": [3, "3"]})),
            ("a: |\n  one {{n}}\n  two", json!({"a": "one 3\ntwo"})),
            ("{{object}}", json!({"a": [1, 2]})),
        ] {
            assert_eq!(fill(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_or_is_not_known_is_said() {
        for text in ["a: {{nobody}}", "a: [", "a: 1\n---\nb: 2", "slipwaytexttag0end: 1", ""] {
            assert!(fill(text).is_err(), "{text}");
        }
    }
}
