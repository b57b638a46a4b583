//! `printf`: verbs, flags, widths, and what fmt writes when they do not fit.

use super::{Sink, go_quote, int_text, plain, push_escaped, sprint, too_deep};
use crate::exec::Scope;
use crate::float;
use crate::value::{Elem, IntType, Value};

type Done<T> = Result<T, String>;

/// Widths beyond this are refused by fmt too.
const WIDTH_MAX: i64 = 1_000_000;

#[derive(Clone, Default)]
struct Spec {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

struct Printer<'v, 's, 'e> {
    sink: Sink<'s, 'e>,
    values: &'v [Value],
    next: usize,
    reordered: bool,
    bad_index: bool,
}

/// fmt.Sprintf.
pub(crate) fn sprintf(scope: &mut Scope<'_>, format: &str, values: &[Value]) -> Done<String> {
    let sink = Sink::new(scope);
    let mut printer = Printer { sink, values, next: 0, reordered: false, bad_index: false };
    printer.run(format)?;
    Ok(printer.sink.text)
}

impl Printer<'_, '_, '_> {
    fn run(&mut self, format: &str) -> Done<()> {
        let chars: Vec<char> = format.chars().collect();
        self.sink.scope.charge(chars.len() * 4)?;
        let mut i = 0;
        while i < chars.len() {
            if chars[i] != '%' {
                let end = chars[i..].iter().position(|c| *c == '%').map_or(chars.len(), |n| i + n);
                let text: String = chars[i..end].iter().collect();
                self.sink.push(&text)?;
                i = end;
                continue;
            }
            self.sink.scope.step()?;
            i = self.directive(&chars, i + 1)?;
        }
        if !self.reordered && self.next < self.values.len() {
            self.sink.push("%!(EXTRA ")?;
            for index in self.next..self.values.len() {
                if index > self.next {
                    self.sink.push(", ")?;
                }
                let value = self.values[index].clone();
                self.typed(&value)?;
            }
            self.sink.push(")")?;
        }
        Ok(())
    }

    /// `type=value`, as in complaints.
    fn typed(&mut self, value: &Value) -> Done<()> {
        if value.is_nothing() {
            return self.sink.push("<nil>");
        }
        self.sink.push(value.type_name())?;
        self.sink.push("=")?;
        plain(&mut self.sink, value, 0)
    }

    /// Reads one directive behind its `%` and writes it; says where the text goes on.
    fn directive(&mut self, chars: &[char], mut i: usize) -> Done<usize> {
        let mut spec = Spec::default();
        self.bad_index = false;
        while let Some(c) = chars.get(i) {
            match c {
                '#' => spec.sharp = true,
                '0' => spec.zero = true,
                '+' => spec.plus = true,
                '-' => spec.minus = true,
                ' ' => spec.space = true,
                _ => break,
            }
            i += 1;
        }
        i = self.index(chars, i);
        if chars.get(i) == Some(&'*') {
            i += 1;
            match self.star() {
                Some(width) => {
                    spec.minus |= width < 0;
                    spec.width = Some(width.unsigned_abs() as usize);
                }
                None => self.sink.push("%!(BADWIDTH)")?,
            }
        } else {
            (spec.width, i) = number(chars, i);
        }
        if chars.get(i) == Some(&'.') {
            i += 1;
            i = self.index(chars, i);
            if chars.get(i) == Some(&'*') {
                i += 1;
                match self.star() {
                    Some(precision) if precision >= 0 => spec.precision = Some(precision as usize),
                    _ => self.sink.push("%!(BADPREC)")?,
                }
            } else {
                let (precision, after) = number(chars, i);
                spec.precision = Some(precision.unwrap_or(0));
                i = after;
            }
        }
        i = self.index(chars, i);
        let Some(&verb) = chars.get(i) else {
            self.sink.push("%!(NOVERB)")?;
            return Ok(i);
        };
        i += 1;
        if verb == '%' {
            self.sink.push("%")?;
        } else if self.bad_index {
            self.sink.push(&format!("%!{verb}(BADINDEX)"))?;
        } else if let Some(value) = self.values.get(self.next).cloned() {
            self.next += 1;
            self.one(&spec, verb, &value, 0)?;
        } else {
            self.sink.push(&format!("%!{verb}(MISSING)"))?;
        }
        Ok(i)
    }

    /// `[2]`: which argument comes next.
    fn index(&mut self, chars: &[char], i: usize) -> usize {
        if chars.get(i) != Some(&'[') {
            return i;
        }
        self.reordered = true;
        let Some(length) = chars[i..].iter().position(|c| *c == ']') else {
            self.bad_index = true;
            return i + 1;
        };
        let text: String = chars[i + 1..i + length].iter().collect();
        match text.parse::<usize>() {
            Ok(number) if number >= 1 && number <= self.values.len() => self.next = number - 1,
            _ => self.bad_index = true,
        }
        i + length + 1
    }

    fn star(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        match value {
            Value::Int(value, _) if value.abs() <= WIDTH_MAX => Some(*value),
            _ => None,
        }
    }

    fn bad(&mut self, verb: char, value: &Value) -> Done<()> {
        self.sink.push(&format!("%!{verb}("))?;
        self.typed(value)?;
        self.sink.push(")")
    }

    fn one(&mut self, spec: &Spec, verb: char, value: &Value, depth: usize) -> Done<()> {
        too_deep(depth)?;
        self.sink.scope.step()?;
        if verb == 'T' {
            return self.pad(spec, value.type_name());
        }
        if verb == 'v' && spec.sharp {
            return self.go_syntax(value, depth);
        }
        match value {
            Value::Missing | Value::Nil => match verb {
                'v' => self.pad(spec, "<nil>"),
                _ => self.sink.push(&format!("%!{verb}(<nil>)")),
            },
            Value::Bool(flag) => match verb {
                't' | 'v' => self.pad(spec, if *flag { "true" } else { "false" }),
                _ => self.bad(verb, value),
            },
            Value::Int(_, IntType::Month | IntType::Weekday) if matches!(verb, 's' | 'v' | 'q') => {
                let text = sprint(self.sink.scope, std::slice::from_ref(value))?;
                self.text(spec, verb, &text, value)
            }
            Value::Int(number, kind) => self.integer(spec, verb, *number, *kind, value),
            Value::Float(number) => self.float(spec, verb, *number, value),
            Value::Text(text) => self.text(spec, verb, text, value),
            Value::Time(_) | Value::Version(_) => {
                let text = sprint(self.sink.scope, std::slice::from_ref(value))?;
                self.text(spec, verb, &text, value)
            }
            Value::List(list) => {
                self.sink.push("[")?;
                for (index, item) in list.items.iter().enumerate() {
                    if index > 0 {
                        self.sink.push(" ")?;
                    }
                    self.one(spec, verb, item, depth + 1)?;
                }
                self.sink.push("]")
            }
            Value::Map(map) => {
                self.sink.push("map[")?;
                for (index, (key, item)) in map.snapshot().iter().enumerate() {
                    if index > 0 {
                        self.sink.push(" ")?;
                    }
                    self.one(spec, verb, &Value::from(key.as_str()), depth + 1)?;
                    self.sink.push(":")?;
                    self.one(spec, verb, item, depth + 1)?;
                }
                self.sink.push("]")
            }
        }
    }

    fn pad(&mut self, spec: &Spec, text: &str) -> Done<()> {
        let missing = spec.width.unwrap_or(0).saturating_sub(text.chars().count());
        if missing == 0 {
            return self.sink.push(text);
        }
        self.sink.scope.charge(missing)?;
        if spec.minus {
            self.sink.push(text)?;
            self.sink.push(&" ".repeat(missing))
        } else {
            let fill = if spec.zero { "0" } else { " " };
            self.sink.push(&fill.repeat(missing))?;
            self.sink.push(text)
        }
    }

    fn text(&mut self, spec: &Spec, verb: char, text: &str, value: &Value) -> Done<()> {
        let cut: String = match spec.precision {
            Some(count) if !matches!(verb, 'x' | 'X') => text.chars().take(count).collect(),
            _ => text.to_owned(),
        };
        match verb {
            's' | 'v' => self.pad(spec, &cut),
            'q' if spec.sharp
                && !cut.contains(['`', '\u{feff}'])
                && !cut.contains(|c: char| c.is_control() && c != '\t') =>
            {
                self.pad(spec, &format!("`{cut}`"))
            }
            'q' if spec.plus => {
                let mut quoted = String::from("\"");
                for c in cut.chars() {
                    match c as u32 {
                        0..=0x7f => push_escaped(&mut quoted, c, '"'),
                        code @ 0x80..=0xffff => quoted.push_str(&format!("\\u{code:04x}")),
                        code => quoted.push_str(&format!("\\U{code:08x}")),
                    }
                }
                quoted.push('"');
                self.pad(spec, &quoted)
            }
            'q' => self.pad(spec, &go_quote(&cut)),
            'x' | 'X' => {
                let bytes = &text.as_bytes()[..spec.precision.unwrap_or(text.len()).min(text.len())];
                let mut out = String::new();
                for (index, byte) in bytes.iter().enumerate() {
                    if spec.space && index > 0 {
                        out.push(' ');
                    }
                    if spec.sharp && (spec.space || index == 0) {
                        out.push_str(if verb == 'x' { "0x" } else { "0X" });
                    }
                    out.push_str(&if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
                }
                self.pad(spec, &out)
            }
            _ => self.bad(verb, value),
        }
    }

    fn integer(&mut self, spec: &Spec, verb: char, number: i64, kind: IntType, value: &Value) -> Done<()> {
        let (negative, magnitude) = match kind {
            IntType::Uint64 => (false, number as u64),
            _ => (number < 0, number.unsigned_abs()),
        };
        let (prefix, digits) = match verb {
            'd' | 'v' => ("", magnitude.to_string()),
            'b' => (if spec.sharp { "0b" } else { "" }, format!("{magnitude:b}")),
            'o' => (if spec.sharp { "0" } else { "" }, format!("{magnitude:o}")),
            'O' => ("0o", format!("{magnitude:o}")),
            'x' => (if spec.sharp { "0x" } else { "" }, format!("{magnitude:x}")),
            'X' => (if spec.sharp { "0X" } else { "" }, format!("{magnitude:X}")),
            'c' => {
                let c = u32::try_from(number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
                return self.pad(spec, &c.to_string());
            }
            'q' => {
                let c = u32::try_from(number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
                let mut quoted = String::from("'");
                push_escaped(&mut quoted, c, '\'');
                quoted.push('\'');
                return self.pad(spec, &quoted);
            }
            'U' => return self.pad(spec, &format!("U+{magnitude:04X}")),
            _ => return self.bad(verb, value),
        };
        let sign = if negative {
            "-"
        } else if spec.plus {
            "+"
        } else if spec.space {
            " "
        } else {
            ""
        };
        let mut digits = digits;
        match (spec.precision, spec.width) {
            (Some(0), _) if number == 0 => return self.pad(&Spec { zero: false, ..spec.clone() }, ""),
            (Some(precision), _) => {
                self.sink.scope.charge(precision)?;
                digits = format!("{}{digits}", "0".repeat(precision.saturating_sub(digits.len())));
            }
            (None, Some(width)) if spec.zero && !spec.minus => {
                self.sink.scope.charge(width)?;
                let room = width.saturating_sub(sign.len() + digits.len());
                digits = format!("{}{digits}", "0".repeat(room));
            }
            _ => {}
        }
        self.pad(&Spec { zero: false, ..spec.clone() }, &format!("{sign}{prefix}{digits}"))
    }

    fn float(&mut self, spec: &Spec, verb: char, number: f64, value: &Value) -> Done<()> {
        self.sink.scope.charge(spec.precision.unwrap_or(0))?;
        let precision = spec.precision.unwrap_or(6);
        let text = match verb {
            'v' | 'g' => float::compact(number, spec.precision, 'e'),
            'G' => float::compact(number, spec.precision, 'E'),
            'f' | 'F' => float::fixed(number, precision),
            'e' => float::exponential(number, Some(precision), 'e'),
            'E' => float::exponential(number, Some(precision), 'E'),
            _ => return self.bad(verb, value),
        };
        let unsigned = text.trim_start_matches(['+', '-']);
        let sign = if text.starts_with('-') {
            "-"
        } else if spec.plus || (text.starts_with('+') && !spec.space) {
            "+"
        } else if spec.space {
            " "
        } else {
            ""
        };
        let finite = number.is_finite();
        if spec.zero && !spec.minus && finite {
            let room = spec.width.unwrap_or(0).saturating_sub(sign.len() + unsigned.len());
            self.sink.scope.charge(room)?;
            return self.sink.push(&format!("{sign}{}{unsigned}", "0".repeat(room)));
        }
        self.pad(&Spec { zero: false, ..spec.clone() }, &format!("{sign}{unsigned}"))
    }

    /// `%#v`.
    fn go_syntax(&mut self, value: &Value, depth: usize) -> Done<()> {
        too_deep(depth)?;
        self.sink.scope.step()?;
        match value {
            Value::Missing | Value::Nil if depth == 0 => self.sink.push("<nil>"),
            Value::Missing | Value::Nil => self.sink.push("interface {}(nil)"),
            Value::Text(text) => self.sink.push(&go_quote(text)),
            Value::Int(number, kind @ (IntType::Uint8 | IntType::Uint64)) => {
                let text = int_text(*number, *kind);
                self.sink.push(&format!("0x{:x}", text.parse::<u64>().unwrap_or(0)))
            }
            Value::Int(number, _) => self.sink.push(&number.to_string()),
            Value::List(list) => {
                self.sink.push(value.type_name())?;
                self.sink.push("{")?;
                for (index, item) in list.items.iter().enumerate() {
                    if index > 0 {
                        self.sink.push(", ")?;
                    }
                    debug_assert!(list.elem != Elem::Lists || matches!(item, Value::List(_)));
                    self.go_syntax(item, depth + 1)?;
                }
                self.sink.push("}")
            }
            Value::Map(map) => {
                self.sink.push(value.type_name())?;
                self.sink.push("{")?;
                for (index, (key, item)) in map.snapshot().iter().enumerate() {
                    if index > 0 {
                        self.sink.push(", ")?;
                    }
                    self.sink.push(&go_quote(key))?;
                    self.sink.push(":")?;
                    self.go_syntax(item, depth + 1)?;
                }
                self.sink.push("}")
            }
            other => plain(&mut self.sink, other, depth),
        }
    }
}

/// A decimal number, if there is one here.
fn number(chars: &[char], mut i: usize) -> (Option<usize>, usize) {
    let start = i;
    let mut value: i64 = 0;
    while let Some(digit) = chars.get(i).and_then(|c| c.to_digit(10)) {
        value = (value * 10 + i64::from(digit)).min(WIDTH_MAX);
        i += 1;
    }
    ((i > start).then_some(value as usize), i)
}
