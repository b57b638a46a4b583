//! Number constants: untyped until something asks for them as an integer or as a float.

/// A constant and everything it can be.
#[derive(Debug, Clone)]
pub(crate) struct Number {
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
}

impl Number {
    /// Reads a constant as Go does: decimal, hexadecimal, octal, binary, underscores, floats, characters.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut number = Self { text: text.to_owned(), int: None, uint: None, float: None };
        if text.starts_with('\'') {
            let c = i64::from(u32::from(unquote_char(text)?));
            number.int = Some(c);
            number.uint = Some(c.unsigned_abs());
            number.float = Some(c as f64);
            return Some(number);
        }
        if let Some(value) = parse_integer(text) {
            number.int = i64::try_from(value).ok();
            number.uint = u64::try_from(value).ok();
            number.float = Some(value as f64);
            return (number.int.is_some() || number.uint.is_some()).then_some(number);
        }
        let float = parse_float(text)?;
        number.float = Some(float);
        if float.fract() == 0.0 && float.abs() < 9.2e18 {
            number.int = Some(float as i64);
            number.uint = (float >= 0.0).then_some(float as u64);
        }
        // A text without a point or an exponent is an integer, and this one is too big to be one.
        text.contains(['.', 'e', 'E', 'p', 'P']).then_some(number)
    }

    /// A float when it is written like one.
    pub(crate) fn is_written_as_float(&self) -> bool {
        let lower = self.text.to_lowercase();
        let unsigned = lower.trim_start_matches(['+', '-']);
        let hexadecimal = unsigned.starts_with("0x") && !lower.contains('p');
        self.float.is_some()
            && !hexadecimal
            && !self.text.starts_with('\'')
            && self.text.contains(['.', 'e', 'E', 'p', 'P'])
    }
}

/// An integer with a sign, a base prefix and underscores between digits.
pub(crate) fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, body) = if let Some(rest) = lower.strip_prefix("0x") {
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
    let prefixed = base != 10;
    if body.ends_with('_') || body.contains("__") || (body.starts_with('_') && !prefixed) {
        return None;
    }
    let body = body.replace('_', "");
    if body.is_empty() || body.len() > 30 && base == 10 || !body.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from_str_radix(&body, base).ok()?;
    Some(if negative { -value } else { value })
}

fn parse_float(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    let body = plain.trim_start_matches(['+', '-']).to_lowercase();
    if let Some(digits) = body.strip_prefix("0x") {
        let value = parse_hexadecimal_float(digits)?;
        return Some(if plain.starts_with('-') { -value } else { value });
    }
    if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    plain.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// `1.8p3`: hexadecimal digits and an exponent of two, without the prefix.
fn parse_hexadecimal_float(digits: &str) -> Option<f64> {
    let (mantissa, exponent) = digits.split_once('p')?;
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{part}");
    if all.is_empty() || all.len() > 15 {
        return None;
    }
    let exponent: i32 = exponent.parse().ok()?;
    let shift = exponent.checked_sub(4 * i32::try_from(part.len()).ok()?)?;
    let value = u64::from_str_radix(&all, 16).ok()? as f64 * 2_f64.powi(shift);
    value.is_finite().then_some(value)
}

/// A quoted character.
fn unquote_char(text: &str) -> Option<char> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let read = if inner == "\\'" { "'".to_owned() } else { unescape(inner, false)? };
    let mut chars = read.chars();
    let c = chars.next()?;
    chars.next().is_none().then_some(c)
}

/// The text of an interpreted string without its quotes.
pub(crate) fn unescape(inner: &str, in_string: bool) -> Option<String> {
    let mut bytes: Vec<u8> = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match rest.clone().next() {
            Some('x') => {
                rest.next();
                let mut value = 0;
                for _ in 0..2 {
                    value = value * 16 + rest.next()?.to_digit(16)?;
                }
                bytes.push(value as u8);
            }
            Some(kind @ ('u' | 'U')) => {
                rest.next();
                let mut value: u32 = 0;
                for _ in 0..if kind == 'u' { 4 } else { 8 } {
                    value = value.checked_mul(16)?.checked_add(rest.next()?.to_digit(16)?)?;
                }
                bytes.extend_from_slice(char::from_u32(value)?.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Some('0'..='7') => {
                let mut value: u32 = 0;
                for _ in 0..3 {
                    value = value * 8 + rest.next()?.to_digit(8)?;
                }
                bytes.push(u8::try_from(value).ok()?);
            }
            Some(simple) => {
                rest.next();
                bytes.push(match simple {
                    'a' => 7,
                    'b' => 8,
                    'f' => 12,
                    'n' => b'\n',
                    'r' => b'\r',
                    't' => b'\t',
                    'v' => 11,
                    '\\' => b'\\',
                    '"' if in_string => b'"',
                    '\'' if !in_string => b'\'',
                    _ => return None,
                });
            }
            None => return None,
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
