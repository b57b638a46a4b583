//! Values as the language sees them, with JavaScript's numbers and text.

use serde_json::{Map, Value as Json};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(f64),
    String(String),
    Boolean(bool),
    Object(Map<String, Json>),
    Null,
}

impl Value {
    /// Lists have no place in the language; a variable that holds one cannot be read.
    pub(super) fn from_json(json: &Json) -> Option<Self> {
        Some(match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Boolean(*flag),
            Json::Number(number) => Self::Number(number.as_f64()?),
            Json::String(text) => Self::String(text.clone()),
            Json::Object(members) => Self::Object(members.clone()),
            Json::Array(_) => return None,
        })
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Boolean(_) => "boolean",
            Self::Object(_) => "object",
            Self::Null => "null",
        }
    }

    pub(super) fn is_truthy(&self) -> bool {
        match self {
            Self::Number(number) => *number != 0.0 && !number.is_nan(),
            Self::String(text) => !text.is_empty(),
            Self::Boolean(flag) => *flag,
            Self::Object(_) => true,
            Self::Null => false,
        }
    }
}

/// `String(number)` in JavaScript: shortest digits, exponents outside 1e-7 … 1e21.
pub(super) fn number_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number == 0.0 {
        return "0".to_owned();
    }
    let magnitude = number.abs();
    if (1e-6..1e21).contains(&magnitude) {
        return number.to_string();
    }
    // Rust writes `1e21`, JavaScript `1e+21`; negative exponents agree.
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

/// `Number(text)` in JavaScript; `None` stands for what is not a finite number.
pub(super) fn text_number(text: &str) -> Option<f64> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Some(0.0);
    }
    let lower = trimmed.to_ascii_lowercase();
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = lower.strip_prefix(prefix) {
            let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
            return valid.then(|| {
                digits.chars().fold(0.0, |sum, c| {
                    sum * f64::from(radix) + f64::from(c.to_digit(radix).unwrap_or_default())
                })
            });
        }
    }
    // Rust also reads `inf` and `nan`, which JavaScript does not; `Infinity` the evaluator refuses.
    let decimal =
        trimmed.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    decimal.then(|| trimmed.parse().ok()).flatten().filter(|number: &f64| number.is_finite())
}
