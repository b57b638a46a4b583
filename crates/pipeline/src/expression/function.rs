//! The functions of the language: strict in number and kind of arguments.

use serde_json::{Map, Value as Json};

use super::js_regex::JsRegex;
use super::machine::{load, member};
use super::value::{Value, number_text, text_number};

const FUNCTIONS: [(&str, usize); 18] = [
    ("String", 1),
    ("Number", 1),
    ("Boolean", 1),
    ("round", 1),
    ("floor", 1),
    ("upper", 1),
    ("lower", 1),
    ("trim", 1),
    ("trimLeft", 1),
    ("trimRight", 1),
    ("replace", 3),
    ("substring", 3),
    ("length", 1),
    ("includes", 2),
    ("indexOf", 2),
    ("match", 3),
    ("Variable", 1),
    ("Member", 2),
];

pub(super) fn arity(name: &str) -> Option<usize> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, arity)| *arity)
}

pub(super) fn unknown(name: &str) -> String {
    match FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((known, _)) => format!("there is no function `{name}`; did you mean `{known}`?"),
        None => format!("there is no function `{name}`"),
    }
}

pub(super) fn wrong_count(name: &str, wanted: usize, given: usize) -> String {
    let noun = if wanted == 1 { "argument" } else { "arguments" };
    format!("`{name}` takes {wanted} {noun}, not {given}")
}

pub(super) fn call(name: &str, arguments: Vec<Value>, scope: &Map<String, Json>) -> Result<Value, String> {
    let wanted = arity(name).ok_or_else(|| unknown(name))?;
    if wanted != arguments.len() {
        return Err(wrong_count(name, wanted, arguments.len()));
    }
    let wrong = || {
        let kinds: Vec<&str> = arguments.iter().map(Value::kind).collect();
        format!("`{name}` cannot take ({})", kinds.join(", "))
    };
    use Value::{Boolean, Number, String};
    Ok(match (name, arguments.as_slice()) {
        ("String", [Number(number)]) => String(number_text(*number)),
        ("String", [String(text)]) => String(text.clone()),
        ("Number", [Number(number)]) => Number(*number),
        ("Number", [String(text)]) => {
            Number(text_number(text).ok_or_else(|| format!("`{text}` is not a number"))?)
        }
        ("Boolean", [value @ (Number(_) | String(_))]) => Boolean(value.is_truthy()),
        // Math.round goes up on a half, also below zero.
        ("round", [Number(number)]) => Number((number + 0.5).floor()),
        ("floor", [Number(number)]) => Number(number.floor()),
        ("upper", [String(text)]) => String(text.to_uppercase()),
        ("lower", [String(text)]) => String(text.to_lowercase()),
        ("trim", [String(text)]) => String(text.trim().to_owned()),
        ("trimLeft", [String(text)]) => String(text.trim_start().to_owned()),
        ("trimRight", [String(text)]) => String(text.trim_end().to_owned()),
        // The documentation says "all"; the evaluator has always replaced the first one only.
        ("replace", [String(text), String(find), String(with)]) => {
            String(text.replacen(find.as_str(), with, 1))
        }
        ("substring", [String(text), Number(start), Number(end)]) => String(substring(text, *start, *end)),
        ("length", [String(text)]) => Number(text.encode_utf16().count() as f64),
        ("includes", [String(text), String(find)]) => Boolean(text.contains(find.as_str())),
        ("indexOf", [String(text), String(find)]) => Number(match text.find(find.as_str()) {
            Some(at) => text[..at].encode_utf16().count() as f64,
            None => -1.0,
        }),
        ("match", [String(text), String(pattern), Boolean(ignore_case)]) => {
            Boolean(JsRegex::new(pattern, *ignore_case)?.is_match(text))
        }
        ("Variable", [String(variable)]) => load(scope, variable)?,
        // The documentation shows a variable's name here; the evaluator has always wanted the object.
        ("Member", [object @ Value::Object(_), String(member_name)]) => member(object, member_name)?,
        _ => return Err(wrong()),
    })
}

/// JavaScript's `substring`, except that an end before the start means "to the end".
fn substring(text: &str, start: f64, end: f64) -> String {
    let units: Vec<u16> = text.encode_utf16().collect();
    let clamp = |index: f64| if index.is_nan() { 0 } else { (index.max(0.0) as usize).min(units.len()) };
    let from = clamp(start);
    let to = if end < start { units.len() } else { clamp(end) };
    String::from_utf16_lossy(units.get(from..to).unwrap_or_default())
}
