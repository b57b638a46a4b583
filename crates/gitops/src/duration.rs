//! Durations as Go writes them: `5s`, `1m30s`, `1.5h`, `300ms`.

/// Milliseconds of a Go duration; None if the text is none.
pub fn parse_go(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|end| *end > 0)?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..unit_end] {
            "ns" => 1e-6,
            "us" | "µs" | "μs" => 1e-3,
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 60e3,
            "h" => 3600e3,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[unit_end..];
    }
    (!text.is_empty() && total.is_finite() && total < 1e15)
        .then(|| if negative { -total } else { total } as i64)
}

/// As [`parse_go`], but a number without a unit is in seconds.
pub fn parse_or_seconds(text: &str) -> Option<i64> {
    match text.parse::<i64>() {
        Ok(seconds) => seconds.checked_mul(1000),
        Err(_) => parse_go(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read() {
        for (text, ms) in [
            ("5s", 5000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("300ms", 300),
            ("0", 0),
            ("-2m", -120_000),
        ] {
            assert_eq!(parse_go(text), Some(ms), "{text}");
        }
        for text in ["", "5", "s", "5x", "1h-2m", "..s", "9999999999999999h"] {
            assert_eq!(parse_go(text), None, "{text}");
        }
        assert_eq!(parse_or_seconds("5"), Some(5000));
        assert_eq!(parse_or_seconds("3m"), Some(180_000));
    }
}
