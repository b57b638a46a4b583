//! Floats as strconv writes them: shortest digits, `%e`, `%f`, `%g`.

/// The shortest digits that read back as the same number, and the exponent of the first.
fn shortest(value: f64) -> (String, i32) {
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').expect("Rust writes an exponent");
    (mantissa.replace('.', ""), exponent.parse().expect("Rust writes a number"))
}

/// No float has more digits than this; what is asked beyond is zeros.
const DIGITS_MAX: usize = 1100;

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value < 0.0 { "-Inf" } else { "+Inf" })
    } else {
        None
    }
}

const GENERAL_EXPONENT: i32 = 6;

fn sign(value: f64) -> &'static str {
    if value.is_sign_negative() { "-" } else { "" }
}

fn scientific(value: f64, digits: &str, exponent: i32, e: char) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{}{first}{point}{rest}{e}{exponent_sign}{:02}", sign(value), exponent.abs())
}

fn positional(value: f64, digits: &str, exponent: i32) -> String {
    let text = if exponent < 0 {
        format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize))
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            format!("{digits}{}", "0".repeat(whole - digits.len()))
        } else {
            format!("{}.{}", &digits[..whole], &digits[whole..])
        }
    };
    format!("{}{text}", sign(value))
}

/// `%v` and `%g` without a precision: the shortest digits, with an exponent below 1e-04 and from 1e+06 on.
pub fn general(value: f64) -> String {
    if let Some(word) = special(value) {
        return word.to_owned();
    }
    if value == 0.0 {
        return format!("{}0", sign(value));
    }
    let (digits, exponent) = shortest(value);
    if !(-4..GENERAL_EXPONENT).contains(&exponent) {
        scientific(value, &digits, exponent, 'e')
    } else {
        positional(value, &digits, exponent)
    }
}

/// What encoding/json writes.
pub(crate) fn json(value: f64) -> String {
    if value == 0.0 {
        return format!("{}0", sign(value));
    }
    let (digits, exponent) = shortest(value);
    if !(-6..21).contains(&exponent) {
        let text = scientific(value, &digits, exponent, 'e');
        // e-09 is written e-9.
        return text.replace("e-0", "e-");
    }
    positional(value, &digits, exponent)
}

/// `%.<precision>f`.
pub(crate) fn fixed(value: f64, precision: usize) -> String {
    match special(value) {
        Some(word) => word.to_owned(),
        None => {
            let digits = precision.min(DIGITS_MAX);
            format!("{value:.digits$}{}", "0".repeat(precision - digits))
        }
    }
}

/// `%.<precision>e`; none: the shortest.
pub(crate) fn exponential(value: f64, precision: Option<usize>, e: char) -> String {
    if let Some(word) = special(value) {
        return word.to_owned();
    }
    let text = match precision {
        Some(precision) => {
            let digits = precision.min(DIGITS_MAX);
            let text = format!("{:.digits$e}", value.abs());
            text.replace('e', &format!("{}e", "0".repeat(precision - digits)))
        }
        None => format!("{:e}", value.abs()),
    };
    let (mantissa, exponent) = text.split_once('e').expect("Rust writes an exponent");
    scientific(value, &mantissa.replace('.', ""), exponent.parse().expect("Rust writes a number"), e)
}

/// `%.<precision>g`; none: the shortest.
pub(crate) fn compact(value: f64, precision: Option<usize>, e: char) -> String {
    let Some(precision) = precision else {
        return general(value).replace('e', &e.to_string());
    };
    if let Some(word) = special(value) {
        return word.to_owned();
    }
    if value == 0.0 {
        return format!("{}0", sign(value));
    }
    let precision = precision.clamp(1, DIGITS_MAX);
    let text = format!("{:.*e}", precision - 1, value.abs());
    let (mantissa, exponent) = text.split_once('e').expect("Rust writes an exponent");
    let exponent: i32 = exponent.parse().expect("Rust writes a number");
    let digits = mantissa.replace('.', "");
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    if exponent < -4 || exponent >= precision as i32 {
        scientific(value, digits, exponent, e)
    } else {
        positional(value, digits, exponent)
    }
}
