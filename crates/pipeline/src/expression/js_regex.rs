//! JavaScript regular expressions on the linear-time engine.
//!
//! What users write in branch filters and `match()` is almost always in the common subset; this
//! translates the spellings that differ. Look-around and back-references are refused with a reason,
//! because an engine that has them can be made to run for hours.

use regex::{Regex, RegexBuilder};

const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct JsRegex(Regex);

impl JsRegex {
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        Self::build(pattern, ignore_case, false)
    }

    /// A literal such as `/^release-.*/i`; `None` when the text is not one.
    pub fn literal(text: &str) -> Option<Result<Self, String>> {
        let body = text.strip_prefix('/')?;
        let end = body.rfind('/')?;
        let (pattern, flags) = (&body[..end], &body[end + 1..]);
        if !flags.chars().all(|flag| "gimsuy".contains(flag)) {
            return None;
        }
        Some(Self::build(pattern, flags.contains('i'), flags.contains('m')))
    }

    fn build(pattern: &str, ignore_case: bool, multi_line: bool) -> Result<Self, String> {
        let translated = translate(pattern)?;
        RegexBuilder::new(&translated)
            .case_insensitive(ignore_case)
            .multi_line(multi_line)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map(Self)
            .map_err(|error| {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                format!(
                    "`{pattern}` is not a usable regular expression: {}",
                    last.trim_start_matches("error: ")
                )
            })
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

fn translate(pattern: &str) -> Result<String, String> {
    let characters: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut in_class = false;
    let mut at = 0;
    while let Some(&c) = characters.get(at) {
        let next = characters.get(at + 1).copied();
        match c {
            '\\' => {
                let Some(escaped) = next else {
                    return Err(format!("`{pattern}` ends with a lone backslash"));
                };
                at += 1;
                match escaped {
                    // ECMAScript classes are ASCII.
                    'd' => out.push_str(if in_class { "0-9" } else { "[0-9]" }),
                    'D' => out.push_str("[^0-9]"),
                    'w' => out.push_str(if in_class { "A-Za-z0-9_" } else { "[A-Za-z0-9_]" }),
                    'W' => out.push_str("[^A-Za-z0-9_]"),
                    'b' | 'B' if !in_class => {
                        out.push_str("(?-u:\\");
                        out.push(escaped);
                        out.push(')');
                    }
                    'b' => out.push_str("\\x08"),
                    's' | 'S' | 'n' | 'r' | 't' | 'f' | 'v' | 'x' | 'u' | 'p' | 'P' => {
                        out.push('\\');
                        out.push(escaped);
                    }
                    '0' => out.push_str("\\x00"),
                    '1'..='9' | 'k' if !in_class => {
                        return Err(format!("`{pattern}` uses a back-reference, which is not supported"));
                    }
                    other => push_literal(&mut out, other),
                }
            }
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push('[');
                if next == Some('^') {
                    at += 1;
                    out.push('^');
                }
                // `[]` and `[^]` are "nothing" and "anything" in JavaScript.
                if characters.get(at + 1) == Some(&']') {
                    at += 1;
                    in_class = false;
                    let negated = out.ends_with('^');
                    out.truncate(out.len() - if negated { 2 } else { 1 });
                    out.push_str(if negated { "(?s:.)" } else { "[^\\x00-\\x{10FFFF}]" });
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '(' if !in_class && next == Some('?') => {
                let rest: String = characters.iter().skip(at + 2).take(2).collect();
                if rest.starts_with('=') || rest.starts_with('!') || rest == "<=" || rest == "<!" {
                    return Err(format!("`{pattern}` uses look-around, which is not supported"));
                }
                out.push('(');
            }
            '{' if !in_class && !is_counted(&characters[at..]) => out.push_str("\\{"),
            '}' if !in_class && !closes_count(&out) => out.push_str("\\}"),
            c => out.push(c),
        }
        at += 1;
    }
    Ok(out)
}

fn push_literal(out: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(c);
}

/// `{2}`, `{2,}` or `{2,5}`; any other brace is a literal in JavaScript.
fn is_counted(rest: &[char]) -> bool {
    let Some(end) = rest.iter().position(|c| *c == '}') else { return false };
    let body: String = rest[1..end].iter().collect();
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    match body.split_once(',') {
        Some((low, high)) => !low.is_empty() && digits(low) && digits(high),
        None => !body.is_empty() && digits(&body),
    }
}

/// Whether the brace that is about to close was opened as a count or as `\x{..}`/`\u{..}`.
fn closes_count(out: &str) -> bool {
    out.rfind('{').is_some_and(|open| !out[..open].ends_with('\\') && !out[open..].contains('}'))
}
