//! Text.

use crate::exec::Scope;
use crate::format::{go_quote, sprint};
use crate::functions::{
    Function,
    Type::{Any, Int, Text},
    int, takes, takes_more, text,
};
use crate::value::{List, Value};

type Done<T> = Result<T, String>;

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("hello", &[], |_, _| Ok("Hello!".into())),
    takes("trim", &[Text], |_, a| Ok(text(&a[0]).trim().into())),
    takes("upper", &[Text], |_, a| Ok(text(&a[0]).chars().flat_map(one_upper).collect::<String>().into())),
    takes("lower", &[Text], |_, a| Ok(text(&a[0]).chars().flat_map(one_lower).collect::<String>().into())),
    takes("trunc", &[Int, Text], |_, a| Ok(trunc(int(&a[0]), text(&a[1])).into())),
    takes("substr", &[Int, Int, Text], |_, a| substring(int(&a[0]), int(&a[1]), text(&a[2]))),
    takes("repeat", &[Int, Text], |s, a| {
        let count = usize::try_from(int(&a[0])).map_err(|_| "strings: negative Repeat count")?;
        s.charge(count.saturating_mul(text(&a[1]).len()))?;
        Ok(text(&a[1]).repeat(count).into())
    }),
    takes("trimall", &[Text, Text], |_, a| Ok(trim_all(text(&a[0]), text(&a[1])))),
    takes("trimAll", &[Text, Text], |_, a| Ok(trim_all(text(&a[0]), text(&a[1])))),
    takes("trimSuffix", &[Text, Text], |_, a| {
        Ok(text(&a[1]).strip_suffix(text(&a[0])).unwrap_or(text(&a[1])).into())
    }),
    takes("trimPrefix", &[Text, Text], |_, a| {
        Ok(text(&a[1]).strip_prefix(text(&a[0])).unwrap_or(text(&a[1])).into())
    }),
    takes("contains", &[Text, Text], |_, a| Ok(text(&a[1]).contains(text(&a[0])).into())),
    takes("hasPrefix", &[Text, Text], |_, a| Ok(text(&a[1]).starts_with(text(&a[0])).into())),
    takes("hasSuffix", &[Text, Text], |_, a| Ok(text(&a[1]).ends_with(text(&a[0])).into())),
    takes_more("quote", &[], Any, |s, a| {
        let parts = a.iter().filter(|value| !value.is_nothing());
        let quoted: Vec<String> = parts.map(|value| Ok(go_quote(&s.text_of(value)?))).collect::<Done<_>>()?;
        Ok(quoted.join(" ").into())
    }),
    takes_more("squote", &[], Any, |s, a| {
        let parts = a.iter().filter(|value| !value.is_nothing());
        let quoted: Vec<String> =
            parts.map(|value| Ok(format!("'{}'", s.text_of(value)?))).collect::<Done<_>>()?;
        Ok(quoted.join(" ").into())
    }),
    takes_more("cat", &[], Any, |s, a| {
        let parts = a.iter().filter(|value| !value.is_nothing());
        let shown: Vec<String> =
            parts.map(|value| sprint(s, std::slice::from_ref(value))).collect::<Done<_>>()?;
        Ok(shown.join(" ").into())
    }),
    takes("indent", &[Int, Text], |s, a| Ok(indent(s, int(&a[0]), text(&a[1]))?.into())),
    takes("nindent", &[Int, Text], |s, a| Ok(format!("\n{}", indent(s, int(&a[0]), text(&a[1]))?).into())),
    takes("replace", &[Text, Text, Text], |s, a| {
        Ok(replace(s, text(&a[2]), text(&a[0]), text(&a[1]))?.into())
    }),
    takes("plural", &[Text, Text, Int], |_, a| Ok(a[usize::from(int(&a[2]) != 1)].clone())),
    takes("toString", &[Any], |s, a| s.text_of(&a[0]).map(Value::from)),
    takes("toStrings", &[Any], |s, a| s.texts_of(&a[0]).map(List::texts)),
    takes("join", &[Text, Any], |s, a| {
        let parts = s.texts_of(&a[1])?;
        s.charge(parts.len().saturating_mul(text(&a[0]).len()))?;
        Ok(parts.join(text(&a[0])).into())
    }),
    takes("split", &[Text, Text], |s, a| Ok(numbered(s, split(text(&a[1]), text(&a[0]), -1)))),
    takes("splitn", &[Text, Int, Text], |s, a| Ok(numbered(s, split(text(&a[2]), text(&a[0]), int(&a[1]))))),
    takes("splitList", &[Text, Text], |_, a| Ok(List::texts(split(text(&a[1]), text(&a[0]), -1)))),
    takes("sortAlpha", &[Any], |s, a| {
        let mut parts = s.texts_of(&a[0])?;
        if a[0].is_nothing() {
            parts.push("<nil>".into());
        }
        parts.sort();
        Ok(List::texts(parts))
    }),
    takes("initials", &[Text], |_, a| {
        let words = text(&a[0]).split(char::is_whitespace);
        Ok(words.filter_map(|word| word.chars().next()).collect::<String>().into())
    }),
    takes("nospace", &[Text], |_, a| {
        Ok(text(&a[0]).chars().filter(|c| !c.is_whitespace()).collect::<String>().into())
    }),
];

/// Go maps one character to one character; `ß` stays what it is.
pub(super) fn one_upper(c: char) -> impl Iterator<Item = char> {
    let mut upper = c.to_uppercase();
    std::iter::once(if upper.len() == 1 { upper.next().unwrap_or(c) } else { c })
}

pub(super) fn one_lower(c: char) -> impl Iterator<Item = char> {
    let mut lower = c.to_lowercase();
    std::iter::once(if c == 'İ' { 'i' } else { lower.next().unwrap_or(c) })
}

/// Bytes of a text; a character that is cut through becomes U+FFFD, as it does on the way into JSON.
pub(super) fn bytes_of(text: &str, from: usize, to: usize) -> String {
    String::from_utf8_lossy(&text.as_bytes()[from..to]).into_owned()
}

fn trunc(count: i64, text: &str) -> String {
    let length = text.len() as i64;
    if count < 0 && length + count > 0 {
        bytes_of(text, (length + count) as usize, text.len())
    } else if count >= 0 && length > count {
        bytes_of(text, 0, count as usize)
    } else {
        text.to_owned()
    }
}

fn substring(start: i64, end: i64, text: &str) -> Done<Value> {
    let length = text.len() as i64;
    let (from, to) = if start < 0 {
        (0, end)
    } else if end < 0 || end > length {
        (start, length)
    } else {
        (start, end)
    };
    if to < 0 || to > length || from > to {
        return Err(format!("slice bounds out of range [{from}:{to}] with length {length}"));
    }
    Ok(bytes_of(text, from as usize, to as usize).into())
}

fn trim_all(cutset: &str, text: &str) -> Value {
    text.trim_matches(|c| cutset.contains(c)).into()
}

fn indent(scope: &mut Scope<'_>, spaces: i64, text: &str) -> Done<String> {
    let count = usize::try_from(spaces).map_err(|_| "strings: negative Repeat count")?;
    let lines = 1 + text.bytes().filter(|byte| *byte == b'\n').count();
    scope.charge(count.saturating_mul(lines))?;
    let pad = " ".repeat(count);
    Ok(format!("{pad}{}", text.replace('\n', &format!("\n{pad}"))))
}

/// strings.Replace; an empty `old` stands between all characters.
pub(crate) fn replace(scope: &mut Scope<'_>, source: &str, old: &str, new: &str) -> Done<String> {
    let places = source.matches(old).count();
    scope.charge(source.len() + places.saturating_mul(new.len()))?;
    Ok(source.replace(old, new))
}

/// strings.SplitN.
pub(super) fn split(text: &str, separator: &str, count: i64) -> Vec<String> {
    if count == 0 {
        return Vec::new();
    }
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    if separator.is_empty() {
        let chars: Vec<String> = text.chars().map(String::from).collect();
        if chars.len() <= most {
            return chars;
        }
        let mut parts = chars[..most - 1].to_vec();
        parts.push(chars[most - 1..].concat());
        return parts;
    }
    text.splitn(most, separator).map(str::to_owned).collect()
}

/// `map[string]string` with keys `_0`, `_1`, …
fn numbered(scope: &mut Scope<'_>, parts: Vec<String>) -> Value {
    let map = scope.new_map(true);
    let entries = parts.into_iter().enumerate().map(|(index, part)| (format!("_{index}"), part.into()));
    map.entries.borrow_mut().extend(entries);
    Value::Map(map)
}
