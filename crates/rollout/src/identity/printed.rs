//! JSON as Go prints a typed value: fields in the order of their declaration, empty ones left out where the type says so, unknown ones
//! gone. The declarations are tables (`pod.types`, `steps.types`): a line for each type; `?` may be left out, `0` also when zero, `*` a
//! pointer, `[]` a list, `{}` a map.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;

use super::quantity;

type Types = HashMap<&'static str, Vec<Field>>;

struct Field {
    name: &'static str,
    may_be_left_out: bool,
    kind: &'static str,
}

fn read(table: &'static str) -> Types {
    let field = |text: &'static str| {
        let (name, kind) = text.split_once(':').expect("a table of ours");
        let plain = name.trim_end_matches(['?', '0']);
        Field { name: plain, may_be_left_out: plain.len() < name.len(), kind }
    };
    let lines = table.lines().map(|line| line.split_once(' ').expect("a table of ours"));
    lines.map(|(name, fields)| (name, fields.split(' ').map(field).collect())).collect()
}

static POD: LazyLock<Types> = LazyLock::new(|| read(include_str!("pod.types")));
static STEPS: LazyLock<Types> = LazyLock::new(|| read(include_str!("steps.types")));

pub fn pod_template(template: &Value) -> String {
    let mut text = String::new();
    print(&POD, "PodTemplateSpec", template, &mut text);
    text
}

/// `null` where there are none.
pub fn steps(steps: &Value) -> String {
    let mut text = String::new();
    print(&STEPS, "[]CanaryStep", steps, &mut text);
    text
}

/// Go's `omitempty`: a struct is never empty, a pointer is when it points nowhere.
fn is_empty(kind: &str, value: &Value) -> bool {
    match value {
        Value::Null => !is_struct(kind),
        _ if kind.starts_with('*') => false,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && !is_struct(kind),
    }
}

/// Types have names that begin with a capital letter; `Time` is left out when it is zero, the others stand for themselves.
fn is_struct(kind: &str) -> bool {
    kind.starts_with(|letter: char| letter.is_ascii_uppercase()) && kind != "Time" && kind != "Any"
}

fn print(types: &Types, kind: &str, value: &Value, text: &mut String) {
    if let Some(inner) = kind.strip_prefix('*') {
        return if value.is_null() { text.push_str("null") } else { print(types, inner, value, text) };
    }
    if let Some(inner) = kind.strip_prefix("[]") {
        let Value::Array(items) = value else { return text.push_str("null") };
        text.push('[');
        for (at, item) in items.iter().enumerate() {
            comma(at > 0, text);
            print(types, inner, item, text);
        }
        return text.push(']');
    }
    if let Some(inner) = kind.strip_prefix("{}") {
        let Value::Object(fields) = value else { return text.push_str("null") };
        let mut names: Vec<&String> = fields.keys().collect();
        names.sort();
        text.push('{');
        for (at, name) in names.into_iter().enumerate() {
            comma(at > 0, text);
            print_text(name, text);
            text.push(':');
            print(types, inner, &fields[name], text);
        }
        return text.push('}');
    }
    match kind {
        "s" => print_text(value.as_str().unwrap_or_default(), text),
        "b" => text.push_str(if value.as_bool() == Some(true) { "true" } else { "false" }),
        "i" => drop(write!(text, "{}", value.as_i64().unwrap_or(0))),
        "Quantity" => print_text(&quantity::as_go_writes(value), text),
        "IntOrString" => match value {
            Value::String(word) => print_text(word, text),
            number => drop(write!(text, "{}", number.as_i64().unwrap_or(0))),
        },
        "Time" => match value.as_str() {
            Some(time) => print_text(time, text),
            None => text.push_str("null"),
        },
        "Any" => text.push_str(&value.to_string()),
        name => print_struct(types, name, value, text),
    }
}

fn print_struct(types: &Types, name: &str, value: &Value, text: &mut String) {
    text.push('{');
    let mut any = false;
    for field in types.get(name).into_iter().flatten() {
        let inner = &value[field.name];
        if field.may_be_left_out && is_empty(field.kind, inner) {
            continue;
        }
        comma(any, text);
        any = true;
        print_text(field.name, text);
        text.push(':');
        print(types, field.kind, inner, text);
    }
    text.push('}');
}

fn comma(needed: bool, text: &mut String) {
    if needed {
        text.push(',');
    }
}

/// With the characters escaped that Go escapes for the sake of HTML.
fn print_text(word: &str, text: &mut String) {
    for letter in Value::from(word).to_string().chars() {
        match letter {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            '\u{7f}' => text.push('\u{7f}'),
            letter => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_stand_in_the_order_of_their_types_and_empty_ones_are_left_out() {
        let template = json!({
            "spec": {"containers": [{"image": "a<b", "name": "web", "unknown": 1, "resources": {"requests": {"memory": "1024Mi", "cpu": "1000m"}},
                "ports": [{"containerPort": 80, "protocol": ""}], "env": []}], "hostNetwork": false, "terminationGracePeriodSeconds": 0},
            "metadata": {"labels": {"b": "2", "a": "1"}, "creationTimestamp": null},
        });
        let wanted = concat!(
            r#"{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"containers":[{"name":"web","image":"a\u003cb","ports":[{"containerPort":80}],"#,
            r#""resources":{"requests":{"cpu":"1","memory":"1Gi"}}}],"terminationGracePeriodSeconds":0}}"#
        );
        assert_eq!(pod_template(&template), wanted);
        assert_eq!(
            pod_template(&json!({})),
            r#"{"metadata":{},"spec":{"containers":null}}"#,
            "structs are always there"
        );
    }

    #[test]
    fn steps_are_printed_with_what_their_types_say() {
        let given = json!([{"setWeight": 20}, {"pause": {}}, {"pause": {"duration": "10m"}}, {"setWeight": 0},
            {"experiment": {"templates": [{"name": "a", "specRef": "canary"}]}}]);
        let wanted = concat!(
            r#"[{"setWeight":20},{"pause":{}},{"pause":{"duration":"10m"}},{"setWeight":0},"#,
            r#"{"experiment":{"templates":[{"name":"a","specRef":"canary","metadata":{}}],"analysisRunMetadata":{}}}]"#
        );
        assert_eq!(steps(&given), wanted);
        assert_eq!(steps(&Value::Null), "null");
    }
}
