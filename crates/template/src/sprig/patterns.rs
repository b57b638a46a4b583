//! Regular expressions. Go's and Rust's engines share a dialect (RE2) and both run in linear time.

use regex::{Regex, RegexBuilder};

use crate::exec::Scope;
use crate::functions::{
    Function,
    Type::{Int, Text},
    int, takes, text,
};
use crate::value::{List, Value};

type Done<T> = Result<T, String>;

/// A compiled expression may be so big.
const COMPILED_MAX: usize = 1 << 20;

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("regexMatch", &[Text, Text], |_, a| {
        Ok(Value::Bool(compile(text(&a[0])).is_ok_and(|regex| regex.is_match(text(&a[1])))))
    }),
    takes("mustRegexMatch", &[Text, Text], |_, a| {
        Ok(Value::Bool(compile(text(&a[0]))?.is_match(text(&a[1]))))
    }),
    takes("regexFind", &[Text, Text], |_, a| find(a)),
    takes("mustRegexFind", &[Text, Text], |_, a| find(a)),
    takes("regexFindAll", &[Text, Text, Int], |_, a| find_all(a)),
    takes("mustRegexFindAll", &[Text, Text, Int], |_, a| find_all(a)),
    takes("regexReplaceAll", &[Text, Text, Text], |s, a| replace(s, a, false)),
    takes("mustRegexReplaceAll", &[Text, Text, Text], |s, a| replace(s, a, false)),
    takes("regexReplaceAllLiteral", &[Text, Text, Text], |s, a| replace(s, a, true)),
    takes("mustRegexReplaceAllLiteral", &[Text, Text, Text], |s, a| replace(s, a, true)),
    takes("regexSplit", &[Text, Text, Int], |_, a| split(a)),
    takes("mustRegexSplit", &[Text, Text, Int], |_, a| split(a)),
    takes("regexQuoteMeta", &[Text], |_, a| {
        let mut out = String::new();
        for c in text(&a[0]).chars() {
            if "\\.+*?()|[]{}^$".contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
        Ok(out.into())
    }),
];

pub(crate) fn compile(pattern: &str) -> Done<Regex> {
    RegexBuilder::new(pattern).size_limit(COMPILED_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "error parsing regexp: expression too large".to_owned(),
        _ => format!("error parsing regexp: {pattern:?} is not a regular expression"),
    })
}

fn find(arguments: &[Value]) -> Done<Value> {
    let regex = compile(text(&arguments[0]))?;
    Ok(regex.find(text(&arguments[1])).map_or("", |found| found.as_str()).into())
}

fn most(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn find_all(arguments: &[Value]) -> Done<Value> {
    let regex = compile(text(&arguments[0]))?;
    let found = regex.find_iter(text(&arguments[1])).take(most(int(&arguments[2])));
    Ok(List::texts(found.map(|found| found.as_str().to_owned())))
}

fn replace(scope: &mut Scope<'_>, arguments: &[Value], literal: bool) -> Done<Value> {
    let regex = compile(text(&arguments[0]))?;
    let (source, with) = (text(&arguments[1]), text(&arguments[2]));
    let mut out = String::new();
    let mut end = 0;
    for captures in regex.captures_iter(source) {
        let Some(whole) = captures.get(0) else { continue };
        let before = out.len();
        out.push_str(&source[end..whole.start()]);
        if literal {
            out.push_str(with);
        } else {
            captures.expand(with, &mut out);
        }
        scope.charge(out.len() - before)?;
        end = whole.end();
    }
    out.push_str(&source[end..]);
    Ok(out.into())
}

/// regexp.Split: an empty match at the start splits nothing off.
fn split(arguments: &[Value]) -> Done<Value> {
    let (pattern, source, count) = (text(&arguments[0]), text(&arguments[1]), int(&arguments[2]));
    let regex = compile(pattern)?;
    if count == 0 {
        return Ok(List::texts(Vec::new()));
    }
    if !pattern.is_empty() && source.is_empty() {
        return Ok(List::texts([String::new()]));
    }
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, 0);
    for found in regex.find_iter(source) {
        if count > 0 && parts.len() as i64 == count - 1 {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(source[start..end].to_owned());
        }
        start = found.end();
    }
    if end != source.len() {
        parts.push(source[start..].to_owned());
    }
    Ok(List::texts(parts))
}
