//! Step timeouts: `45m`, `1.5h`, `30s`.

/// The largest delay a timer takes; longer timeouts are cut to it.
const TIMEOUT_MS_MAX: f64 = 2_147_483_647.0;

/// Whether a text has the form `<number><s|m|h>`; the number may miss either side of its point.
pub(crate) fn is_step_timeout(text: &str) -> bool {
    let Some(number) = text.strip_suffix(['s', 'm', 'h']) else { return false };
    let mut points = 0;
    number.bytes().all(|byte| match byte {
        b'.' => {
            points += 1;
            points <= 1
        }
        byte => byte.is_ascii_digit(),
    })
}

/// `None` when the step has no timeout: not of the form, or zero.
pub(crate) fn step_timeout_ms(text: &str) -> Option<u64> {
    let text = text.trim();
    if !is_step_timeout(text) {
        return None;
    }
    let (number, unit) = text.split_at(text.len() - 1);
    let scale = match unit {
        "s" => 1_000.0,
        "m" => 60_000.0,
        _ => 3_600_000.0,
    };
    // `1.` and `.5` are numbers here; a lone `.` or nothing is not, and means no timeout.
    let padding = if number.contains('.') { "0" } else { "" };
    let value: f64 = format!("0{number}{padding}").parse().ok()?;
    let ms = (value * scale).min(TIMEOUT_MS_MAX);
    (ms >= 1.0 && number.bytes().any(|byte| byte.is_ascii_digit())).then_some(ms as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_read_as_documented() {
        for (text, expect) in [
            ("45m", Some(2_700_000)),
            ("1.5h", Some(5_400_000)),
            (".5s", Some(500)),
            ("1.m", Some(60_000)),
            ("30s", Some(30_000)),
            ("0m", None),
            ("0.0h", None),
            ("s", None),
            (".s", None),
            ("5", None),
            ("5d", None),
            ("-5s", None),
            ("999999h", Some(2_147_483_647)),
        ] {
            assert_eq!(step_timeout_ms(text), expect, "{text}");
        }
    }
}
