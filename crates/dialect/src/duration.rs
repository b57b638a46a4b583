//! Durations as Go writes them: `5s`, `1m30s`, `1.5h`, `300ms`.

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nanoseconds of a Go duration, or what Go says is wrong with it.
pub fn nanos(text: &str) -> Result<i128, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let count = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, after) = rest.split_at(count);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && part.is_empty() || part.contains('.') || whole.len() > 18 {
            return Err(invalid());
        }
        let length = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let unit = UNITS.iter().find(|(name, _)| *name == &after[..length]);
        let Some((_, unit)) = unit else {
            return Err(if length == 0 {
                format!("time: missing unit in duration {text:?}")
            } else {
                format!("time: unknown unit {:?} in duration {text:?}", &after[..length])
            });
        };
        let digits = &part[..part.len().min(15)];
        let scale = 10_i128.pow(digits.len() as u32);
        total +=
            whole.parse::<i128>().unwrap_or(0) * unit + digits.parse::<i128>().unwrap_or(0) * unit / scale;
        if total > i128::from(i64::MAX) {
            return Err(invalid());
        }
        rest = &after[length..];
    }
    Ok(if negative { -total } else { total })
}

/// Milliseconds of a Go duration; None if the text is none.
pub fn parse_go(text: &str) -> Option<i64> {
    i64::try_from(nanos(text).ok()? / 1_000_000).ok()
}

/// As [`parse_go`], but a number without a unit is in seconds.
pub fn parse_or_seconds(text: &str) -> Option<i64> {
    match text.parse::<i64>() {
        Ok(seconds) => seconds.checked_mul(1000),
        Err(_) => parse_go(text),
    }
}

/// The text that Go writes for so many nanoseconds.
pub fn text(nanos: i128) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    let with_part = |unit: u128, name: &str, digits: usize| {
        let part = format!("{:0digits$}", size % unit);
        let part = part.trim_end_matches('0');
        let point = if part.is_empty() { "" } else { "." };
        format!("{sign}{}{point}{part}{name}", size / unit)
    };
    if size < 1_000 {
        return format!("{sign}{size}ns");
    }
    if size < 1_000_000 {
        return with_part(1_000, "µs", 3);
    }
    if size < 1_000_000_000 {
        return with_part(1_000_000, "ms", 6);
    }
    let seconds = size / 1_000_000_000;
    let part = format!("{:09}", size % 1_000_000_000);
    let part = part.trim_end_matches('0');
    let point = if part.is_empty() { "" } else { "." };
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut out = sign.to_owned();
    if hours > 0 {
        out.push_str(&format!("{hours}h"));
    }
    if hours > 0 || minutes > 0 {
        out.push_str(&format!("{minutes}m"));
    }
    out.push_str(&format!("{seconds}{point}{part}s"));
    out
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
