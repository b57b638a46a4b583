//! Reading jq expressions.

use super::{Filter, Operator, functions};
use serde_json::{Number, Value};

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A sign: `.`, `..`, `[`, `|`, `==` …
    Sign(&'static str),
    /// A name or keyword.
    Word(String),
    Text(String),
    Number(Number),
}

const SIGNS: &[&str] = &[
    "..", "//", "==", "!=", "<=", ">=", "<", ">", ".", "[", "]", "(", ")", "|", ",", ":", ";", "?", "+", "-",
];

/// Reads a whole expression.
pub(super) fn parse(text: &str) -> Result<Filter, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let filter = parser.pipe()?;
    match parser.peek() {
        None => Ok(filter),
        Some(token) => Err(format!("unexpected {}", describe(token))),
    }
}

fn describe(token: &Token) -> String {
    match token {
        Token::Sign(sign) => format!("`{sign}`"),
        Token::Word(word) => format!("`{word}`"),
        Token::Text(text) => format!("\"{text}\""),
        Token::Number(number) => number.to_string(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c.is_whitespace() {
            rest = &rest[c.len_utf8()..];
        } else if c == '#' {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if c == '"' {
            let (token, after) = string(rest)?;
            tokens.push(token);
            rest = after;
        } else if c.is_ascii_digit() {
            let end = rest
                .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E')))
                .unwrap_or(rest.len());
            // `1..2` does not exist, but `.[1].a` does: a number ends before a dot that is no fraction.
            let digits = rest[..end].trim_end_matches('.');
            let number: Value =
                serde_json::from_str(digits).map_err(|_| format!("`{digits}` is no number"))?;
            tokens.push(Token::Number(number.as_number().cloned().ok_or("no number")?));
            rest = &rest[digits.len()..];
        } else if c.is_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_string()));
            rest = &rest[end..];
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            return Err(format!("`{c}` is not supported in ignore rules"));
        }
    }
    Ok(tokens)
}

/// A string without interpolation.
fn string(text: &str) -> Result<(Token, &str), String> {
    let mut escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => {
                if c == '(' {
                    return Err("`\\(` in a string is not supported in ignore rules".into());
                }
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => {
                let literal = &text[..=index];
                let value: String =
                    serde_json::from_str(literal).map_err(|_| format!("{literal} is no string"))?;
                return Ok((Token::Text(value), &text[index + 1..]));
            }
            _ => {}
        }
    }
    Err("a string has no end".into())
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let hit = matches!(self.peek(), Some(Token::Sign(s)) if *s == sign);
        self.at += usize::from(hit);
        hit
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let hit = matches!(self.peek(), Some(Token::Word(w)) if w == word);
        self.at += usize::from(hit);
        hit
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("expected `{sign}`, found {}", self.found())) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), String> {
        if self.takes_word(word) { Ok(()) } else { Err(format!("expected `{word}`, found {}", self.found())) }
    }

    fn found(&self) -> String {
        self.peek().map_or("the end".into(), describe)
    }

    fn pipe(&mut self) -> Result<Filter, String> {
        // Nesting costs stack; nobody writes sixty parentheses by hand.
        self.depth += 1;
        if self.depth > 60 {
            return Err("it is nested too deeply".into());
        }
        let mut left = self.comma()?;
        if self.takes("|") {
            left = Filter::Pipe(Box::new(left), Box::new(self.pipe()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn comma(&mut self) -> Result<Filter, String> {
        let mut left = self.alternative()?;
        while self.takes(",") {
            left = Filter::Comma(Box::new(left), Box::new(self.alternative()?));
        }
        Ok(left)
    }

    fn alternative(&mut self) -> Result<Filter, String> {
        let left = self.or()?;
        if self.takes("//") {
            return Ok(Filter::Alternative(Box::new(left), Box::new(self.alternative()?)));
        }
        Ok(left)
    }

    fn or(&mut self) -> Result<Filter, String> {
        let mut left = self.and()?;
        while self.takes_word("or") {
            left = Filter::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Filter, String> {
        let mut left = self.comparison()?;
        while self.takes_word("and") {
            left = Filter::And(Box::new(left), Box::new(self.comparison()?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Filter, String> {
        let left = self.sum()?;
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        for (sign, operator) in operators {
            if self.takes(sign) {
                return Ok(Filter::Binary(operator, Box::new(left), Box::new(self.sum()?)));
            }
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Filter, String> {
        let mut left = self.postfix()?;
        loop {
            let operator = if self.takes("+") {
                Operator::Plus
            } else if self.takes("-") {
                Operator::Minus
            } else {
                return Ok(left);
            };
            left = Filter::Binary(operator, Box::new(left), Box::new(self.postfix()?));
        }
    }

    fn postfix(&mut self) -> Result<Filter, String> {
        let mut term = self.term()?;
        loop {
            let next = if self.takes("?") {
                term = Filter::Try(Box::new(term));
                continue;
            } else if self.takes("[") {
                self.bracket()?
            } else if self.takes(".") {
                match self.peek().cloned() {
                    Some(Token::Word(name)) | Some(Token::Text(name)) => {
                        self.at += 1;
                        Filter::Field(name)
                    }
                    Some(Token::Sign("[")) => {
                        self.at += 1;
                        self.bracket()?
                    }
                    _ => return Err(format!("expected a field name, found {}", self.found())),
                }
            } else {
                return Ok(term);
            };
            term = Filter::Pipe(Box::new(term), Box::new(next));
        }
    }

    /// What follows `[` after a term.
    fn bracket(&mut self) -> Result<Filter, String> {
        if self.takes("]") {
            return Ok(Filter::Iterate);
        }
        let slice = "a slice is not supported in ignore rules; name the elements, as in .[0, 1]";
        if self.takes(":") {
            return Err(slice.into());
        }
        let first = self.pipe()?;
        if self.takes(":") {
            return Err(slice.into());
        }
        self.expect("]")?;
        Ok(Filter::Index(Box::new(first)))
    }

    fn term(&mut self) -> Result<Filter, String> {
        let token = self.peek().cloned().ok_or("it ends too early")?;
        self.at += 1;
        match token {
            Token::Sign("..") => Ok(Filter::Recurse),
            Token::Sign(".") => match self.peek().cloned() {
                Some(Token::Word(name)) | Some(Token::Text(name)) => {
                    self.at += 1;
                    Ok(Filter::Field(name))
                }
                Some(Token::Sign("[")) => {
                    self.at += 1;
                    self.bracket()
                }
                _ => Ok(Filter::Identity),
            },
            Token::Sign("(") => {
                let inner = self.pipe()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                if self.takes("]") {
                    return Ok(Filter::List(None));
                }
                let inner = self.pipe()?;
                self.expect("]")?;
                Ok(Filter::List(Some(Box::new(inner))))
            }
            Token::Sign("-") => {
                let zero = Box::new(Filter::Literal(0.into()));
                Ok(Filter::Binary(Operator::Minus, zero, Box::new(self.postfix()?)))
            }
            Token::Text(text) => Ok(Filter::Literal(text.into())),
            Token::Number(number) => Ok(Filter::Literal(Value::Number(number))),
            Token::Word(word) => self.word(&word),
            other => Err(format!("unexpected {}", describe(&other))),
        }
    }

    fn word(&mut self, word: &str) -> Result<Filter, String> {
        match word {
            "true" | "false" => Ok(Filter::Literal((word == "true").into())),
            "null" => Ok(Filter::Literal(Value::Null)),
            "if" => self.condition(),
            _ => self.call(word),
        }
    }

    fn condition(&mut self) -> Result<Filter, String> {
        let when = self.pipe()?;
        self.expect_word("then")?;
        let then = self.pipe()?;
        let otherwise = if self.takes_word("elif") {
            return Ok(Filter::If(Box::new(when), Box::new(then), Box::new(self.condition()?)));
        } else if self.takes_word("else") {
            self.pipe()?
        } else {
            Filter::Identity
        };
        self.expect_word("end")?;
        Ok(Filter::If(Box::new(when), Box::new(then), Box::new(otherwise)))
    }

    fn call(&mut self, name: &str) -> Result<Filter, String> {
        let mut arguments = Vec::new();
        if self.takes("(") {
            loop {
                arguments.push(self.pipe()?);
                if !self.takes(";") {
                    break;
                }
            }
            self.expect(")")?;
        }
        if functions::is_known(name, arguments.len()) {
            return Ok(Filter::Call(name.to_string(), arguments));
        }
        Err(format!("`{name}` with {} arguments is not supported in ignore rules", arguments.len()))
    }
}
