//! Reading rule files.

use super::{Expression, Operand, Operator, Path, Rule, RuleSet};
use crate::health::HealthCode;

/// What is wrong with a rule file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(super) struct RuleError {
    line: usize,
    problem: String,
}

/// Adds the rules of a file.
pub(super) fn parse_into(set: &mut RuleSet, text: &str) -> Result<(), RuleError> {
    let mut groups: Vec<String> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    let mut open: Vec<(Option<Path>, Vec<Rule>)> = vec![(None, Vec::new())];
    let mut flush = |groups: &[String], kinds: &[String], rules: &mut Vec<Rule>| {
        let rules = std::mem::take(rules);
        for group in groups {
            for kind in kinds {
                if group.contains('*') || kind.contains('*') {
                    set.patterns.push((group.clone(), kind.clone(), rules.clone()));
                } else {
                    set.exact.insert((group.clone(), kind.clone()), rules.clone());
                }
            }
        }
    };
    for (index, raw) in text.lines().enumerate() {
        let error = |problem: String| RuleError { line: index + 1, problem };
        let line = without_comment(raw).trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let names = || rest.split(',').map(|name| name.trim().to_string()).collect::<Vec<_>>();
        match word {
            "" => {}
            "group" | "kind" => {
                if open.len() != 1 {
                    return Err(error("an `each` has no `end`".into()));
                }
                flush(&groups, &kinds, &mut open[0].1);
                if word == "group" {
                    groups = names();
                    kinds.clear();
                } else {
                    kinds = names();
                }
            }
            "each" => open.push((Some(Path::parse(rest.trim())), Vec::new())),
            "end" => match open.pop() {
                Some((Some(path), rules)) => {
                    let outer = open.last_mut().ok_or_else(|| error("`end` without `each`".into()))?;
                    outer.1.push(Rule::Each { path, rules });
                }
                _ => return Err(error("`end` without `each`".into())),
            },
            _ => {
                let status =
                    HealthCode::parse(word).ok_or_else(|| error(format!("`{word}` is no health status")))?;
                if kinds.is_empty() {
                    return Err(error("a verdict before any `kind`".into()));
                }
                let rule = verdict(status, rest.trim()).map_err(error)?;
                open.last_mut().expect("the outermost list is never closed").1.push(rule);
            }
        }
    }
    if open.len() != 1 {
        return Err(RuleError { line: text.lines().count(), problem: "an `each` has no `end`".into() });
    }
    flush(&groups, &kinds, &mut open[0].1);
    Ok(())
}

/// A `#` starts a comment at the beginning of a line or after a space and before one; `#path` is a length.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.find(" # ").map_or(line, |at| &line[..at])
}

fn verdict(status: HealthCode, rest: &str) -> Result<Rule, String> {
    let mut tokens = Tokens::new(rest)?;
    let when = match tokens.peek() {
        Some(Token::Word(word)) if word == "if" => {
            tokens.next();
            tokens.any()?
        }
        _ => Expression::Always,
    };
    let message = match tokens.next() {
        Some(Token::Text(text)) => Some(text),
        None => None,
        Some(other) => return Err(format!("unexpected {other:?}")),
    };
    match tokens.next() {
        Some(extra) => Err(format!("unexpected {extra:?} after the message")),
        None => Ok(Rule::Verdict { status, when, message }),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    /// A condition test, without its `@`.
    Condition(String),
    Text(String),
    Operator(Operator),
    Pipe,
    Open,
    Close,
    OpenList,
    CloseList,
}

struct Tokens {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Tokens {
    fn new(text: &str) -> Result<Self, String> {
        let chars: Vec<char> = text.chars().collect();
        let mut tokens = Vec::new();
        let mut i = 0;
        while i < chars.len() {
            let (token, next) = match chars[i] {
                c if c.is_whitespace() => {
                    i += 1;
                    continue;
                }
                '(' => (Token::Open, i + 1),
                ')' => (Token::Close, i + 1),
                '[' => (Token::OpenList, i + 1),
                ']' => (Token::CloseList, i + 1),
                '|' => (Token::Pipe, i + 1),
                '~' => (Token::Operator(Operator::Like), i + 1),
                '=' => (Token::Operator(Operator::Equal), i + 1),
                '!' if chars.get(i + 1) == Some(&'=') => (Token::Operator(Operator::NotEqual), i + 2),
                '<' if chars.get(i + 1) == Some(&'=') => (Token::Operator(Operator::LessOrEqual), i + 2),
                '>' if chars.get(i + 1) == Some(&'=') => (Token::Operator(Operator::GreaterOrEqual), i + 2),
                '<' => (Token::Operator(Operator::Less), i + 1),
                '>' => (Token::Operator(Operator::Greater), i + 1),
                '"' => {
                    let end = (i + 1..chars.len()).find(|at| chars[*at] == '"').ok_or("a text has no end")?;
                    (Token::Text(chars[i + 1..end].iter().collect()), end + 1)
                }
                '@' => {
                    let end = (i..chars.len())
                        .find(|at| chars[*at].is_whitespace() || matches!(chars[*at], ')' | ']'))
                        .unwrap_or(chars.len());
                    (Token::Condition(chars[i + 1..end].iter().collect()), end)
                }
                _ => word(&chars, i)?,
            };
            tokens.push(token);
            i = next;
        }
        Ok(Self { tokens: tokens.into_iter().peekable() })
    }

    fn peek(&mut self) -> Option<&Token> {
        self.tokens.peek()
    }

    fn next(&mut self) -> Option<Token> {
        self.tokens.next()
    }

    fn takes(&mut self, word: &str) -> bool {
        self.tokens.next_if(|token| matches!(token, Token::Word(w) if w == word)).is_some()
    }

    fn any(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.all()?];
        while self.takes("or") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Any(parts) })
    }

    fn all(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.one()?];
        while self.takes("and") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::All(parts) })
    }

    fn one(&mut self) -> Result<Expression, String> {
        match self.next() {
            Some(Token::Open) => {
                let inner = self.any()?;
                match self.next() {
                    Some(Token::Close) => Ok(inner),
                    other => Err(format!("expected `)`, found {other:?}")),
                }
            }
            Some(Token::Condition(text)) => Ok(condition(&text)),
            Some(Token::Word(word)) => match word.as_str() {
                "not" => Ok(Expression::Not(Box::new(self.one()?))),
                "empty" => Ok(Expression::Empty(self.path()?)),
                "any" => Ok(Expression::AnyOf { path: self.path()?, inner: Box::new(self.element()?) }),
                "all" => Ok(Expression::AllOf { path: self.path()?, inner: Box::new(self.element()?) }),
                "count" => {
                    let (path, inner) = (self.path()?, Box::new(self.element()?));
                    let operator = self.operator().ok_or("count needs a comparison")?;
                    let right = self.operand()?;
                    Ok(Expression::Count { path, inner, operator, right })
                }
                _ => self.comparison(&word),
            },
            other => Err(format!("expected an expression, found {other:?}")),
        }
    }

    fn comparison(&mut self, left: &str) -> Result<Expression, String> {
        let Some(operator) = self.operator() else { return Ok(Expression::Present(Path::parse(left))) };
        let left = match left.strip_prefix('#') {
            Some(path) => Operand::Length(Path::parse(path)),
            None => Operand::Path(Path::parse(left)),
        };
        let mut right = vec![self.operand()?];
        while self.tokens.next_if(|token| *token == Token::Pipe).is_some() {
            right.push(self.operand()?);
        }
        Ok(Expression::Compare { left, operator, right })
    }

    fn operator(&mut self) -> Option<Operator> {
        match self.peek() {
            Some(Token::Operator(operator)) => {
                let operator = *operator;
                self.next();
                Some(operator)
            }
            _ => None,
        }
    }

    fn operand(&mut self) -> Result<Operand, String> {
        let first = self.single_operand()?;
        if self.takes("minus") {
            return Ok(Operand::Minus(Box::new(first), Box::new(self.single_operand()?)));
        }
        Ok(first)
    }

    fn single_operand(&mut self) -> Result<Operand, String> {
        match self.next() {
            Some(Token::Text(text)) => Ok(Operand::Literal(text)),
            Some(Token::Word(word)) => Ok(match (word.strip_prefix('$'), word.strip_prefix('#')) {
                (Some(path), _) => Operand::Path(Path::parse(path)),
                (_, Some(path)) => Operand::Length(Path::parse(path)),
                _ => Operand::Literal(word),
            }),
            other => Err(format!("expected a value, found {other:?}")),
        }
    }

    fn path(&mut self) -> Result<Path, String> {
        match self.next() {
            Some(Token::Word(word)) => Ok(Path::parse(&word)),
            other => Err(format!("expected a path, found {other:?}")),
        }
    }

    fn element(&mut self) -> Result<Expression, String> {
        match self.next() {
            Some(Token::OpenList) => {}
            other => return Err(format!("expected `[`, found {other:?}")),
        }
        let inner = self.any()?;
        match self.next() {
            Some(Token::CloseList) => Ok(inner),
            other => Err(format!("expected `]`, found {other:?}")),
        }
    }
}

/// A word ends at a space or a sign, but `labels["a/b"]` belongs together.
fn word(chars: &[char], start: usize) -> Result<(Token, usize), String> {
    let mut text = String::new();
    let mut i = start;
    while i < chars.len() {
        match chars[i] {
            '[' if chars.get(i + 1) == Some(&'"') => {
                let end = (i..chars.len()).find(|at| chars[*at] == ']').ok_or("`[` has no `]`")?;
                text.extend(&chars[i..=end]);
                i = end + 1;
            }
            c if c.is_whitespace()
                || matches!(c, '(' | ')' | '[' | ']' | '|' | '=' | '!' | '<' | '>' | '~' | '"') =>
            {
                break;
            }
            c => {
                text.push(c);
                i += 1;
            }
        }
    }
    if i == start {
        return Err(format!("unexpected `{}`", chars[start]));
    }
    Ok((Token::Word(text), i))
}

fn condition(text: &str) -> Expression {
    let (kind, negated, rest) = match (text.split_once("!="), text.split_once('=')) {
        (Some((kind, rest)), _) => (kind, true, rest),
        (None, Some((kind, rest))) => (kind, false, rest),
        (None, None) => (text, false, ""),
    };
    let (statuses, reasons) = rest.split_once(':').unwrap_or((rest, ""));
    let parts = |text: &str| -> Vec<String> {
        text.split('|').filter(|part| !part.is_empty()).map(str::to_string).collect()
    };
    Expression::Condition { kind: kind.into(), statuses: parts(statuses), negated, reasons: parts(reasons) }
}

impl Path {
    pub(super) fn parse(text: &str) -> Self {
        let (from_root, text) = match text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (text, default) = match text.rsplit_once('?') {
            Some((path, number)) => (path, number.parse().ok()),
            None => (text, None),
        };
        let mut fields = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix("[\"") {
                let (key, after) = inner.split_once("\"]").unwrap_or((inner, ""));
                fields.push(key.to_string());
                rest = after.strip_prefix('.').unwrap_or(after);
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                fields.push(rest[..end].to_string());
                rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
            }
        }
        Self { from_root, fields, default }
    }
}
