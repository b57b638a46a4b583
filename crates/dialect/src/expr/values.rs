//! Values beside each other: what is equal, what is less, what they add up to.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::evaluate::Thing;
use super::functions;

/// A number, or one of the texts that stand for numbers which JSON does not have.
pub(super) fn float(thing: &Thing) -> Option<f64> {
    match thing {
        Thing::Json(Value::String(text)) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "+Inf" => Some(f64::INFINITY),
            "-Inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        Thing::Json(value) => value.as_f64(),
        _ => None,
    }
}

pub(super) fn equal(a: &Thing, b: &Thing) -> bool {
    match (a, b) {
        (Thing::Json(a), b) => is(a, b),
        (Thing::Time(a), Thing::Time(b)) => a == b,
        (Thing::Seconds(a), Thing::Seconds(b)) => a == b,
        _ => false,
    }
}

fn is(value: &Value, other: &Thing) -> bool {
    match (value, other) {
        (Value::Number(a), Thing::Json(Value::Number(b))) => a.as_f64() == b.as_f64(),
        (a, Thing::Json(b)) => a == b,
        _ => false,
    }
}

pub(super) fn order(a: &Thing, b: &Thing) -> Option<Ordering> {
    match (a, b) {
        (Thing::Json(Value::String(a)), Thing::Json(Value::String(b))) => Some(a.cmp(b)),
        (Thing::Json(a), Thing::Json(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Thing::Time(a), Thing::Time(b)) => Some(a.cmp(b)),
        (Thing::Seconds(a), Thing::Seconds(b)) => a.partial_cmp(b),
        _ => None,
    }
}

pub(super) fn contains(all: &Thing, one: &Thing) -> bool {
    matches!(all, Thing::Json(all) if has(all, one))
}

pub(super) fn has(all: &Value, one: &Thing) -> bool {
    match (all, one) {
        (Value::Array(items), one) => items.iter().any(|item| is(item, one)),
        (Value::Object(entries), Thing::Json(Value::String(key))) => entries.contains_key(key),
        (Value::String(text), Thing::Json(Value::String(part))) => text.contains(part.as_str()),
        _ => false,
    }
}

/// A time, or a text that is one.
fn time(thing: &Thing) -> Option<Timestamp> {
    match thing {
        Thing::Time(time) => Some(*time),
        Thing::Json(Value::String(text)) => text.parse().ok(),
        _ => None,
    }
}

pub(super) fn arithmetic(operator: &str, a: &Thing, b: &Thing) -> Result<Thing, String> {
    if operator == "-"
        && let (Some(a), Some(b)) = (time(a), time(b))
    {
        return Ok(Thing::Seconds(a.duration_since(b).as_secs_f64()));
    }
    let (Thing::Json(a), Thing::Json(b)) = (a, b) else {
        return Err("times have methods, not operators".into());
    };
    if let (Value::String(a), Value::String(b), "+") = (a, b, operator) {
        if a.len() + b.len() > 1 << 20 {
            return Err("a text is too long".into());
        }
        return Ok(Thing::Json(json!(format!("{a}{b}"))));
    }
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        let whole = match operator {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            "%" => a.checked_rem(b),
            ".." => return functions::range(a, b).map(Thing::Json),
            "**" | "^" => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            _ => None,
        };
        if let Some(whole) = whole {
            return Ok(Thing::Json(json!(whole)));
        }
    }
    let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else {
        return Err(format!("`{operator}` needs two numbers"));
    };
    Ok(Thing::Json(json!(match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "**" | "^" => a.powf(b),
        ".." => return Err("a range goes from one whole number to another".into()),
        _ => a % b,
    })))
}
