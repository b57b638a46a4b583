//! Data in, values out; and the way the functions turn one value into another (spf13/cast).

use serde_json::Value as Json;

use crate::data::Data;
use crate::exec::Scope;
use crate::format::sprint;
use crate::number::parse_integer;
use crate::value::{Elem, List, Value};

type Done<T> = Result<T, String>;

impl Scope<'_> {
    pub(crate) fn value_of(&mut self, data: &Data) -> Done<Value> {
        Ok(match data {
            Data::Json(json) => self.value_of_json(json)?,
            Data::Strings(items) => List::texts(items.iter().cloned()),
            Data::StringMap(entries) => {
                let map = self.new_map(true);
                map.entries
                    .borrow_mut()
                    .extend(entries.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))));
                Value::Map(map)
            }
            Data::Map(entries) => {
                let map = self.new_map(false);
                for (key, value) in entries {
                    let value = self.value_of(value)?;
                    map.entries.borrow_mut().insert(key.clone(), value);
                }
                Value::Map(map)
            }
        })
    }

    pub(crate) fn value_of_json(&mut self, json: &Json) -> Done<Value> {
        self.step()?;
        Ok(match json {
            Json::Null => Value::Nil,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::Float(number.as_f64().unwrap_or(0.0)),
            Json::String(text) => Value::from(text.as_str()),
            Json::Array(items) => {
                let items = items.iter().map(|item| self.value_of_json(item)).collect::<Done<Vec<_>>>()?;
                Value::List(List::new(Elem::Any, items))
            }
            Json::Object(entries) => {
                let map = self.new_map(false);
                for (key, value) in entries {
                    let value = self.value_of_json(value)?;
                    map.entries.borrow_mut().insert(key.clone(), value);
                }
                Value::Map(map)
            }
        })
    }

    /// sprig's `strval`.
    pub(crate) fn text_of(&mut self, value: &Value) -> Done<String> {
        match value {
            Value::Text(text) => Ok(text.to_string()),
            other => sprint(self, std::slice::from_ref(other)),
        }
    }

    /// sprig's `strslice`: a list of texts out of anything, without its nils.
    pub(crate) fn texts_of(&mut self, value: &Value) -> Done<Vec<String>> {
        match value {
            Value::List(list) => {
                let items = list.items.iter().filter(|item| !item.is_nothing());
                items.map(|item| self.text_of(item)).collect()
            }
            Value::Missing | Value::Nil => Ok(Vec::new()),
            other => Ok(vec![self.text_of(other)?]),
        }
    }
}

/// cast.ToInt64: what cannot be read is 0.
pub(crate) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(value, _) => *value,
        Value::Float(value) => float_to_int(*value),
        Value::Bool(value) => i64::from(*value),
        Value::Text(text) => {
            parse_integer(trim_zero_decimal(text)).and_then(|v| i64::try_from(v).ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Go on amd64: what does not fit becomes the smallest integer.
fn float_to_int(value: f64) -> i64 {
    if value.is_nan() || value.abs() >= 9_223_372_036_854_775_808.0 { i64::MIN } else { value as i64 }
}

/// cast.ToFloat64: what cannot be read is 0.
pub(crate) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(value, _) => *value as f64,
        Value::Float(value) => *value,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Text(text) => parse_float(text).unwrap_or(0.0),
        _ => 0.0,
    }
}

/// strconv.ParseFloat, without hexadecimal floats.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let body = text.trim_start_matches(['+', '-']);
    let word = matches!(body.to_lowercase().as_str(), "inf" | "infinity" | "nan");
    let digits = body.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if word || digits { text.parse().ok() } else { None }
}

/// `1.00` is read as `1`.
fn trim_zero_decimal(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|b| b == b'0') && !zeros.is_empty() => whole,
        _ => text,
    }
}
