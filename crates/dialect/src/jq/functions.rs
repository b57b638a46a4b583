//! The functions of jq that ignore rules need.

use super::eval::{Machine, Node, Nodes, compare, is_true, number, type_name};
use super::{Filter, JqError};
use serde_json::Value;

/// Names with how many arguments each takes.
const KNOWN: &[(&str, usize)] = &[
    ("select", 1),
    ("recurse", 0),
    ("recurse", 1),
    ("empty", 0),
    ("not", 0),
    ("length", 0),
    ("keys", 0),
    ("type", 0),
    ("tostring", 0),
    ("tonumber", 0),
    ("ascii_downcase", 0),
    ("ascii_upcase", 0),
    ("first", 0),
    ("last", 0),
    ("first", 1),
    ("map", 1),
    ("any", 0),
    ("all", 0),
    ("any", 1),
    ("all", 1),
    ("has", 1),
    ("contains", 1),
    ("inside", 1),
    ("startswith", 1),
    ("endswith", 1),
    ("ltrimstr", 1),
    ("rtrimstr", 1),
    ("split", 1),
    ("join", 1),
    ("test", 1),
    ("test", 2),
    ("index", 1),
    ("strings", 0),
    ("objects", 0),
    ("arrays", 0),
    ("numbers", 0),
    ("nulls", 0),
    ("values", 0),
    ("scalars", 0),
    ("iterables", 0),
    ("getpath", 1),
];

pub(super) fn is_known(name: &str, arguments: usize) -> bool {
    KNOWN.contains(&(name, arguments))
}

fn failed(message: impl Into<String>) -> JqError {
    JqError::Failed(message.into())
}

pub(super) fn call<'v>(machine: &Machine, name: &str, arguments: &[Filter], input: &Node<'v>) -> Nodes<'v> {
    let one = |value: Value| -> Nodes<'v> { Ok(vec![Node::computed(value)]) };
    let keep = |kept: bool| -> Nodes<'v> { Ok(if kept { vec![input.clone()] } else { Vec::new() }) };
    let value = input.value.as_ref();
    match (name, arguments) {
        ("select", [condition]) => machine.each(condition, input, |node| keep(is_true(&node.value))),
        ("recurse", []) => {
            let mut all = Vec::new();
            machine.recurse(input, &mut all)?;
            Ok(all)
        }
        ("recurse", [step]) => recurse_by(machine, step, input),
        ("empty", []) => Ok(Vec::new()),
        ("not", []) => one((!is_true(value)).into()),
        ("length", []) => one(length(value)?),
        ("keys", []) => one(keys(value)?),
        ("type", []) => one(type_name(value).into()),
        ("tostring", []) => one(as_text(value).into()),
        ("tonumber", []) => one(as_number(value)?),
        ("ascii_downcase", []) => one(text(value)?.to_ascii_lowercase().into()),
        ("ascii_upcase", []) => one(text(value)?.to_ascii_uppercase().into()),
        ("first", []) => machine.run(&Filter::Index(Box::new(Filter::Literal(0.into()))), input),
        ("last", []) => machine.run(&Filter::Index(Box::new(Filter::Literal((-1).into()))), input),
        ("first", [inner]) => Ok(machine.run(inner, input)?.into_iter().take(1).collect()),
        ("map", [inner]) => {
            let mut items = Vec::new();
            for child in machine.iterate(input)? {
                items.extend(machine.run(inner, &child)?.into_iter().map(|node| node.value.into_owned()));
            }
            one(Value::Array(items))
        }
        ("any" | "all", []) => {
            let mut truths = machine.iterate(input)?.into_iter().map(|node| is_true(&node.value));
            one(if name == "any" { truths.any(|t| t) } else { truths.all(|t| t) }.into())
        }
        ("any" | "all", [inner]) => {
            let mut truths = Vec::new();
            for child in machine.iterate(input)? {
                truths.extend(machine.run(inner, &child)?.iter().map(|node| is_true(&node.value)));
            }
            let verdict = if name == "any" { truths.contains(&true) } else { !truths.contains(&false) };
            one(verdict.into())
        }
        ("strings" | "objects" | "arrays" | "numbers" | "nulls", []) => {
            keep(type_name(value) == name.trim_end_matches('s'))
        }
        ("values", []) => keep(!value.is_null()),
        ("scalars", []) => keep(!(value.is_array() || value.is_object())),
        ("iterables", []) => keep(value.is_array() || value.is_object()),
        ("getpath", [path]) => machine.each(path, input, |path| {
            let mut here = vec![input.clone()];
            for step in path.value.as_array().ok_or_else(|| failed("getpath needs a list"))? {
                let index = Filter::Index(Box::new(Filter::Literal(step.clone())));
                here = machine.run(&index, &here.remove(0))?;
            }
            Ok(here)
        }),
        ("test", [pattern]) => machine.each(pattern, input, |p| one(matches(value, &p.value, "")?)),
        ("test", [pattern, flags]) => machine.each(flags, input, |flags| {
            machine.each(pattern, input, |p| one(matches(value, &p.value, text(&flags.value)?)?))
        }),
        (_, [argument]) => machine.each(argument, input, |argument| {
            machine.spend(as_text(value).len() / 64)?;
            one(with_argument(name, value, &argument.value)?)
        }),
        _ => Err(failed(format!("{name} is not known"))),
    }
}

fn recurse_by<'v>(machine: &Machine, step: &Filter, input: &Node<'v>) -> Nodes<'v> {
    let mut all = Vec::new();
    let mut open = vec![input.clone()];
    while let Some(node) = open.pop() {
        machine.spend(1)?;
        let mut next = machine.run(step, &node)?;
        next.reverse();
        open.extend(next);
        all.push(node);
    }
    Ok(all)
}

fn with_argument(name: &str, value: &Value, argument: &Value) -> Result<Value, JqError> {
    Ok(match name {
        "has" => match (value, argument) {
            (Value::Object(map), Value::String(key)) => map.contains_key(key).into(),
            (Value::Array(list), Value::Number(index)) => {
                index.as_u64().is_some_and(|index| index < list.len() as u64).into()
            }
            _ => return Err(failed(format!("cannot check whether {} has a key", type_name(value)))),
        },
        "contains" => contains(value, argument)?.into(),
        "inside" => contains(argument, value)?.into(),
        "startswith" => text(value)?.starts_with(text(argument)?).into(),
        "endswith" => text(value)?.ends_with(text(argument)?).into(),
        "ltrimstr" => trimmed(value, argument, |text, start| text.strip_prefix(start)),
        "rtrimstr" => trimmed(value, argument, |text, end| text.strip_suffix(end)),
        "split" => {
            let (whole, separator) = (text(value)?, text(argument)?);
            let parts: Vec<Value> = match (whole.is_empty(), separator.is_empty()) {
                (true, _) => Vec::new(),
                (_, true) => whole.chars().map(|c| c.to_string().into()).collect(),
                _ => whole.split(separator).map(Value::from).collect(),
            };
            Value::Array(parts)
        }
        "join" => {
            let list = value.as_array().ok_or_else(|| failed("join needs a list"))?;
            let parts: Vec<String> =
                list.iter().map(|v| if v.is_null() { String::new() } else { as_text(v) }).collect();
            parts.join(text(argument)?).into()
        }
        "index" => match (value, argument) {
            (Value::String(whole), Value::String(part)) => {
                whole.find(part.as_str()).map_or(Value::Null, Value::from)
            }
            (Value::Array(list), item) => {
                list.iter().position(|v| compare(v, item).is_eq()).map_or(Value::Null, Value::from)
            }
            _ => Value::Null,
        },
        _ => return Err(failed(format!("{name} is not known"))),
    })
}

fn trimmed(
    value: &Value,
    argument: &Value,
    strip: impl for<'a> Fn(&'a str, &str) -> Option<&'a str>,
) -> Value {
    let (Some(whole), Some(part)) = (value.as_str(), argument.as_str()) else { return value.clone() };
    strip(whole, part).unwrap_or(whole).into()
}

fn text(value: &Value) -> Result<&str, JqError> {
    value.as_str().ok_or_else(|| failed(format!("{} is not a string", type_name(value))))
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn as_number(value: &Value) -> Result<Value, JqError> {
    match value {
        Value::Number(_) => Ok(value.clone()),
        Value::String(text) => {
            text.trim().parse().map(number).map_err(|_| failed(format!("{text} is not a number")))
        }
        _ => Err(failed(format!("{} is not a number", type_name(value)))),
    }
}

fn length(value: &Value) -> Result<Value, JqError> {
    Ok(match value {
        Value::Null => 0.into(),
        Value::String(text) => text.chars().count().into(),
        Value::Array(list) => list.len().into(),
        Value::Object(map) => map.len().into(),
        Value::Number(number) => self::number(number.as_f64().unwrap_or(0.0).abs()),
        Value::Bool(_) => return Err(failed("boolean has no length")),
    })
}

fn keys(value: &Value) -> Result<Value, JqError> {
    match value {
        Value::Object(map) => Ok(Value::Array(map.keys().map(|key| key.as_str().into()).collect())),
        Value::Array(list) => Ok(Value::Array((0..list.len()).map(Value::from).collect())),
        _ => Err(failed(format!("{} has no keys", type_name(value)))),
    }
}

fn contains(whole: &Value, part: &Value) -> Result<bool, JqError> {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, inner) in part {
                let Some(own) = whole.get(key) else { return Ok(false) };
                if !contains(own, inner)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Array(whole), Value::Array(part)) => {
            Ok(part.iter().all(|wanted| whole.iter().any(|own| contains(own, wanted).unwrap_or(false))))
        }
        (Value::String(whole), Value::String(part)) => Ok(whole.contains(part.as_str())),
        (whole, part) if type_name(whole) == type_name(part) => Ok(compare(whole, part).is_eq()),
        _ => Err(failed(format!("{} cannot contain {}", type_name(whole), type_name(part)))),
    }
}

/// The engine is linear in the text, so no pattern can hang it; its program may take a megabyte.
fn matches(value: &Value, pattern: &Value, flags: &str) -> Result<Value, JqError> {
    let regex = regex::RegexBuilder::new(text(pattern)?)
        .case_insensitive(flags.contains('i'))
        .ignore_whitespace(flags.contains('x'))
        .dot_matches_new_line(flags.contains('s'))
        .size_limit(1 << 20)
        .build()
        .map_err(|error| failed(error.to_string()))?;
    Ok(regex.is_match(text(value)?).into())
}
