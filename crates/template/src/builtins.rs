//! Go's own functions.

use crate::exec::Scope;
use crate::format::{is_printable, sprint, sprintf, sprintln};
use crate::functions::{Function, Type, takes, takes_more, text};
use crate::value::{IntType, List, Value};

type Done<T> = Result<T, String>;
use Type::{Any, Reflect, Text};

pub(crate) const FUNCTIONS: &[Function] = &[
    // The executor evaluates these two itself, because they need not evaluate every argument.
    takes_more("and", &[Reflect], Reflect, |_, a| Ok(a[0].clone())),
    takes_more("or", &[Reflect], Reflect, |_, a| Ok(a[0].clone())),
    takes_more("call", &[Reflect], Reflect, |_, a| match &a[0] {
        Value::Missing | Value::Nil => Err("call of nil".into()),
        other => Err(format!("non-function of type {}", other.type_name())),
    }),
    takes_more("html", &[], Any, |s, a| Ok(html(&joined(s, a)?).into())),
    takes_more("js", &[], Any, |s, a| Ok(js(&joined(s, a)?).into())),
    takes_more("urlquery", &[], Any, |s, a| Ok(query_escape(&joined(s, a)?).into())),
    takes_more("index", &[Reflect], Reflect, |_, a| index(a)),
    takes_more("slice", &[Reflect], Reflect, |_, a| slice(a)),
    takes("len", &[Reflect], |_, a| len(&a[0])),
    takes("not", &[Reflect], |_, a| Ok(Value::Bool(!a[0].is_true()))),
    takes_more("print", &[], Any, |s, a| sprint(s, a).map(Value::from)),
    takes_more("printf", &[Text], Any, |s, a| sprintf(s, text(&a[0]), &a[1..]).map(Value::from)),
    takes_more("println", &[], Any, |s, a| sprintln(s, a).map(Value::from)),
    takes_more("eq", &[Reflect], Reflect, |s, a| equal(s, a).map(Value::Bool)),
    takes("ne", &[Reflect, Reflect], |s, a| Ok(Value::Bool(!equal(s, a)?))),
    takes("lt", &[Reflect, Reflect], |_, a| less(&a[0], &a[1]).map(Value::Bool)),
    takes("le", &[Reflect, Reflect], |s, a| Ok(Value::Bool(less(&a[0], &a[1])? || equal(s, a)?))),
    takes("gt", &[Reflect, Reflect], |s, a| Ok(Value::Bool(!(less(&a[0], &a[1])? || equal(s, a)?)))),
    takes("ge", &[Reflect, Reflect], |_, a| Ok(Value::Bool(!less(&a[0], &a[1])?))),
];

/// What the escaping functions are given.
fn joined(scope: &mut Scope<'_>, values: &[Value]) -> Done<String> {
    let shown: Vec<Value> =
        values.iter().map(|v| if v.is_nothing() { Value::from("<no value>") } else { v.clone() }).collect();
    let text = sprint(scope, &shown)?;
    // Escaping makes a character six times as long at worst.
    scope.charge(text.len() * 6)?;
    Ok(text)
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' | '>' | '&' | '=' => out.push_str(&format!("\\u{:04X}", c as u32)),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04X}", c as u32)),
            c if c.is_ascii() || is_printable(c) => out.push(c),
            c => out.push_str(&format!("\\u{:04X}", c as u32)),
        }
    }
    out
}

/// url.QueryEscape.
pub(crate) fn query_escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            byte if byte.is_ascii_alphanumeric() => out.push(byte as char),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn position(index: &Value, count: usize) -> Done<usize> {
    match index {
        Value::Int(number, _) => match usize::try_from(*number) {
            Ok(at) if at <= count => Ok(at),
            _ => Err(format!("index out of range: {number}")),
        },
        Value::Missing | Value::Nil => Err("cannot index slice/array with nil".into()),
        other => Err(format!("cannot index slice/array with type {}", other.type_name())),
    }
}

fn index(arguments: &[Value]) -> Done<Value> {
    let mut item = arguments[0].clone();
    if item.is_nothing() {
        return Err("index of untyped nil".into());
    }
    for index in &arguments[1..] {
        item = match &item {
            Value::Missing | Value::Nil => return Err("index of nil pointer".into()),
            Value::List(list) => {
                let at = position(index, list.items.len())?;
                match list.items.get(at) {
                    Some(item) => item.clone(),
                    None => return Err("reflect: slice index out of range".into()),
                }
            }
            Value::Text(text) => {
                let at = position(index, text.len())?;
                match text.as_bytes().get(at) {
                    Some(byte) => Value::Int(i64::from(*byte), IntType::Uint8),
                    None => return Err("reflect: string index out of range".into()),
                }
            }
            Value::Map(map) => {
                let key = match index {
                    Value::Text(key) => key,
                    Value::Missing | Value::Nil => {
                        return Err("value is nil; should be of type string".into());
                    }
                    other => {
                        return Err(format!("value has type {}; should be string", other.type_name()));
                    }
                };
                let zero = if map.of_text { Value::from("") } else { Value::Nil };
                map.get(key).unwrap_or(zero)
            }
            other => return Err(format!("can't index item of type {}", other.type_name())),
        };
    }
    Ok(item)
}

fn slice(arguments: &[Value]) -> Done<Value> {
    let item = &arguments[0];
    let indexes = &arguments[1..];
    if item.is_nothing() {
        return Err("slice of untyped nil".into());
    }
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()));
    }
    let count = match item {
        Value::Text(_) if indexes.len() == 3 => return Err("cannot 3-index slice a string".into()),
        Value::Text(text) => text.len(),
        Value::List(list) => list.items.len(),
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let mut bounds = [0, count, count];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, count)?;
    }
    for pair in bounds[..indexes.len().max(2)].windows(2) {
        if pair[0] > pair[1] {
            return Err(format!("invalid slice index: {} > {}", pair[0], pair[1]));
        }
    }
    Ok(match item {
        Value::Text(text) => {
            String::from_utf8_lossy(&text.as_bytes()[bounds[0]..bounds[1]]).into_owned().into()
        }
        Value::List(list) => Value::List(List::new(list.elem, list.items[bounds[0]..bounds[1]].to_vec())),
        _ => unreachable!("measured above"),
    })
}

fn len(item: &Value) -> Done<Value> {
    Ok(Value::int(match item {
        Value::Text(text) => text.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.len(),
        Value::Missing => return Err("reflect: call of reflect.Value.Type on zero Value".into()),
        Value::Nil => return Err("len of nil pointer".into()),
        other => return Err(format!("len of type {}", other.type_name())),
    }))
}

#[derive(PartialEq, Clone, Copy)]
enum Kind {
    Invalid,
    Bool,
    Int,
    Uint,
    Float,
    Text,
}

fn kind(value: &Value) -> Kind {
    match value {
        Value::Bool(_) => Kind::Bool,
        Value::Int(_, IntType::Uint8 | IntType::Uint64) => Kind::Uint,
        Value::Int(..) => Kind::Int,
        Value::Float(_) => Kind::Float,
        Value::Text(_) => Kind::Text,
        _ => Kind::Invalid,
    }
}

fn incompatible<T>(a: &Value, b: &Value) -> Done<T> {
    Err(format!("incompatible types for comparison: {} and {}", a.type_name(), b.type_name()))
}

fn equal(scope: &mut Scope<'_>, arguments: &[Value]) -> Done<bool> {
    let (first, others) = arguments.split_first().ok_or("missing argument for comparison")?;
    if others.is_empty() {
        return Err("missing argument for comparison".into());
    }
    for other in others {
        if equal_pair(scope, first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal_pair(scope: &mut Scope<'_>, a: &Value, b: &Value) -> Done<bool> {
    Ok(match (a, b) {
        (Value::Int(a, _), Value::Int(b, _)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        _ if kind(a) != kind(b) => {
            if !a.is_nothing() && !b.is_nothing() {
                return incompatible(a, b);
            }
            false
        }
        _ if a.is_nothing() || b.is_nothing() => a.is_nothing() && b.is_nothing(),
        _ if a.kind_name() != b.kind_name() => {
            let shown = sprint(scope, std::slice::from_ref(b))?;
            return Err(format!(
                "non-comparable types {}: {}, {}: {shown}",
                shown_kind(a),
                a.type_name(),
                b.type_name()
            ));
        }
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Version(a), Value::Version(b)) => std::rc::Rc::ptr_eq(a, b),
        _ => {
            let shown = sprint(scope, std::slice::from_ref(b))?;
            return Err(format!("non-comparable type {shown}: {}", b.type_name()));
        }
    })
}

fn shown_kind(value: &Value) -> String {
    format!("<{} Value>", value.type_name())
}

fn less(a: &Value, b: &Value) -> Done<bool> {
    if kind(a) == Kind::Invalid || kind(b) == Kind::Invalid {
        return Err("invalid type for comparison".into());
    }
    match (a, b) {
        (Value::Int(a, IntType::Uint64), Value::Int(b, IntType::Uint64)) => Ok((*a as u64) < (*b as u64)),
        (Value::Int(a, _), Value::Int(b, _)) => Ok(a < b),
        (Value::Float(a), Value::Float(b)) => Ok(a < b),
        (Value::Text(a), Value::Text(b)) => Ok(a < b),
        (Value::Bool(_), Value::Bool(_)) => Err("invalid type for comparison".into()),
        _ => incompatible(a, b),
    }
}
