//! `{{…}}` in the texts of an object: which there are, and where.
//!
//! In: any value. Out: each tag with its place. `{{=…}}` is an expression. A tag inside of another one is given; the outer one is
//! not, because what it names is not known before.

use serde_json::Value;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tag<'a> {
    /// `inputs.parameters.message`
    Name(&'a str),
    /// `=asInt(item) + 1`, without its mark.
    Expression(&'a str),
    /// `{{` without its `}}`.
    Open,
}

/// Every tag below a value, with its place below it.
pub(crate) fn each(value: &Value, visit: &mut impl FnMut(&[String], Tag<'_>)) {
    walk(value, &mut Vec::new(), visit);
}

fn walk(value: &Value, place: &mut Vec<String>, visit: &mut impl FnMut(&[String], Tag<'_>)) {
    match value {
        Value::String(text) => in_text(text, &mut |tag| visit(place, tag)),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                place.push(at.to_string());
                walk(item, place, visit);
                place.pop();
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                place.push(name.clone());
                // Names of labels and annotations may hold tags as well.
                in_text(name, &mut |tag| visit(place, tag));
                walk(value, place, visit);
                place.pop();
            }
        }
        _ => {}
    }
}

pub(crate) fn in_text(text: &str, visit: &mut impl FnMut(Tag<'_>)) {
    let mut rest = text;
    // Where the next `}}` stands, counted from the end: it is looked for once, however many `{{` stand before it.
    let mut close: Option<usize> = None;
    while let Some(start) = rest.find("{{") {
        rest = &rest[start + 2..];
        let known = close.and_then(|close| rest.len().checked_sub(close));
        let Some(end) = known.or_else(|| rest.find("}}")) else {
            visit(Tag::Open);
            return;
        };
        close = Some(rest.len() - end);
        let inner = &rest[..end];
        // The innermost one: `{{inputs.parameters.{{item}}}}`.
        if !inner.trim_start().starts_with('=') && inner.contains("{{") {
            continue;
        }
        rest = &rest[end + 2..];
        let inner = inner.trim();
        match inner.strip_prefix('=') {
            Some(expression) => visit(Tag::Expression(expression.trim())),
            None => visit(Tag::Name(inner)),
        }
    }
}

/// A text that is a tag, or holds one: its value is known later.
pub(crate) fn is_open(text: &str) -> bool {
    text.contains("{{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_where_they_stand() {
        let mut found = Vec::new();
        let value = serde_json::json!({"a": ["x {{ item }} {{=1 + 1}}", {"{{k}}": "{{inputs.parameters.{{item.x}}}}"}], "b": "{{ never"});
        each(&value, &mut |place, tag| found.push(format!("{} {tag:?}", place.join("."))));
        assert_eq!(
            found,
            [
                "a.0 Name(\"item\")",
                "a.0 Expression(\"1 + 1\")",
                "a.1.{{k}} Name(\"k\")",
                "a.1.{{k}} Name(\"item.x\")",
                "b Open",
            ]
        );
    }
}
