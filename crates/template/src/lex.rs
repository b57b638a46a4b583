//! Text → tokens. Text outside of `{{ }}` is one token; inside, words.

use crate::ast::Pos;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Text,
    LeftDelimiter,
    RightDelimiter,
    Space,
    Declare,
    Assign,
    Pipe,
    Comma,
    LeftParenthesis,
    RightParenthesis,
    /// Interpreted, with its quotes.
    Quoted,
    /// Raw, with its back quotes.
    Raw,
    Character,
    Number,
    Variable,
    /// With its dot.
    Field,
    Dot,
    Bool,
    Nil,
    Keyword,
    Identifier,
    End,
}

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) pos: Pos,
    pub(crate) text: String,
}

pub(crate) struct LexError {
    pub(crate) pos: Pos,
    pub(crate) message: String,
}

const KEYWORDS: [&str; 10] =
    ["block", "break", "continue", "define", "else", "end", "if", "range", "template", "with"];

struct Lexer<'a> {
    text: &'a str,
    pos: usize,
    tokens: Vec<Token>,
}

/// Every token of the text. `parentheses` that are open at the end of an action are a fault here already.
pub(crate) fn lex(text: &str) -> Result<Vec<Token>, LexError> {
    let mut lexer = Lexer { text, pos: 0, tokens: Vec::new() };
    let mut trim_left = false;
    loop {
        let rest = &text[lexer.pos..];
        let Some(start) = rest.find("{{") else {
            lexer.push_text(rest, lexer.pos, trim_left, false);
            break;
        };
        let after = &rest[start + 2..];
        let trim_right = is_left_trim(after);
        lexer.push_text(&rest[..start], lexer.pos, trim_left, trim_right);
        let open = lexer.pos + start;
        lexer.pos = open + 2 + if trim_right { 2 } else { 0 };
        // The white space after `{{-` belongs to the marker, all but one of it may also start a comment.
        let inside = &text[lexer.pos..];
        if inside.starts_with("/*") {
            trim_left = lexer.comment(open)?;
            continue;
        }
        lexer.push(Kind::LeftDelimiter, open, "{{");
        trim_left = lexer.inside()?;
    }
    let end = lexer.pos.max(text.len());
    lexer.push(Kind::End, end, "");
    Ok(lexer.tokens)
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_left_trim(after: &str) -> bool {
    let mut chars = after.chars();
    chars.next() == Some('-') && chars.next().is_some_and(is_space)
}

impl Lexer<'_> {
    fn push(&mut self, kind: Kind, pos: Pos, text: &str) {
        self.tokens.push(Token { kind, pos, text: text.to_owned() });
    }

    fn push_text(&mut self, text: &str, pos: Pos, trim_left: bool, trim_right: bool) {
        let mut trimmed = text;
        if trim_left {
            trimmed = trimmed.trim_start_matches(is_space);
        }
        let pos = pos + (text.len() - trimmed.len());
        if trim_right {
            trimmed = trimmed.trim_end_matches(is_space);
        }
        if !trimmed.is_empty() {
            self.push(Kind::Text, pos, trimmed);
        }
    }

    fn fail<T>(&self, pos: Pos, message: impl Into<String>) -> Result<T, LexError> {
        Err(LexError { pos, message: message.into() })
    }

    /// Behind `{{` stands a comment; says whether the text after it is trimmed.
    fn comment(&mut self, open: Pos) -> Result<bool, LexError> {
        let Some(end) = self.text[self.pos..].find("*/") else {
            return self.fail(open, "unclosed comment");
        };
        let after = self.pos + end + 2;
        match self.right_delimiter(after) {
            Some((length, trim)) => {
                self.pos = after + length;
                Ok(trim)
            }
            None => self.fail(after, "comment ends before closing delimiter"),
        }
    }

    /// How long the closing delimiter here is, and whether it trims.
    fn right_delimiter(&self, at: usize) -> Option<(usize, bool)> {
        let rest = &self.text[at..];
        let mut chars = rest.chars();
        if chars.next().is_some_and(is_space) && rest[1..].starts_with("-}}") {
            return Some((4, true));
        }
        rest.starts_with("}}").then_some((2, false))
    }

    /// The words up to the closing delimiter; says whether it trims.
    fn inside(&mut self) -> Result<bool, LexError> {
        let mut parentheses = 0_usize;
        loop {
            if let Some((length, trim)) = self.right_delimiter(self.pos) {
                if parentheses > 0 {
                    return self.fail(self.pos, "unclosed left paren");
                }
                let at = self.pos + if trim { 2 } else { 0 };
                self.push(Kind::RightDelimiter, at, "}}");
                self.pos += length;
                return Ok(trim);
            }
            let start = self.pos;
            let rest = &self.text[start..];
            let Some(c) = rest.chars().next() else { return self.fail(start, "unclosed action") };
            let next = rest[c.len_utf8()..].chars().next();
            match c {
                c if is_space(c) => self.space(),
                '=' => self.take(Kind::Assign, 1),
                ':' if next == Some('=') => self.take(Kind::Declare, 2),
                ':' => return self.fail(start, "expected :="),
                '|' => self.take(Kind::Pipe, 1),
                ',' => self.take(Kind::Comma, 1),
                '"' => self.quoted('"', Kind::Quoted, "unterminated quoted string")?,
                '`' => self.raw()?,
                '\'' => self.quoted('\'', Kind::Character, "unterminated character constant")?,
                '$' => self.variable()?,
                '.' if !next.is_some_and(|c| c.is_ascii_digit()) => self.field()?,
                '+' | '-' | '.' | '0'..='9' => self.number()?,
                '(' => {
                    parentheses += 1;
                    self.take(Kind::LeftParenthesis, 1);
                }
                ')' => {
                    if parentheses == 0 {
                        return self.fail(start, "unexpected right paren");
                    }
                    parentheses -= 1;
                    self.take(Kind::RightParenthesis, 1);
                }
                c if c == '_' || c.is_alphanumeric() => self.word()?,
                c => {
                    return self.fail(start, format!("unexpected {c:?} in an action"));
                }
            }
        }
    }

    fn take(&mut self, kind: Kind, length: usize) {
        let text = self.text[self.pos..self.pos + length].to_owned();
        self.push(kind, self.pos, &text);
        self.pos += length;
    }

    fn space(&mut self) {
        let rest = &self.text[self.pos..];
        let mut length = rest.len() - rest.trim_start_matches(is_space).len();
        // The last white space before `-}}` is a part of the marker.
        if rest[length..].starts_with("-}}") {
            length -= 1;
        }
        if length > 0 {
            self.take(Kind::Space, length);
        }
    }

    fn quoted(&mut self, quote: char, kind: Kind, problem: &str) -> Result<(), LexError> {
        let rest = &self.text[self.pos..];
        let mut escaped = false;
        for (index, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = c == '\n',
                '\\' => {
                    escaped = true;
                    continue;
                }
                '\n' => break,
                c if c == quote => {
                    self.take(kind, index + 1);
                    return Ok(());
                }
                _ => {}
            }
            if escaped {
                break;
            }
        }
        self.fail(self.pos, problem)
    }

    fn raw(&mut self) -> Result<(), LexError> {
        match self.text[self.pos + 1..].find('`') {
            Some(end) => {
                self.take(Kind::Raw, end + 2);
                Ok(())
            }
            None => self.fail(self.pos, "unterminated raw quoted string"),
        }
    }

    fn word_length(&self, from: usize) -> usize {
        let rest = &self.text[from..];
        rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len())
    }

    /// What may follow a word, so that `.a"b"` is not read as two things.
    fn check_end(&self, at: usize) -> Result<(), LexError> {
        let rest = &self.text[at..];
        match rest.chars().next() {
            None => Ok(()),
            Some(c) if is_space(c) || matches!(c, '.' | ',' | '|' | ':' | ')' | '(') => Ok(()),
            Some(_) if rest.starts_with("}}") => Ok(()),
            Some(c) => self.fail(at, format!("bad character {c:?}")),
        }
    }

    fn variable(&mut self) -> Result<(), LexError> {
        let length = 1 + self.word_length(self.pos + 1);
        if length > 1 {
            self.check_end(self.pos + length)?;
        }
        self.take(Kind::Variable, length);
        Ok(())
    }

    fn field(&mut self) -> Result<(), LexError> {
        let length = 1 + self.word_length(self.pos + 1);
        self.check_end(self.pos + length)?;
        self.take(if length == 1 { Kind::Dot } else { Kind::Field }, length);
        Ok(())
    }

    fn number(&mut self) -> Result<(), LexError> {
        let rest = &self.text[self.pos..];
        let mut length = 0;
        let mut before = ' ';
        for (index, c) in rest.char_indices() {
            let sign = matches!(c, '+' | '-') && (index == 0 || matches!(before, 'e' | 'E' | 'p' | 'P'));
            if !(sign || c == '.' || c == '_' || c.is_alphanumeric()) {
                break;
            }
            before = c;
            length = index + c.len_utf8();
        }
        let text = &rest[..length];
        if crate::number::Number::parse(text).is_none() {
            return self.fail(self.pos, format!("bad number syntax: {text:?}"));
        }
        self.take(Kind::Number, length);
        Ok(())
    }

    fn word(&mut self) -> Result<(), LexError> {
        let length = self.word_length(self.pos);
        self.check_end(self.pos + length)?;
        let kind = match &self.text[self.pos..self.pos + length] {
            "true" | "false" => Kind::Bool,
            "nil" => Kind::Nil,
            word if KEYWORDS.contains(&word) => Kind::Keyword,
            _ => Kind::Identifier,
        };
        self.take(kind, length);
        Ok(())
    }
}
