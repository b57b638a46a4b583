//! Kubernetes quantities: `1000m`, `1` and `1.0` are one amount, written in one way.

use serde_json::Value;

/// The amount in nano units, if the text is a quantity that fits.
pub fn nanos_of_text(text: &str) -> Option<i128> {
    let text = text.trim();
    let split =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (mut number, mut suffix) = text.split_at(split);
    // `1e3` and `1E3` are exponents, `1E` is exa.
    let mut exponent = 0i32;
    if suffix.len() > 1 && matches!(suffix.as_bytes()[0], b'e' | b'E') {
        if let Ok(power) = suffix[1..].parse::<i32>() {
            (exponent, suffix) = (power, "");
        }
    } else if number.is_empty() {
        return None;
    }
    let negative = number.starts_with('-');
    number = number.strip_prefix(['+', '-']).unwrap_or(number);
    if number.contains(['+', '-']) {
        return None;
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = |power: i32| 10i128.checked_pow(power.unsigned_abs());
    let (binary, decimal): (i128, i32) = match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => return None,
    };
    let power = 9 + decimal + exponent - fraction.len() as i32;
    let amount = digits.checked_mul(binary)?;
    let amount = if power >= 0 { amount.checked_mul(scale(power)?)? } else { amount / scale(power)? };
    Some(if negative { -amount } else { amount })
}

/// The amount in nano units of a quantity that is a text or a number.
pub fn nanos(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => nanos_of_text(text),
        Value::Number(number) => nanos_of_text(&number.to_string()),
        _ => None,
    }
}

/// The amount as a number, for what is counted in halves and not compared for being the same.
pub fn amount(value: &Value) -> Option<f64> {
    nanos(value).map(|nanos| nanos as f64 / 1e9)
}

/// The quantity in one fixed writing, or None when the value is no quantity.
pub fn canonical(value: &Value) -> Option<String> {
    let nanos = nanos(value)?;
    for (unit, suffix) in [(1_000_000_000i128, ""), (1_000_000, "m"), (1_000, "u")] {
        if nanos % unit == 0 {
            let amount = nanos / unit;
            // Whole mebibytes and the like read better as people wrote them.
            if suffix.is_empty() {
                for (power, binary) in [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")] {
                    if amount != 0 && amount % (1i128 << power) == 0 {
                        return Some(format!("{}{binary}", amount >> power));
                    }
                }
            }
            return Some(format!("{amount}{suffix}"));
        }
    }
    Some(format!("{nanos}n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_amount_has_one_writing() {
        for (a, b) in [
            ("1000m", "1"),
            ("1.0", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1e3", "1k"),
            ("1048576Ki", "1Gi"),
        ] {
            assert_eq!(canonical(&json!(a)), canonical(&json!(b)), "{a} {b}");
        }
        assert_eq!(canonical(&json!(2)), canonical(&json!("2")));
        assert_eq!(canonical(&json!(0.1)), canonical(&json!("100m")));
        assert_ne!(canonical(&json!("1G")), canonical(&json!("1Gi")));
        assert_ne!(canonical(&json!("1M")), canonical(&json!("1m")));
        assert_eq!((amount(&json!("1500m")), amount(&json!("1Ki"))), (Some(1.5), Some(1024.0)));
        for text in ["", "a", "1x", "Mi", "1.2.3", "--1"] {
            assert_eq!(canonical(&json!(text)), None, "{text}");
        }
    }
}
