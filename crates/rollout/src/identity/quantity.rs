//! A quantity in the one way in which Go writes it: decimal stays decimal and binary stays binary, without a fraction and with the largest
//! suffix that allows it.

use serde_json::Value;
use slipway_dialect::quantity::nanos_of_text;

const NANOS: i128 = 1_000_000_000;
const DECIMAL: [(i32, &str); 10] =
    [(18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""), (-3, "m"), (-6, "u"), (-9, "n")];

pub(super) fn as_go_writes(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return "0".into(),
    };
    // What is no quantity was refused long before; it stands for itself.
    let Some(nanos) = nanos_of_text(&text) else { return text };
    let written = written(&text, nanos);
    // What has the right number and suffix already stays as somebody wrote it: `+2`, `05`, `1E3`.
    let plain = text.trim_start_matches('+').trim_start_matches('0');
    let plain = if plain.ends_with('E') { plain.to_owned() } else { plain.replace('E', "e") };
    let plain = plain.strip_suffix("e0").unwrap_or(&plain);
    if nanos != 0 && plain == written { text } else { written }
}

fn written(text: &str, nanos: i128) -> String {
    let binary = text.ends_with('i') && nanos.abs() >= 1024 * NANOS && nanos % NANOS == 0;
    if binary {
        let mut amount = nanos / NANOS;
        let mut suffix = 0;
        while amount != 0 && amount % 1024 == 0 && suffix < 6 {
            amount /= 1024;
            suffix += 1;
        }
        return format!("{amount}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][suffix]);
    }
    let exponent = !text.ends_with(['E', 'e']) && text.contains(['e', 'E']);
    for (power, suffix) in DECIMAL {
        let unit = 10i128.pow((power + 9).unsigned_abs());
        if nanos % unit == 0 {
            let amount = nanos / unit;
            return match (amount, power) {
                (0, _) => "0".into(),
                (amount, power) if exponent && power != 0 => format!("{amount}e{power}"),
                (amount, _) => format!("{amount}{suffix}"),
            };
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_amount_is_written_as_go_writes_it() {
        for (given, wanted) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("100m", "100m"),
            ("1024Mi", "1Gi"),
            ("1000Mi", "1000Mi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1Gi", "1Gi"),
            ("128M", "128M"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("1E0", "1E0"),
            ("100E1", "1e3"),
            ("1E", "1E"),
            ("+2", "+2"),
            ("+2Gi", "+2Gi"),
            ("+1000m", "1"),
            ("05", "05"),
            ("+0", "0"),
            ("0Gi", "0"),
            ("0", "0"),
        ] {
            assert_eq!(as_go_writes(&given.into()), wanted, "{given}");
        }
        assert_eq!(as_go_writes(&2.into()), "2");
    }
}
