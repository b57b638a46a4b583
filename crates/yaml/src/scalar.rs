//! What a scalar means in each dialect.
//!
//! Kubernetes follows go-yaml v2 (`resolve.go`), Pipeline follows js-yaml's default schema
//! (`lib/js-yaml/type/*.js`). Timestamps stay text in both: go-yaml keeps them so for untyped
//! values, and a pipeline has no field in which a date object would be right.

use serde_json::Number;

use crate::{Dialect, NodeKind};

const CORE: &str = "tag:yaml.org,2002:";

/// The scalar as the parser saw it.
pub(crate) struct RawScalar<'a> {
    pub(crate) value: &'a str,
    pub(crate) tag: Option<&'a str>,
    pub(crate) plain: bool,
}

/// Resolves a scalar, or says why its dialect cannot read it.
pub(crate) fn resolve(raw: &RawScalar<'_>, dialect: Dialect) -> Result<NodeKind, String> {
    let text = || Ok(NodeKind::String(raw.value.to_owned()));
    let Some(tag) = raw.tag else {
        return if raw.plain { plain(raw.value, dialect) } else { text() };
    };
    let Some(core) = tag.strip_prefix(CORE) else {
        // go-yaml reads through tags it does not know (`!ENV`); js-yaml refuses them.
        return match dialect {
            Dialect::Kubernetes => text(),
            Dialect::Pipeline if tag == "!" => text(),
            Dialect::Pipeline => {
                Err(format!("the tag `{tag}` is not known here; remove it, or quote the value"))
            }
        };
    };
    match core {
        "str" | "timestamp" => text(),
        "binary" => binary(raw.value),
        "null" => Ok(NodeKind::Null),
        "bool" | "int" | "float" => {
            let kind = plain(raw.value, dialect)?;
            let fraction = core == "int" && raw.value.contains('.');
            match (&kind, core) {
                _ if fraction => Err(format!("`{}` is not a value of type !!int", raw.value)),
                (NodeKind::Bool(_), "bool") | (NodeKind::Number(_), "int" | "float") => Ok(kind),
                _ => Err(format!("`{}` is not a value of type !!{core}", raw.value)),
            }
        }
        _ if dialect == Dialect::Kubernetes => text(),
        _ => Err(format!("the tag `!!{core}` is not known here; remove it")),
    }
}

fn plain(value: &str, dialect: Dialect) -> Result<NodeKind, String> {
    match dialect {
        Dialect::Kubernetes => kubernetes(value),
        Dialect::Pipeline => pipeline(value),
    }
}

fn kubernetes(value: &str) -> Result<NodeKind, String> {
    match value {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(NodeKind::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Ok(NodeKind::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Ok(NodeKind::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => {
            return Err(format!("`{value}` has no JSON form, so Kubernetes cannot read it; quote it"));
        }
        _ => {}
    }
    let number = value.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    if !number {
        return Ok(NodeKind::String(value.to_owned()));
    }
    // go-yaml drops every underscore before it looks at the digits, wherever it stands.
    let digits = value.replace('_', "");
    if !value.starts_with('.')
        && let Some(number) = go_integer(&digits)
    {
        return Ok(NodeKind::Number(number));
    }
    if is_decimal_float(&digits)
        && let Some(number) = float(&digits)
    {
        return Ok(NodeKind::Number(number));
    }
    Ok(NodeKind::String(value.to_owned()))
}

/// Go's `strconv.ParseInt(s, 0, 64)` with the unsigned fallback: 0x, 0b, 0o and a bare leading 0.
fn go_integer(digits: &str) -> Option<Number> {
    let (negative, body) = match digits.as_bytes().first()? {
        b'-' => (true, &digits[1..]),
        b'+' => (false, &digits[1..]),
        _ => (false, digits),
    };
    let lower = body.to_ascii_lowercase();
    let (radix, body) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    integer(negative, body, radix)
}

fn integer(negative: bool, body: &str, radix: u32) -> Option<Number> {
    if body.is_empty() || !body.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(body, radix).ok()?;
    if negative {
        let value = 0i128 - i128::from(magnitude);
        i64::try_from(value).ok().map(Number::from)
    } else {
        Some(Number::from(magnitude))
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal_float(text: &str) -> bool {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => (&body[..at], Some(&body[at + 1..])),
        None => (body, None),
    };
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_ok = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && all_digits(fraction),
        Some((whole, fraction)) => all_digits(whole) && all_digits(fraction),
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    let exponent_ok = exponent.is_none_or(|part| {
        let part = part.strip_prefix(['-', '+']).unwrap_or(part);
        !part.is_empty() && all_digits(part)
    });
    mantissa_ok && exponent_ok
}

/// A float as JSON prints it in Go and JavaScript: whole values carry no fraction, so `1.0` is `1`.
fn float(text: &str) -> Option<Number> {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    let value: f64 = text.parse().ok()?;
    if value.fract() == 0.0 && value.abs() <= LARGEST_EXACT {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

fn pipeline(value: &str) -> Result<NodeKind, String> {
    match value {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(NodeKind::Null),
        "true" | "True" | "TRUE" => return Ok(NodeKind::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(NodeKind::Bool(false)),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => {
            return Err(format!("`{value}` is not a number a pipeline can use; quote it"));
        }
        _ => {}
    }
    let numeric = value.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    // js-yaml knows `.5` but takes a signed one for text.
    let signed_point = value.starts_with("-.") || value.starts_with("+.");
    if numeric && !signed_point && !value.ends_with('_') {
        let digits = value.replace('_', "");
        if let Some(number) = js_integer(&digits) {
            return Ok(NodeKind::Number(number));
        }
        // js-yaml wants a dot or an exponent in a float; a plain run of digits too long for an
        // integer is still a number there, only an inexact one.
        if is_decimal_float(&digits)
            && let Some(number) = float(&digits)
        {
            return Ok(NodeKind::Number(number));
        }
    }
    Ok(NodeKind::String(value.to_owned()))
}

fn js_integer(digits: &str) -> Option<Number> {
    let (negative, body) = match digits.as_bytes().first()? {
        b'-' => (true, &digits[1..]),
        b'+' => (false, &digits[1..]),
        _ => (false, digits),
    };
    if let Some(rest) = body.strip_prefix("0b") {
        return integer(negative, rest, 2);
    }
    if let Some(rest) = body.strip_prefix("0x") {
        return integer(negative, rest, 16);
    }
    if let Some(rest) = body.strip_prefix("0o") {
        return integer(negative, rest, 8);
    }
    integer(negative, body, 10)
}

fn binary(value: &str) -> Result<NodeKind, String> {
    let bytes = base64(value).ok_or_else(|| "this !!binary value is not valid base64".to_owned())?;
    Ok(NodeKind::String(String::from_utf8_lossy(&bytes).into_owned()))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padded) = (0u32, 0u32, false);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padded = true;
                continue;
            }
            _ => return None,
        };
        if padded {
            return None;
        }
        bits = (bits << 6) | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    (count < 6).then_some(out)
}
