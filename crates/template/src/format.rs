//! fmt's printing: `print`, `println`, `printf` and what an action writes.

mod verbs;

use crate::exec::Scope;
use crate::float;
use crate::value::{IntType, Value};

pub(crate) use verbs::sprintf;

type Done<T> = Result<T, String>;

/// A value in a value in a value: deeper than this it holds itself.
const DEPTH_MAX: usize = 100;

/// Text that grows only as far as the template may go.
pub(crate) struct Sink<'s, 'e> {
    pub(crate) scope: &'s mut Scope<'e>,
    pub(crate) text: String,
}

impl<'s, 'e> Sink<'s, 'e> {
    pub(crate) fn new(scope: &'s mut Scope<'e>) -> Self {
        Self { scope, text: String::new() }
    }

    pub(crate) fn push(&mut self, text: &str) -> Done<()> {
        self.scope.charge(text.len())?;
        self.text.push_str(text);
        Ok(())
    }
}

pub(crate) fn too_deep(depth: usize) -> Done<()> {
    if depth > DEPTH_MAX {
        return Err("the value is nested too deep, or holds itself".into());
    }
    Ok(())
}

/// fmt.Sprint: a space between two arguments when neither is a text.
pub(crate) fn sprint(scope: &mut Scope<'_>, values: &[Value]) -> Done<String> {
    let mut sink = Sink::new(scope);
    let mut before_was_text = true;
    for (index, value) in values.iter().enumerate() {
        let is_text = matches!(value, Value::Text(_));
        if index > 0 && !is_text && !before_was_text {
            sink.push(" ")?;
        }
        plain(&mut sink, value, 0)?;
        before_was_text = is_text;
    }
    Ok(sink.text)
}

/// fmt.Sprintln.
pub(crate) fn sprintln(scope: &mut Scope<'_>, values: &[Value]) -> Done<String> {
    let mut sink = Sink::new(scope);
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            sink.push(" ")?;
        }
        plain(&mut sink, value, 0)?;
    }
    sink.push("\n")?;
    Ok(sink.text)
}

/// `%v`.
pub(crate) fn plain(sink: &mut Sink<'_, '_>, value: &Value, depth: usize) -> Done<()> {
    too_deep(depth)?;
    sink.scope.step()?;
    match value {
        Value::Missing | Value::Nil => sink.push("<nil>"),
        Value::Bool(value) => sink.push(if *value { "true" } else { "false" }),
        Value::Int(value, kind) => sink.push(&int_text(*value, *kind)),
        Value::Float(value) => sink.push(&float::general(*value)),
        Value::Text(text) => sink.push(text),
        Value::List(list) => {
            sink.push("[")?;
            for (index, item) in list.items.iter().enumerate() {
                if index > 0 {
                    sink.push(" ")?;
                }
                plain(sink, item, depth + 1)?;
            }
            sink.push("]")
        }
        Value::Map(map) => {
            sink.push("map[")?;
            for (index, (key, item)) in map.snapshot().iter().enumerate() {
                if index > 0 {
                    sink.push(" ")?;
                }
                sink.push(key)?;
                sink.push(":")?;
                plain(sink, item, depth + 1)?;
            }
            sink.push("]")
        }
        Value::Time(time) => sink.push(&crate::sprig::date::display(time)),
        Value::Version(version) => sink.push(&version.to_string()),
    }
}

pub(crate) fn int_text(value: i64, kind: IntType) -> String {
    match kind {
        IntType::Uint64 => (value as u64).to_string(),
        IntType::Month => crate::sprig::date::MONTHS
            .get((value - 1).max(0) as usize)
            .map_or_else(|| format!("%!Month({value})"), |name| (*name).to_owned()),
        IntType::Weekday => crate::sprig::date::WEEKDAYS
            .get(value.max(0) as usize)
            .map_or_else(|| format!("%!Weekday({value})"), |name| (*name).to_owned()),
        _ => value.to_string(),
    }
}

/// strconv.Quote.
pub(crate) fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        push_escaped(&mut quoted, c, '"');
    }
    quoted.push('"');
    quoted
}

pub(crate) fn push_escaped(out: &mut String, c: char, quote: char) {
    match c {
        c if c == quote || c == '\\' => {
            out.push('\\');
            out.push(c);
        }
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if is_printable(c) => out.push(c),
        c if (c as u32) < 0x80 => out.push_str(&format!("\\x{:02x}", c as u32)),
        c if (c as u32) < 0x10000 => out.push_str(&format!("\\u{:04x}", c as u32)),
        c => out.push_str(&format!("\\U{:08x}", c as u32)),
    }
}

/// unicode.IsPrint, nearly: no controls, no white space but the blank, nothing unassigned or private.
pub(crate) fn is_printable(c: char) -> bool {
    // Rust's Debug escapes exactly what it deems unprintable; quotes and the backslash were dealt with.
    c == ' ' || (!c.is_whitespace() && !c.is_control() && matches!(c.escape_debug().count(), 1) || c == '\'')
}
