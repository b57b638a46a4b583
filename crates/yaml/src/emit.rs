//! Tree → text, as go-yaml v2 writes it below sigs.k8s.io/yaml: what `kubectl -o yaml` and `toYaml` print.
//!
//! In: JSON. Out: block style, two blanks a level, lists not indented below their key, long plain text folded.
//! Every text that is written here reads back as the same JSON.

use serde_json::Value;

use crate::scalar::{RawScalar, resolve};
use crate::{Dialect, NodeKind};

/// From this column on a blank may become a line break.
const WIDTH: usize = 80;

/// The document, with a line break at its end.
pub fn to_yaml(value: &Value) -> String {
    let mut emitter = Emitter { out: String::new(), column: 0 };
    match value {
        Value::Array(items) if !items.is_empty() => emitter.sequence(items, 0, false),
        Value::Object(entries) if !entries.is_empty() => emitter.mapping(entries, 0, false),
        scalar => {
            emitter.scalar(scalar, 0);
            emitter.line();
        }
    }
    emitter.out
}

struct Emitter {
    out: String,
    column: usize,
}

impl Emitter {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn line(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    fn indent(&mut self, indent: usize) {
        self.push(&" ".repeat(indent));
    }

    /// `inline`: the first entry goes on the line that is open (after `- `).
    fn mapping(&mut self, entries: &serde_json::Map<String, Value>, indent: usize, inline: bool) {
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 || !inline {
                self.indent(indent);
            }
            self.key(key, indent);
            match value {
                Value::Object(inner) if !inner.is_empty() => {
                    self.push(":");
                    self.line();
                    self.mapping(inner, indent + 2, false);
                }
                Value::Array(items) if !items.is_empty() => {
                    self.push(":");
                    self.line();
                    self.sequence(items, indent, false);
                }
                scalar => {
                    self.push(": ");
                    self.scalar(scalar, indent + 2);
                    self.line();
                }
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, inline: bool) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 || !inline {
                self.indent(indent);
            }
            self.push("- ");
            match item {
                Value::Object(inner) if !inner.is_empty() => self.mapping(inner, indent + 2, true),
                Value::Array(inner) if !inner.is_empty() => self.sequence(inner, indent + 2, true),
                scalar => {
                    self.scalar(scalar, indent + 2);
                    self.line();
                }
            }
        }
    }

    /// Keys stand on one line.
    fn key(&mut self, key: &str, indent: usize) {
        let shape = Shape::of(key);
        let text = match style(key, &shape) {
            Style::Plain => key.to_owned(),
            Style::Single => format!("'{}'", key.replace('\'', "''")),
            Style::Double | Style::Literal => double_quoted(key),
        };
        // A long key needs the explicit form; nobody folds it.
        if shape.multiline || key.len() > 128 {
            self.push("? ");
            self.push(&text);
            self.line();
            self.indent(indent);
            return;
        }
        self.push(&text);
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.push("null"),
            Value::Bool(value) => self.push(if *value { "true" } else { "false" }),
            Value::Number(number) => {
                let text = number_text(number);
                self.push(&text);
            }
            Value::Array(_) => self.push("[]"),
            Value::Object(_) => self.push("{}"),
            Value::String(text) => match style(text, &Shape::of(text)) {
                Style::Plain => self.folded(text, indent),
                Style::Single => {
                    self.push("'");
                    self.folded(&text.replace('\'', "''"), indent);
                    self.push("'");
                }
                Style::Double => {
                    let quoted = double_quoted(text);
                    self.folded_double(&quoted, indent);
                }
                Style::Literal => self.literal(text, indent.max(2)),
            },
        }
    }

    /// Writes a one-line text; a single blank past the width becomes a line break.
    fn folded(&mut self, text: &str, indent: usize) {
        let chars: Vec<char> = text.chars().collect();
        for (index, c) in chars.iter().enumerate() {
            let alone = *c == ' '
                && index > 0
                && chars.get(index - 1) != Some(&' ')
                && chars.get(index + 1).is_some_and(|next| *next != ' ');
            if alone && self.column > WIDTH {
                self.line();
                self.indent(indent);
            } else {
                self.push(c.encode_utf8(&mut [0; 4]));
            }
        }
    }

    /// In double quotes a break eats the blank, and a following blank must be escaped.
    fn folded_double(&mut self, quoted: &str, indent: usize) {
        let chars: Vec<char> = quoted.chars().collect();
        for (index, c) in chars.iter().enumerate() {
            let inner = *c == ' ' && index > 1 && index + 2 < chars.len() && chars[index - 1] != ' ';
            if inner && self.column > WIDTH {
                self.line();
                self.indent(indent);
                if chars[index + 1] == ' ' {
                    self.push("\\");
                }
            } else {
                self.push(c.encode_utf8(&mut [0; 4]));
            }
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.push("|");
        if text.starts_with([' ', '\n']) {
            self.push("2");
        }
        if !text.ends_with('\n') {
            self.push("-");
        } else if text.ends_with("\n\n") || text == "\n" {
            self.push("+");
        }
        let body = text.strip_suffix('\n').unwrap_or(text);
        for line in body.split('\n') {
            self.line();
            if !line.is_empty() {
                self.indent(indent);
                self.push(line);
            }
        }
    }
}

/// JSON's numbers go through YAML's: what has no fraction is an integer, the rest prints as Go's `%g` does.
fn number_text(number: &serde_json::Number) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let value = number.as_f64().unwrap_or(0.0);
    if value.fract() == 0.0 && value.abs() < 1e18 {
        return format!("{value:.0}");
    }
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if value < 0.0 { "-" } else { "" };
    if (-4..6).contains(&exponent) {
        return format!("{sign}{}", value.abs());
    }
    let mark = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{mantissa}e{mark}{:02}", exponent.abs())
}

enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// What libyaml's emitter finds out about a text before it chooses a style.
#[derive(Default)]
struct Shape {
    multiline: bool,
    special: bool,
    block_indicators: bool,
    edge_space: bool,
    trailing_space: bool,
    break_space: bool,
    space_break: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let mut shape =
            Self { block_indicators: text.starts_with("---") || text.starts_with("..."), ..Self::default() };
        let chars: Vec<char> = text.chars().collect();
        let is_blank = |c: Option<&char>| c.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
        for (index, c) in chars.iter().enumerate() {
            let before = index.checked_sub(1).map(|i| chars[i]);
            let blank_after = is_blank(chars.get(index + 1));
            shape.block_indicators |= match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`'
                    if index == 0 =>
                {
                    true
                }
                '?' | '-' if index == 0 => blank_after,
                ':' => blank_after,
                '#' => before.is_some_and(|c| matches!(c, ' ' | '\t' | '\n' | '\r')),
                _ => false,
            };
            shape.special |= !is_printable(*c);
            shape.multiline |= is_break(*c);
            shape.space_break |= is_break(*c) && before == Some(' ');
            shape.break_space |= *c == ' ' && before.is_some_and(is_break);
        }
        let edge = |c: Option<&char>| c.is_some_and(|c| *c == ' ' || is_break(*c));
        shape.edge_space = edge(chars.first()) || edge(chars.last());
        shape.trailing_space = chars.last() == Some(&' ');
        shape
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What may stand unescaped. Line breaks other than the usual one may not: readers disagree over them.
fn is_printable(c: char) -> bool {
    let text = matches!(
        c,
        '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..
    );
    text && !matches!(c, '\u{2028}' | '\u{2029}')
}

fn style(text: &str, shape: &Shape) -> Style {
    let plain = RawScalar { value: text, tag: None, plain: true };
    let reads_as_text = matches!(resolve(&plain, Dialect::Kubernetes), Ok(NodeKind::String(_)))
        && !looks_like_time(text)
        && !looks_like_sexagesimal(text);
    if text.contains('\n') {
        let block = !(shape.trailing_space || shape.space_break || shape.special);
        return if block { Style::Literal } else { Style::Double };
    }
    if !reads_as_text {
        return Style::Double;
    }
    let single = !(shape.break_space || shape.space_break || shape.special);
    if shape.edge_space
        || shape.break_space
        || shape.space_break
        || shape.special
        || shape.multiline
        || shape.block_indicators
    {
        return if single { Style::Single } else { Style::Double };
    }
    Style::Plain
}

/// go-yaml v2 quotes dates and times, so that nobody reads a timestamp.
fn looks_like_time(text: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        text.get(range).is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    if !digits(0..4) || text.as_bytes().get(4) != Some(&b'-') {
        return false;
    }
    let rest = &text[5..];
    let Some((month, rest)) = rest.split_once('-') else { return false };
    let day: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let after = &rest[day.len()..];
    let number = |part: &str, most: u32| {
        matches!(part.len(), 1 | 2) && part.parse::<u32>().is_ok_and(|n| (1..=most).contains(&n))
    };
    if !number(month, 12) || !number(&day, 31) {
        return false;
    }
    if after.is_empty() {
        // A date alone is one only with two digits each.
        return month.len() == 2 && day.len() == 2;
    }
    let clock = after.trim_start_matches(['T', 't', ' ', '\t']);
    clock.len() < after.len()
        && clock.bytes().filter(|b| *b == b':').count() >= 2
        && clock.starts_with(|c: char| c.is_ascii_digit())
}

/// `1:30` is ninety to old readers.
fn looks_like_sexagesimal(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = body.split(':');
    let first = parts.next().unwrap_or_default();
    if first.is_empty()
        || !first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        || !first.starts_with(|c: char| c.is_ascii_digit())
    {
        return false;
    }
    let rest: Vec<&str> = parts.collect();
    let sixty = |part: &&str| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    let Some((last, middle)) = rest.split_last() else { return false };
    let last = last.split_once('.').map_or(*last, |(whole, _)| whole);
    middle.iter().all(sixty) && sixty(&last)
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\u{1b}' => out.push_str("\\e"),
            '\u{85}' => out.push_str("\\N"),
            '\u{a0}' => out.push_str("\\_"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            c if is_printable(c) => out.push(c),
            c if (c as u32) <= 0xff => out.push_str(&format!("\\x{:02X}", c as u32)),
            c if (c as u32) <= 0xffff => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push_str(&format!("\\U{:08X}", c as u32)),
        }
    }
    out.push('"');
    out
}
