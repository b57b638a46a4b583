//! Upper, lower, snake, kebab, camel.

use super::strings::{one_lower, one_upper};
use crate::functions::{Function, Type::Text, takes, text};

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("title", &[Text], |_, a| Ok(title(text(&a[0])).into())),
    takes("untitle", &[Text], |_, a| Ok(untitle(text(&a[0])).into())),
    takes("swapcase", &[Text], |_, a| Ok(swap(text(&a[0])).into())),
    takes("snakecase", &[Text], |_, a| Ok(connected(text(&a[0]), '_').into())),
    takes("kebabcase", &[Text], |_, a| Ok(connected(text(&a[0]), '-').into())),
    takes("camelcase", &[Text], |_, a| Ok(pascal(text(&a[0])).into())),
];

fn upper(c: char) -> char {
    one_upper(c).next().unwrap_or(c)
}

fn lower(c: char) -> char {
    one_lower(c).next().unwrap_or(c)
}

/// strings.Title: a letter after something that is no letter, digit or underscore.
fn title(text: &str) -> String {
    let mut before = ' ';
    text.chars()
        .map(|c| {
            let starts = if before.is_ascii() {
                !(before.is_ascii_alphanumeric() || before == '_')
            } else {
                !before.is_alphanumeric() && before.is_whitespace()
            };
            before = c;
            if starts { upper(c) } else { c }
        })
        .collect()
}

fn untitle(text: &str) -> String {
    let mut start = true;
    text.chars()
        .map(|c| {
            let first = std::mem::replace(&mut start, c.is_whitespace());
            if first && !c.is_whitespace() { lower(c) } else { c }
        })
        .collect()
}

fn swap(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_uppercase() {
                lower(c)
            } else if c.is_lowercase() {
                upper(c)
            } else {
                c
            }
        })
        .collect()
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// xstrings' ToPascalCase.
fn pascal(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let Some(start) = chars.iter().position(|c| !is_connector(*c)) else {
        // xstrings writes the last connector twice then.
        return chars.iter().chain(chars.last()).collect();
    };
    out.extend(&chars[..start]);
    let mut first_is_upper = chars[start].is_uppercase();
    let mut current = upper(chars[start]);
    for &next in &chars[start + 1..] {
        let before = std::mem::replace(&mut current, next);
        if is_connector(next) && is_connector(before) {
            out.push(before);
            continue;
        }
        if is_connector(before) {
            first_is_upper = next.is_uppercase();
            current = upper(next);
            continue;
        }
        if first_is_upper {
            if next.is_uppercase() {
                current = lower(next);
            } else {
                first_is_upper = false;
            }
        }
        out.push(before);
    }
    out.push(current);
    out
}

#[derive(Clone, Copy, PartialEq)]
enum Word {
    None,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

/// Letters that have no case of their own count as letters too.
fn is_letter(c: char) -> bool {
    c.is_alphabetic()
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() && !matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
        || matches!(c, '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '¡' | '§' | '«' | '¶' | '·' | '»' | '¿')
}

/// The next word of a name: a run of characters of one kind; `HTTPServer` is `HTTP` and `Server`.
fn next_word<'a>(rest: &mut &'a [char]) -> (Word, &'a [char]) {
    let all = *rest;
    let Some(&first) = all.first() else { return (Word::None, all) };
    let run = |from: usize, same: &dyn Fn(char) -> bool| {
        all[from..].iter().position(|c| !same(*c)).map_or(all.len(), |n| from + n)
    };
    let small = |c: char| is_letter(c) && !c.is_uppercase();
    let (word, end) = if is_connector(first) {
        (Word::Connector, run(1, &is_connector))
    } else if is_punctuation(first) {
        (Word::Punctuation, run(1, &is_punctuation))
    } else if first.is_uppercase() {
        let end = match all.get(1) {
            Some(second) if second.is_uppercase() => {
                let end = run(1, &char::is_uppercase);
                // The last capital belongs to the word that follows.
                if all.get(end).is_some_and(|c| is_letter(*c)) { end - 1 } else { end }
            }
            Some(second) if is_letter(*second) => run(2, &small),
            _ => 1,
        };
        (Word::Upper, end)
    } else if is_letter(first) {
        (Word::Letters, run(1, &small))
    } else if first.is_numeric() {
        (Word::Number, run(1, &char::is_numeric))
    } else {
        let other = |c: char| !(is_connector(c) || is_letter(c) || c.is_numeric() || is_punctuation(c));
        (Word::Other, run(1, &other))
    };
    *rest = &all[end..];
    (word, &all[..end])
}

fn push_lower(out: &mut String, word: Word, text: &[char], connector: char) {
    match word {
        Word::Connector => out.extend(text.iter().map(|_| connector)),
        Word::Punctuation | Word::Number | Word::Other | Word::None => out.extend(text),
        Word::Upper | Word::Letters => out.extend(text.iter().map(|c| lower(*c))),
    }
}

/// xstrings' ToSnakeCase and ToKebabCase: digits stay with the letters before them unless letters follow.
fn connected(text: &str, connector: char) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut rest = &chars[..];
    let mut out = String::new();
    let (mut kind, mut word) = next_word(&mut rest);
    let joins = |kind: Word| !matches!(kind, Word::None | Word::Punctuation | Word::Connector);
    while !rest.is_empty() {
        if kind != Word::Connector {
            push_lower(&mut out, kind, word, connector);
        }
        let (before, last) = (kind, word);
        (kind, word) = next_word(&mut rest);
        match before {
            Word::Number => {
                while matches!(kind, Word::Letters | Word::Number) {
                    push_lower(&mut out, kind, word, connector);
                    (kind, word) = next_word(&mut rest);
                }
                if joins(kind) {
                    out.push(connector);
                }
            }
            Word::Connector => push_lower(&mut out, before, last, connector),
            Word::Punctuation => {}
            _ if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let digits = word;
                (kind, word) = next_word(&mut rest);
                if kind == Word::Letters {
                    out.push(connector);
                    push_lower(&mut out, Word::Number, digits, connector);
                    while matches!(kind, Word::Letters | Word::Number) {
                        push_lower(&mut out, kind, word, connector);
                        (kind, word) = next_word(&mut rest);
                    }
                    if joins(kind) {
                        out.push(connector);
                    }
                } else {
                    push_lower(&mut out, Word::Number, digits, connector);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                }
            }
        }
    }
    push_lower(&mut out, kind, word, connector);
    out
}
