//! Functions of expressions that look at nothing but their arguments.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use serde_json::{Map, Value, json};

/// Longer texts and lists do not come out of a function.
const TEXT_MAX: usize = 1 << 20;
const LIST_MAX: i64 = 10_000;

pub(super) fn call(name: &str, of: &Value, others: &[Value]) -> Result<Value, String> {
    let text = || of.as_str().ok_or_else(|| format!("{name}() needs a text, and {of} is none"));
    let list = || of.as_array().ok_or_else(|| format!("{name}() needs a list, and {of} is none"));
    let word = |at: usize| others.get(at).and_then(Value::as_str);
    let needed = |at: usize| word(at).ok_or_else(|| format!("{name}() needs one more text"));
    Ok(match (name, others.len()) {
        ("string", 0) => json!(match of {
            Value::String(text) => text.clone(),
            other => printed(other),
        }),
        ("asInt" | "int", 0) => {
            let number = whole(of).ok_or_else(|| format!("{of} is no whole number"))?;
            json!(number)
        }
        ("asFloat" | "float", 0) => {
            let parsed = of.as_str().and_then(|text| text.trim().parse::<f64>().ok());
            json!(parsed.or_else(|| of.as_f64()).ok_or_else(|| format!("{of} is no number"))?)
        }
        ("toJson" | "toJSON", 0) => json!(of.to_string()),
        ("fromJSON" | "fromJson", 0) => {
            serde_json::from_str(text()?).map_err(|error| format!("{name}(): {error}"))?
        }
        ("jsonpath", 1) => {
            let root: Value = match of {
                Value::String(text) => {
                    serde_json::from_str(text).map_err(|error| format!("jsonpath(): {error}"))?
                }
                other => other.clone(),
            };
            jsonpath(&root, needed(0)?)?
        }
        ("trim", 0) => json!(text()?.trim()),
        ("trim", 1) => {
            json!(text()?.trim_matches(|letter: char| word(0).unwrap_or_default().contains(letter)))
        }
        ("trimPrefix", 1) => json!(text()?.strip_prefix(needed(0)?).unwrap_or(text()?)),
        ("trimSuffix", 1) => json!(text()?.strip_suffix(needed(0)?).unwrap_or(text()?)),
        ("hasPrefix", 1) => json!(text()?.starts_with(needed(0)?)),
        ("hasSuffix", 1) => json!(text()?.ends_with(needed(0)?)),
        ("split", 1) => text()?.split(needed(0)?).map(Value::from).collect(),
        ("splitAfter", 1) => text()?.split_inclusive(needed(0)?).map(Value::from).collect(),
        ("replace", 2) => {
            let (of, by) = (needed(0)?, needed(1)?);
            // Before it is made: a text of a million letters may hold a million others.
            let more = text()?.matches(of).count().saturating_mul(by.len());
            fits(text()?.len().saturating_add(more))?;
            json!(text()?.replace(of, by))
        }
        ("repeat", 1) => {
            let times = others[0].as_u64().and_then(|times| usize::try_from(times).ok()).unwrap_or_default();
            fits(text()?.len().saturating_mul(times))?;
            json!(text()?.repeat(times))
        }
        ("indexOf", 1) => json!(text()?.find(needed(0)?).map_or(-1, |at| at as i64)),
        ("join", 0 | 1) => {
            let parts: Vec<String> = list()?.iter().map(plain).collect();
            let between = word(0).unwrap_or_default();
            let all: usize = parts.iter().map(String::len).sum();
            fits(all.saturating_add(between.len().saturating_mul(parts.len())))?;
            json!(parts.join(between))
        }
        ("first", 0) => list()?.first().cloned().unwrap_or_default(),
        ("last", 0) => list()?.last().cloned().unwrap_or_default(),
        ("take", 1) => {
            let count = others[0].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
            list()?.iter().take(count).cloned().collect()
        }
        ("reverse", 0) => list()?.iter().rev().cloned().collect(),
        ("concat", _) => {
            let more = others.iter().flat_map(|other| other.as_array().cloned().unwrap_or_default());
            list()?.iter().cloned().chain(more).collect()
        }
        ("uniq", 0) => {
            let mut known = std::collections::HashSet::new();
            list()?.iter().filter(|item| known.insert(item.to_string())).cloned().collect()
        }
        ("sort", 0) => {
            let mut items = list()?.clone();
            if items.iter().all(Value::is_number) {
                items.sort_by(|a, b| number(a).total_cmp(&number(b)));
            } else {
                items.sort_by_key(plain);
            }
            items.into()
        }
        ("sum", 0) => exact(list()?.iter().map(number).sum()),
        ("mean", 0) => json!(list()?.iter().map(number).sum::<f64>() / (list()?.len().max(1) as f64)),
        ("min" | "max", _) => {
            let mut items: Vec<Value> = of.as_array().cloned().unwrap_or_else(|| vec![of.clone()]);
            items.extend_from_slice(others);
            let found = items
                .into_iter()
                .reduce(|a, b| if (number(&b) < number(&a)) == (name == "min") { b } else { a });
            found.ok_or_else(|| format!("{name}() of nothing"))?
        }
        ("abs", 0) => exact(number(of).abs()),
        ("ceil", 0) => exact(number(of).ceil()),
        ("floor", 0) => exact(number(of).floor()),
        ("round", 0) => exact(number(of).round()),
        ("keys", 0) => of.as_object().into_iter().flat_map(Map::keys).cloned().map(Value::String).collect(),
        ("values", 0) => of.as_object().into_iter().flat_map(Map::values).cloned().collect(),
        ("get", 1) => match &others[0] {
            Value::String(key) => of.get(key),
            other => other.as_u64().and_then(|at| of.get(usize::try_from(at).ok()?)),
        }
        .cloned()
        .unwrap_or_default(),
        ("type", 0) => json!(match of {
            Value::Null => "nil",
            Value::Bool(_) => "bool",
            Value::Number(number) if number.is_f64() => "float",
            Value::Number(_) => "int",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "map",
        }),
        ("toBase64", 0) => json!(STANDARD.encode(text()?)),
        ("fromBase64", 0) => {
            let bytes = STANDARD.decode(text()?).map_err(|error| format!("{name}(): {error}"))?;
            json!(String::from_utf8(bytes).map_err(|_| format!("{name}(): it is no text"))?)
        }
        _ => return Err(format!("there is no function {name} here")),
    })
}

/// As Go writes a value as JSON: a whole number has no point.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => plain(&exact(number.as_f64().unwrap_or_default())),
        other => other.to_string(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn fits(length: usize) -> Result<(), String> {
    if length > TEXT_MAX { Err("a text is too long".into()) } else { Ok(()) }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// A number without a fraction is a whole one.
fn exact(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 { json!(number as i64) } else { json!(number) }
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(_) => None,
        other => other.as_i64().or_else(|| {
            let number = other.as_f64()?;
            (number.abs() < 9e15).then_some(number.trunc() as i64)
        }),
    }
}

pub(super) fn range(from: i64, to: i64) -> Result<Value, String> {
    if to.saturating_sub(from) > LIST_MAX {
        return Err(format!("a range may have {LIST_MAX} numbers"));
    }
    Ok((from..=to).map(Value::from).collect())
}

/// `list[1:3]`, `text[:-1]`.
pub(super) fn slice(of: &Value, from: Option<&Value>, to: Option<&Value>) -> Result<Value, String> {
    let place = |at: Option<&Value>, default: usize, length: usize| -> Result<usize, String> {
        let Some(at) = at else { return Ok(default) };
        let at = at.as_i64().ok_or_else(|| format!("{at} is no place in a list"))?;
        let at = if at < 0 { at.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)) } else { at };
        Ok(usize::try_from(at.max(0)).unwrap_or(usize::MAX).min(length))
    };
    match of {
        Value::Array(items) => {
            let (from, to) = (place(from, 0, items.len())?, place(to, items.len(), items.len())?);
            Ok(items.get(from..to.max(from)).unwrap_or_default().iter().cloned().collect())
        }
        Value::String(text) => {
            let letters: Vec<char> = text.chars().collect();
            let (from, to) = (place(from, 0, letters.len())?, place(to, letters.len(), letters.len())?);
            Ok(json!(letters.get(from..to.max(from)).unwrap_or_default().iter().collect::<String>()))
        }
        other => Err(format!("{other} is no list")),
    }
}

/// `$.a.b[0]['c']`, as far as it names one place.
fn jsonpath(root: &Value, path: &str) -> Result<Value, String> {
    let unreadable = || format!("jsonpath(): `{path}` cannot be read");
    let mut at = root;
    let mut rest = path.trim().strip_prefix('$').ok_or_else(unreadable)?;
    while !rest.is_empty() {
        let name;
        if let Some(inside) = rest.strip_prefix('[') {
            let (word, after) = inside.split_once(']').ok_or_else(unreadable)?;
            name = word.trim().trim_matches(['\'', '"']);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            name = &after[..end];
            rest = &after[end..];
        } else {
            return Err(unreadable());
        }
        if name.is_empty() || name.contains(['*', '?', ':', ',']) {
            return Err(unreadable());
        }
        let found = match at {
            Value::Array(items) => name.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(name),
        };
        at = found.ok_or_else(|| format!("jsonpath(): there is nothing at `{path}`"))?;
    }
    Ok(at.clone())
}
