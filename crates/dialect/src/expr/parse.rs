//! Text → tree.

use serde_json::{Value, json};

use super::Node;

/// Nesting of parentheses, predicates and signs.
const DEPTH_MAX: usize = 64;
/// Operators, members, indexes and calls of a whole text.
const LINKS_MAX: usize = 2_000;
/// How deep the tree may be: `a + b + c` is one as deep as it is long.
const HEIGHT_MAX: usize = 100;

pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, links: 0 };
    let root = parser.choice()?;
    match parser.tokens.get(parser.at) {
        None if height(&root) > HEIGHT_MAX => Err("the expression is nested too deeply".into()),
        None => Ok(root),
        Some(token) => Err(format!("`{}` was not expected in `{text}`", token.shown())),
    }
}

fn height(node: &Node) -> usize {
    let all = |nodes: &[Node]| nodes.iter().map(height).max().unwrap_or_default();
    1 + match node {
        Node::Literal(_) | Node::Name(_) | Node::Item | Node::Sum => 0,
        Node::List(items) => all(items),
        Node::Map(entries) => entries.iter().map(|(_, node)| height(node)).max().unwrap_or_default(),
        Node::Member(of, ..) | Node::Unary(_, of) => height(of),
        Node::Index(a, b) | Node::Binary(_, a, b) => height(a).max(height(b)),
        Node::Slice(of, from, to) => {
            let ends = from.iter().chain(to).map(|end| height(end));
            ends.fold(height(of), usize::max)
        }
        Node::Call(function, arguments) => height(function).max(all(arguments)),
        Node::Choice(a, b, c) => height(a).max(height(b)).max(height(c)),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Literal(Value),
    Word(String),
    Sign(&'static str),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Self::Literal(value) => value.to_string(),
            Self::Word(word) => word.clone(),
            Self::Sign(sign) => (*sign).to_owned(),
        }
    }
}

const SIGNS: [&str; 31] = [
    "?.", "??", "==", "!=", "<=", ">=", "&&", "||", "**", "..", "(", ")", "[", "]", "{", "}", ".", ",", "?",
    ":", "<", ">", "!", "+", "-", "*", "/", "%", "#", "|", "^",
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '\'' || first == '"' {
            let (literal, length) = quoted(rest, first)?;
            out.push(Token::Literal(Value::String(literal)));
            rest = &rest[length..];
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            // `1..3` is a range.
            let end = rest[..end].find("..").unwrap_or(end);
            let number: f64 = rest[..end].parse().map_err(|_| format!("`{}` is no number", &rest[..end]))?;
            let whole = rest[..end].parse::<i64>().ok();
            out.push(Token::Literal(whole.map_or_else(|| json!(number), |whole| json!(whole))));
            rest = &rest[end..];
        } else if first.is_alphabetic() || first == '_' || first == '$' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
            out.push(match &rest[..end] {
                "true" => Token::Literal(json!(true)),
                "false" => Token::Literal(json!(false)),
                "nil" | "null" => Token::Literal(Value::Null),
                "and" => Token::Sign("&&"),
                "or" => Token::Sign("||"),
                word => Token::Word(word.to_owned()),
            });
            rest = &rest[end..];
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| format!("`{first}` has no meaning in an expression"))?;
            out.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
        rest = rest.trim_start();
    }
    Ok(out)
}

fn quoted(text: &str, quote: char) -> Result<(String, usize), String> {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, 't')) => out.push('\t'),
                Some((_, other)) => out.push(other),
                None => break,
            },
            c if c == quote => return Ok((out, at + c.len_utf8())),
            c => out.push(c),
        }
    }
    Err("a text has no closing quote".into())
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    links: usize,
}

/// Operators from the weakest to the strongest.
const LEVELS: [&[&str]; 8] = [
    &["||"],
    &["&&"],
    &["==", "!=", "<=", ">=", "<", ">", "in", "not in", "contains", "startsWith", "endsWith", "matches"],
    &[".."],
    &["+", "-"],
    &["*", "/", "%"],
    &["**", "^"],
    &["??"],
];

impl Parser {
    fn choice(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("the expression is nested too deeply".into());
        }
        let mut condition = self.level(0)?;
        // `list | join(", ")` is `join(list, ", ")`.
        while self.takes("|") {
            self.link()?;
            let call = self.postfix()?;
            let Node::Call(function, mut arguments) = call else {
                return Err("after `|` stands a function".into());
            };
            arguments.insert(0, condition);
            condition = Node::Call(function, arguments);
        }
        let node = if self.takes("?") {
            let yes = self.choice()?;
            self.expect(":")?;
            Node::Choice(Box::new(condition), Box::new(yes), Box::new(self.choice()?))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(node)
    }

    fn level(&mut self, level: usize) -> Result<Node, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.operator(operators) {
            self.link()?;
            let right = self.level(level + 1)?;
            left = Node::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operator(&mut self, known: &[&'static str]) -> Option<&'static str> {
        let word = |token: Option<&Token>| match token {
            Some(Token::Word(word)) => word.clone(),
            Some(Token::Sign(sign)) => (*sign).to_owned(),
            _ => String::new(),
        };
        let (first, second) = (word(self.tokens.get(self.at)), word(self.tokens.get(self.at + 1)));
        let both = format!("{first} {second}");
        let found = known.iter().find(|operator| **operator == both || **operator == first)?;
        self.at += if **found == both { 2 } else { 1 };
        Some(found)
    }

    fn unary(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("the expression is nested too deeply".into());
        }
        let node = if self.takes("!") || self.takes_word("not") {
            Node::Unary("!", Box::new(self.unary()?))
        } else if self.takes("-") {
            Node::Unary("-", Box::new(self.unary()?))
        } else {
            self.postfix()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn postfix(&mut self) -> Result<Node, String> {
        let mut node = self.primary()?;
        loop {
            if [".", "?.", "[", "("].iter().any(|sign| self.is_next(sign)) {
                self.link()?;
            }
            let optional = self.takes("?.");
            if optional || self.takes(".") {
                let Some(Token::Word(name)) = self.tokens.get(self.at).cloned() else {
                    return Err("a name is missing after the dot".into());
                };
                self.at += 1;
                node = Node::Member(Box::new(node), name, optional);
            } else if self.takes("[") {
                let from = if self.is_next(":") { None } else { Some(Box::new(self.choice()?)) };
                let node_of = Box::new(node);
                node = if self.takes(":") {
                    let to = if self.is_next("]") { None } else { Some(Box::new(self.choice()?)) };
                    Node::Slice(node_of, from, to)
                } else {
                    Node::Index(node_of, from.ok_or("an index is missing")?)
                };
                self.expect("]")?;
            } else if self.takes("(") {
                node = Node::Call(Box::new(node), self.list(")")?);
            } else {
                return Ok(node);
            }
        }
    }

    fn primary(&mut self) -> Result<Node, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("the expression ends too early")?;
        self.at += 1;
        match token {
            Token::Literal(value) => Ok(Node::Literal(value)),
            Token::Word(name) => Ok(Node::Name(name)),
            Token::Sign("#") => {
                let sum = matches!(self.tokens.get(self.at), Some(Token::Word(word)) if word == "acc");
                self.at += usize::from(sum);
                Ok(if sum { Node::Sum } else { Node::Item })
            }
            Token::Sign("(") => {
                let inner = self.choice()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => Ok(Node::List(self.list("]")?)),
            // A map, or the predicate of any(), all() and their relatives.
            Token::Sign("{") if self.begins_a_map() => {
                let mut entries = Vec::new();
                while !self.takes("}") {
                    if !entries.is_empty() {
                        self.expect(",")?;
                    }
                    let key = match self.tokens.get(self.at).cloned() {
                        Some(Token::Word(word)) => word,
                        Some(Token::Literal(Value::String(text))) => text,
                        _ => return Err("a key of a map is missing".into()),
                    };
                    self.at += 1;
                    self.expect(":")?;
                    entries.push((key, self.choice()?));
                }
                Ok(Node::Map(entries))
            }
            Token::Sign("{") => {
                let inner = self.choice()?;
                self.expect("}")?;
                Ok(inner)
            }
            // `.name` in a predicate is `#.name`.
            Token::Sign(".") => {
                self.at -= 1;
                Ok(Node::Item)
            }
            other => Err(format!("`{}` was not expected", other.shown())),
        }
    }

    fn list(&mut self, end: &'static str) -> Result<Vec<Node>, String> {
        let mut out = Vec::new();
        while !self.takes(end) {
            if !out.is_empty() {
                self.expect(",")?;
            }
            out.push(self.choice()?);
        }
        Ok(out)
    }

    fn link(&mut self) -> Result<(), String> {
        self.links += 1;
        if self.links > LINKS_MAX { Err("the expression is too long".into()) } else { Ok(()) }
    }

    fn begins_a_map(&self) -> bool {
        let next = self.tokens.get(self.at + 1);
        self.is_next("}")
            || (matches!(self.tokens.get(self.at), Some(Token::Word(_) | Token::Literal(Value::String(_))))
                && next == Some(&Token::Sign(":")))
    }

    fn is_next(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Sign(known)) if *known == sign)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Sign(known)) if *known == sign);
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Word(known)) if known == word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("`{sign}` is missing")) }
    }
}
