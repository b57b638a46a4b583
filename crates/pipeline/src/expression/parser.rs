//! Text → a flat program in postfix order.
//!
//! Flat, because a tree of twelve thousand characters could be as deep; the machine that runs the
//! program needs no recursion, and the parser's own is limited by [`DEPTH_MAX`].

use super::value::Value;
use super::{DEPTH_MAX, EXPRESSION_CHARS_MAX, ExpressionError};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Op {
    pub(super) column: usize,
    pub(super) code: Code,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Code {
    Push(Value),
    Load(String),
    Member(String),
    Unary(Unary),
    Binary(Binary),
    Call { name: String, arguments: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Minus,
    Plus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Binary {
    fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Equal | Self::NotEqual => 6,
            Self::Less | Self::Greater | Self::LessEqual | Self::GreaterEqual => 7,
            Self::Add | Self::Subtract => 9,
            Self::Multiply | Self::Divide | Self::Modulo => 10,
        }
    }

    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::Greater => ">",
            Self::LessEqual => "<=",
            Self::GreaterEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

/// Parses a whole expression; an empty one gives an empty program.
pub(super) fn parse(text: &str) -> Result<Vec<Op>, ExpressionError> {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() > EXPRESSION_CHARS_MAX {
        let reason = format!(
            "the expression has {} characters; the limit is {EXPRESSION_CHARS_MAX}",
            characters.len()
        );
        return Err(ExpressionError::new(EXPRESSION_CHARS_MAX + 1, reason));
    }
    let mut parser = Parser { characters, at: 0, depth: 0, program: Vec::new() };
    parser.separators();
    if parser.peek().is_none() {
        return Ok(Vec::new());
    }
    parser.expression(0)?;
    parser.separators();
    match parser.peek() {
        None => Ok(parser.program),
        Some(c) => Err(parser.unexpected(c)),
    }
}

struct Parser {
    characters: Vec<char>,
    at: usize,
    depth: usize,
    program: Vec<Op>,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn peek_at(&self, offset: usize) -> Option<char> {
        self.characters.get(self.at + offset).copied()
    }

    fn column(&self) -> usize {
        self.at + 1
    }

    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, ExpressionError> {
        Err(ExpressionError::new(self.column(), reason))
    }

    fn emit(&mut self, column: usize, code: Code) {
        self.program.push(Op { column, code });
    }

    fn spaces(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    /// jsep lets `;` and `,` stand around an expression.
    fn separators(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r' | ';' | ',')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, c: char) -> ExpressionError {
        let reason = match c {
            '[' => {
                "square brackets are not part of the language; write `Member(object, \"name\")`".to_owned()
            }
            '?' | ':' => "`? :` is not part of the language; write two conditions".to_owned(),
            '`' => "backticks are not strings here; use \" or '".to_owned(),
            '=' => "`=` does not compare; write `==`".to_owned(),
            '&' | '|' | '^' | '~' => {
                format!("the bit operator `{c}` is not part of the language; write `&&` or `||`")
            }
            _ if c.is_alphanumeric() || matches!(c, '"' | '\'' | '_' | '$') => {
                "two values stand side by side; put an operator between them, or quotes around them"
                    .to_owned()
            }
            _ => format!("`{c}` is not expected here"),
        };
        ExpressionError::new(self.column(), reason)
    }

    fn deeper(&mut self) -> Result<(), ExpressionError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fail(format!("nested deeper than {DEPTH_MAX} levels"));
        }
        Ok(())
    }

    /// Precedence climbing; every operator is left-associative.
    fn expression(&mut self, lowest: u8) -> Result<(), ExpressionError> {
        self.deeper()?;
        self.token()?;
        loop {
            self.spaces();
            let column = self.column();
            let Some((operator, width)) = self.binary()? else { break };
            if operator.precedence() <= lowest {
                break;
            }
            self.at += width;
            self.spaces();
            if self.peek().is_none() {
                return self.fail(format!("a value is missing after `{}`", operator.symbol()));
            }
            self.expression(operator.precedence())?;
            self.emit(column, Code::Binary(operator));
        }
        self.depth -= 1;
        Ok(())
    }

    fn binary(&self) -> Result<Option<(Binary, usize)>, ExpressionError> {
        let three: String = self.characters.iter().skip(self.at).take(3).collect();
        for unsupported in ["===", "!==", ">>>"] {
            if three == unsupported {
                let reason = match unsupported {
                    "===" => "`===` is not part of the language; write `==`".to_owned(),
                    "!==" => "`!==` is not part of the language; write `!=`".to_owned(),
                    _ => format!("`{unsupported}` is not part of the language"),
                };
                return Err(ExpressionError::new(self.column(), reason));
            }
        }
        let found = match (self.peek(), self.peek_at(1)) {
            (Some('|'), Some('|')) => (Binary::Or, 2),
            (Some('&'), Some('&')) => (Binary::And, 2),
            (Some('='), Some('=')) => (Binary::Equal, 2),
            (Some('!'), Some('=')) => (Binary::NotEqual, 2),
            (Some('<'), Some('<')) | (Some('>'), Some('>')) => {
                return Err(ExpressionError::new(
                    self.column(),
                    "shift operators are not part of the language",
                ));
            }
            (Some('<'), Some('=')) => (Binary::LessEqual, 2),
            (Some('>'), Some('=')) => (Binary::GreaterEqual, 2),
            (Some('<'), _) => (Binary::Less, 1),
            (Some('>'), _) => (Binary::Greater, 1),
            (Some('+'), _) => (Binary::Add, 1),
            (Some('-'), _) => (Binary::Subtract, 1),
            (Some('*'), _) => (Binary::Multiply, 1),
            (Some('/'), _) => (Binary::Divide, 1),
            (Some('%'), _) => (Binary::Modulo, 1),
            _ => return Ok(None),
        };
        Ok(Some(found))
    }

    fn token(&mut self) -> Result<(), ExpressionError> {
        self.spaces();
        let column = self.column();
        let Some(c) = self.peek() else {
            return self.fail("a value is missing here");
        };
        match c {
            '0'..='9' => self.number(),
            '.' if self.peek_at(1).is_some_and(|c| c.is_ascii_digit()) => self.number(),
            '"' | '\'' => self.string(c),
            '!' | '-' | '+' => {
                self.deeper()?;
                self.at += 1;
                self.token()?;
                self.depth -= 1;
                let operator = match c {
                    '!' => Unary::Not,
                    '-' => Unary::Minus,
                    _ => Unary::Plus,
                };
                self.emit(column, Code::Unary(operator));
                Ok(())
            }
            '(' => {
                self.at += 1;
                self.expression(0)?;
                self.spaces();
                if self.peek() != Some(')') {
                    return self.fail("a closing `)` is missing");
                }
                self.at += 1;
                self.members()
            }
            c if is_name_start(c) => self.name(),
            c => Err(self.unexpected(c)),
        }
    }

    fn number(&mut self) -> Result<(), ExpressionError> {
        let column = self.column();
        let start = self.at;
        self.digits();
        if self.peek() == Some('.') {
            self.at += 1;
            self.digits();
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.at += 1;
            if matches!(self.peek(), Some('+' | '-')) {
                self.at += 1;
            }
            let before = self.at;
            self.digits();
            if self.at == before {
                return self.fail("digits are missing after the exponent");
            }
        }
        match self.peek() {
            Some(c) if is_name_start(c) => {
                return self.fail("a name cannot start with a digit; put quotes around text");
            }
            Some('.') => return self.fail("a number has only one `.`; put quotes around versions"),
            Some('(') => return self.fail("a number cannot be called"),
            _ => {}
        }
        let text: String = self.characters[start..self.at].iter().collect();
        match text.parse::<f64>() {
            Ok(number) => self.emit(column, Code::Push(Value::Number(number))),
            Err(_) => return Err(ExpressionError::new(column, format!("`{text}` is not a number"))),
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn string(&mut self, quote: char) -> Result<(), ExpressionError> {
        let column = self.column();
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                return Err(ExpressionError::new(
                    column,
                    format!("the string that starts here has no closing {quote}"),
                ));
            };
            self.at += 1;
            match c {
                c if c == quote => break,
                '\\' => {
                    let Some(escaped) = self.peek() else { continue };
                    self.at += 1;
                    text.push(match escaped {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'v' => '\u{b}',
                        other => other,
                    });
                }
                c => text.push(c),
            }
        }
        self.emit(column, Code::Push(Value::String(text)));
        Ok(())
    }

    fn identifier(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(is_name_part) {
            self.at += 1;
        }
        self.characters[start..self.at].iter().collect()
    }

    fn name(&mut self) -> Result<(), ExpressionError> {
        let column = self.column();
        let name = self.identifier();
        match name.as_str() {
            "true" => self.emit(column, Code::Push(Value::Boolean(true))),
            "false" => self.emit(column, Code::Push(Value::Boolean(false))),
            "null" => self.emit(column, Code::Push(Value::Null)),
            "this" => return Err(ExpressionError::new(column, "`this` is not part of the language")),
            _ => {
                self.spaces();
                if self.peek() == Some('(') {
                    let arguments = self.arguments()?;
                    self.emit(column, Code::Call { name, arguments });
                } else {
                    self.emit(column, Code::Load(name));
                }
            }
        }
        self.members()
    }

    fn arguments(&mut self) -> Result<usize, ExpressionError> {
        self.at += 1;
        let mut count = 0;
        self.spaces();
        if self.peek() == Some(')') {
            self.at += 1;
            return Ok(0);
        }
        loop {
            self.expression(0)?;
            count += 1;
            self.spaces();
            match self.peek() {
                Some(',') => self.at += 1,
                Some(')') => {
                    self.at += 1;
                    return Ok(count);
                }
                Some(c) => return Err(self.unexpected(c)),
                None => return self.fail("a closing `)` is missing"),
            }
        }
    }

    fn members(&mut self) -> Result<(), ExpressionError> {
        loop {
            self.spaces();
            match self.peek() {
                Some('.') => {
                    self.at += 1;
                    self.spaces();
                    let column = self.column();
                    if !self.peek().is_some_and(is_name_start) {
                        return self.fail("a member name is missing after `.`");
                    }
                    let member = self.identifier();
                    self.emit(column, Code::Member(member));
                }
                Some('(') => return self.fail("only the functions of the language can be called"),
                Some('[') => return Err(self.unexpected('[')),
                _ => return Ok(()),
            }
        }
    }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '$' | '_') || !c.is_ascii()
}

fn is_name_part(c: char) -> bool {
    is_name_start(c) || c.is_ascii_digit()
}
