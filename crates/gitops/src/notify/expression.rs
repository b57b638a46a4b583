//! The conditions of triggers: the part of expr-lang that they are written in. No loop, no assignment: what it costs
//! grows with its own length and the lists it looks at, and both have a limit.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::{Value, json};

/// A text longer than this is no condition.
const TEXT_MAX: usize = 8 << 10;
const DEPTH_MAX: usize = 64;
const STEPS_MAX: usize = 100_000;

pub(super) struct Expression {
    root: Node,
}

#[derive(Debug)]
enum Node {
    Literal(Value),
    List(Vec<Node>),
    Name(String),
    /// `#` of a predicate.
    Item,
    /// `?.` and `.` are the same here: what is not there is nil.
    Member(Box<Node>, String),
    Index(Box<Node>, Box<Node>),
    Call(Box<Node>, Vec<Node>),
    Unary(&'static str, Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
}

/// A value of an expression: JSON, or what the `time` functions give.
#[derive(Debug, Clone)]
enum Thing {
    Json(Value),
    Time(Timestamp),
    Seconds(f64),
}

impl Expression {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("an expression may have {TEXT_MAX} bytes"));
        }
        let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
        let root = parser.choice()?;
        match parser.tokens.get(parser.at) {
            None => Ok(Self { root }),
            Some(token) => Err(format!("`{}` was not expected in `{text}`", token.shown())),
        }
    }

    pub(super) fn is_true(&self, vars: &Value, now: Timestamp) -> Result<bool, String> {
        match (Run { vars, now, steps: 0, item: None }).value(&self.root)? {
            Thing::Json(Value::Bool(answer)) => Ok(answer),
            _ => Err("the condition is neither true nor false".into()),
        }
    }

    pub(super) fn text(&self, vars: &Value, now: Timestamp) -> Result<String, String> {
        Ok(match (Run { vars, now, steps: 0, item: None }).value(&self.root)? {
            Thing::Json(Value::String(text)) => text,
            Thing::Json(Value::Null) => String::new(),
            Thing::Json(other) => other.to_string(),
            Thing::Time(time) => time.to_string(),
            Thing::Seconds(seconds) => seconds.to_string(),
        })
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

const SIGNS: [&str; 28] = [
    "?.", "??", "==", "!=", "<=", ">=", "&&", "||", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "<", ">", "!",
    "+", "-", "*", "/", "%", "#", "|",
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
            let number: f64 = rest[..end].parse().map_err(|_| format!("`{}` is no number", &rest[..end]))?;
            out.push(Token::Literal(json!(number)));
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
}

/// Operators from the weakest to the strongest.
const LEVELS: [&[&str]; 6] = [
    &["||"],
    &["&&"],
    &["==", "!=", "<=", ">=", "<", ">", "in", "not in", "contains", "startsWith", "endsWith", "matches"],
    &["+", "-"],
    &["*", "/", "%"],
    &["??"],
];

impl Parser {
    fn choice(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("the expression is nested too deeply".into());
        }
        let condition = self.level(0)?;
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
            if self.takes("?.") || self.takes(".") {
                let Some(Token::Word(name)) = self.tokens.get(self.at).cloned() else {
                    return Err("a name is missing after the dot".into());
                };
                self.at += 1;
                node = Node::Member(Box::new(node), name);
            } else if self.takes("[") {
                let index = self.choice()?;
                self.expect("]")?;
                node = Node::Index(Box::new(node), Box::new(index));
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
            Token::Sign("#") => Ok(Node::Item),
            Token::Sign("(") => {
                let inner = self.choice()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => Ok(Node::List(self.list("]")?)),
            // The predicate of any(), all() and their relatives.
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

struct Run<'a> {
    vars: &'a Value,
    now: Timestamp,
    steps: usize,
    item: Option<Value>,
}

impl Run<'_> {
    fn value(&mut self, node: &Node) -> Result<Thing, String> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err("the expression takes too long".into());
        }
        Ok(match node {
            Node::Literal(value) => Thing::Json(value.clone()),
            Node::List(items) => {
                let items: Result<Vec<Value>, String> = items.iter().map(|item| self.json(item)).collect();
                Thing::Json(Value::Array(items?))
            }
            Node::Name(name) => match self.vars.get(name) {
                Some(value) => Thing::Json(value.clone()),
                None => return Err(format!("`{name}` is not known here")),
            },
            Node::Item => Thing::Json(self.item.clone().ok_or("`#` stands outside of a predicate")?),
            // What an Application does not have is nil, as its status grows with time.
            Node::Member(of, name) => match self.value(of)? {
                Thing::Json(value) => Thing::Json(value.get(name).cloned().unwrap_or_default()),
                _ => return Err(format!("a time has no `{name}`")),
            },
            Node::Index(of, index) => {
                let (of, index) = (self.json(of)?, self.json(index)?);
                let found = match &index {
                    Value::String(key) => of.get(key),
                    other => other.as_f64().and_then(|index| of.get(index as usize)),
                };
                Thing::Json(found.cloned().unwrap_or_default())
            }
            Node::Call(function, arguments) => self.call(function, arguments)?,
            Node::Unary("!", inner) => Thing::Json(json!(!self.truth(inner)?)),
            Node::Unary(_, inner) => Thing::Json(json!(-self.number(inner)?)),
            Node::Binary(operator, left, right) => self.binary(operator, left, right)?,
            Node::Choice(condition, yes, no) => {
                if self.truth(condition)? {
                    self.value(yes)?
                } else {
                    self.value(no)?
                }
            }
        })
    }

    fn binary(&mut self, operator: &str, left: &Node, right: &Node) -> Result<Thing, String> {
        match operator {
            "&&" => return Ok(Thing::Json(json!(self.truth(left)? && self.truth(right)?))),
            "||" => return Ok(Thing::Json(json!(self.truth(left)? || self.truth(right)?))),
            "??" => {
                let value = self.value(left)?;
                return if matches!(value, Thing::Json(Value::Null)) { self.value(right) } else { Ok(value) };
            }
            _ => {}
        }
        let (a, b) = (self.value(left)?, self.value(right)?);
        let answer = match operator {
            "==" => equal(&a, &b),
            "!=" => !equal(&a, &b),
            "<" | "<=" | ">" | ">=" => {
                let order = order(&a, &b).ok_or_else(|| format!("`{operator}` compares what has no order"))?;
                match operator {
                    "<" => order == Ordering::Less,
                    "<=" => order != Ordering::Greater,
                    ">" => order == Ordering::Greater,
                    _ => order != Ordering::Less,
                }
            }
            "in" => contains(&b, &a),
            "not in" => !contains(&b, &a),
            "contains" => contains(&a, &b),
            "startsWith" | "endsWith" | "matches" => {
                let (Thing::Json(Value::String(text)), Thing::Json(Value::String(part))) = (&a, &b) else {
                    return Err(format!("`{operator}` needs two texts"));
                };
                match operator {
                    "startsWith" => text.starts_with(part.as_str()),
                    "endsWith" => text.ends_with(part.as_str()),
                    _ => regex::RegexBuilder::new(part)
                        .size_limit(1 << 20)
                        .build()
                        .map_err(|_| format!("`{part}` is not a pattern"))?
                        .is_match(text),
                }
            }
            _ => return arithmetic(operator, &a, &b),
        };
        Ok(Thing::Json(json!(answer)))
    }

    fn call(&mut self, function: &Node, arguments: &[Node]) -> Result<Thing, String> {
        match function {
            Node::Name(name) => self.plain_call(name, arguments),
            Node::Member(of, name) => {
                if let Node::Name(group) = &**of
                    && !self.vars.get(group).is_some_and(|value| !value.is_null())
                {
                    return match (group.as_str(), name.as_str()) {
                        ("time", "Now") => Ok(Thing::Time(self.now)),
                        ("time", "Parse") => {
                            let text = self.json(arguments.first().ok_or("time.Parse needs a text")?)?;
                            let time = text.as_str().and_then(|text| text.parse().ok());
                            time.map(Thing::Time).ok_or_else(|| format!("{text} is not a time"))
                        }
                        _ => Err(format!("there is no function {group}.{name} here")),
                    };
                }
                let of = self.value(of)?;
                let other = arguments.first().map(|argument| self.value(argument)).transpose()?;
                match (of, name.as_str(), other) {
                    (Thing::Time(a), "Sub", Some(Thing::Time(b))) => {
                        Ok(Thing::Seconds(a.duration_since(b).as_secs_f64()))
                    }
                    (Thing::Time(a), "After", Some(Thing::Time(b))) => Ok(Thing::Json(json!(a > b))),
                    (Thing::Time(a), "Before", Some(Thing::Time(b))) => Ok(Thing::Json(json!(a < b))),
                    (Thing::Time(a), "Unix", None) => Ok(Thing::Json(json!(a.as_second()))),
                    (Thing::Seconds(a), "Seconds", None) => Ok(Thing::Json(json!(a))),
                    (Thing::Seconds(a), "Minutes", None) => Ok(Thing::Json(json!(a / 60.0))),
                    (Thing::Seconds(a), "Hours", None) => Ok(Thing::Json(json!(a / 3600.0))),
                    (_, name, _) => Err(format!("there is no method {name} here")),
                }
            }
            _ => Err("only functions can be called".into()),
        }
    }

    fn plain_call(&mut self, name: &str, arguments: &[Node]) -> Result<Thing, String> {
        let first = arguments.first().ok_or_else(|| format!("{name}() needs an argument"))?;
        let of = self.json(first)?;
        match (name, arguments.get(1)) {
            ("len", None) => Ok(Thing::Json(json!(match &of {
                Value::String(text) => text.chars().count(),
                Value::Array(items) => items.len(),
                Value::Object(entries) => entries.len(),
                _ => 0,
            }))),
            ("lower", None) => Ok(Thing::Json(json!(of.as_str().unwrap_or_default().to_lowercase()))),
            ("upper", None) => Ok(Thing::Json(json!(of.as_str().unwrap_or_default().to_uppercase()))),
            ("any" | "all" | "none" | "one" | "count" | "filter" | "map", Some(predicate)) => {
                let items = of.as_array().cloned().unwrap_or_default();
                let (mut kept, mut mapped) = (Vec::new(), Vec::new());
                let outer = self.item.take();
                for item in &items {
                    self.item = Some(item.clone());
                    if name == "map" {
                        mapped.push(self.json(predicate)?);
                    } else if self.truth(predicate)? {
                        kept.push(item.clone());
                    }
                }
                self.item = outer;
                Ok(Thing::Json(match name {
                    "any" => json!(!kept.is_empty()),
                    "all" => json!(kept.len() == items.len()),
                    "none" => json!(kept.is_empty()),
                    "one" => json!(kept.len() == 1),
                    "count" => json!(kept.len()),
                    "filter" => Value::Array(kept),
                    _ => Value::Array(mapped),
                }))
            }
            _ => Err(format!("there is no function {name} here")),
        }
    }

    fn truth(&mut self, node: &Node) -> Result<bool, String> {
        match self.value(node)? {
            Thing::Json(Value::Bool(answer)) => Ok(answer),
            Thing::Json(other) => Err(format!("{other} is neither true nor false")),
            _ => Err("a time is neither true nor false".into()),
        }
    }

    fn number(&mut self, node: &Node) -> Result<f64, String> {
        let value = self.json(node)?;
        value.as_f64().ok_or_else(|| format!("{value} is no number"))
    }

    fn json(&mut self, node: &Node) -> Result<Value, String> {
        Ok(match self.value(node)? {
            Thing::Json(value) => value,
            Thing::Time(time) => json!(time.to_string()),
            Thing::Seconds(seconds) => json!(seconds),
        })
    }
}

fn equal(a: &Thing, b: &Thing) -> bool {
    match (a, b) {
        (Thing::Json(Value::Number(a)), Thing::Json(Value::Number(b))) => a.as_f64() == b.as_f64(),
        (Thing::Json(a), Thing::Json(b)) => a == b,
        (Thing::Time(a), Thing::Time(b)) => a == b,
        (Thing::Seconds(a), Thing::Seconds(b)) => a == b,
        _ => false,
    }
}

fn order(a: &Thing, b: &Thing) -> Option<Ordering> {
    match (a, b) {
        (Thing::Json(Value::String(a)), Thing::Json(Value::String(b))) => Some(a.cmp(b)),
        (Thing::Json(a), Thing::Json(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Thing::Time(a), Thing::Time(b)) => Some(a.cmp(b)),
        (Thing::Seconds(a), Thing::Seconds(b)) => a.partial_cmp(b),
        _ => None,
    }
}

fn contains(all: &Thing, one: &Thing) -> bool {
    match (all, one) {
        (Thing::Json(Value::Array(items)), one) => items.iter().any(|item| equal(&Thing::Json(item.clone()), one)),
        (Thing::Json(Value::Object(entries)), Thing::Json(Value::String(key))) => entries.contains_key(key),
        (Thing::Json(Value::String(text)), Thing::Json(Value::String(part))) => text.contains(part.as_str()),
        _ => false,
    }
}

fn arithmetic(operator: &str, a: &Thing, b: &Thing) -> Result<Thing, String> {
    let (Thing::Json(a), Thing::Json(b)) = (a, b) else { return Err("times have methods, not operators".into()) };
    if let (Value::String(a), Value::String(b), "+") = (a, b, operator) {
        if a.len() + b.len() > 1 << 20 {
            return Err("a text is too long".into());
        }
        return Ok(Thing::Json(json!(format!("{a}{b}"))));
    }
    let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else { return Err(format!("`{operator}` needs two numbers")) };
    Ok(Thing::Json(json!(match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        _ => a % b,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_as_people_write_them() {
        let vars = json!({"app": {
            "metadata": {"name": "shop", "labels": {"team": "blue"}},
            "status": {"health": {"status": "Degraded"}, "sync": {"status": "Synced"},
                "operationState": {"phase": "Running", "startedAt": "2026-01-01T00:00:00Z"},
                "conditions": [{"type": "SyncError", "message": "no"}]}}});
        let now: Timestamp = "2026-01-01T00:06:00Z".parse().expect("a time");
        for (text, expected) in [
            ("app.status.operationState.phase in ['Running']", true),
            ("app.status.operationState.phase in ['Error', 'Failed']", false),
            ("app.status.operationState.phase not in ['Error']", true),
            ("app.status.operationState != nil and app.status.operationState.phase in ['Running'] && app.status.health.status == 'Degraded'", true),
            ("app.status.nothing.at.all == nil", true),
            ("app.status?.operationState?.finishedAt == nil", true),
            ("time.Now().Sub(time.Parse(app.status.operationState.startedAt)).Minutes() >= 5", true),
            ("time.Now().Sub(time.Parse(app.status.operationState.startedAt)).Hours() > 1", false),
            ("any(app.status.conditions, {#.type == 'SyncError'})", true),
            ("all(app.status.conditions, {.type endsWith 'Warning'})", false),
            ("len(app.status.conditions) == 1 and not (app.metadata.name startsWith 'x')", true),
            ("app.metadata.labels['team'] == \"blue\" ? true : false", true),
            ("app.metadata.name matches '^sh.p$' || false", true),
            ("(app.status.missing ?? 'x') == 'x'", true),
            ("1 + 2 * 3 == 7", true),
        ] {
            let parsed = Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.is_true(&vars, now), Ok(expected), "{text}");
        }
        let once = Expression::parse("app.metadata.name + '!'").expect("readable");
        assert_eq!(once.text(&vars, now), Ok("shop!".to_owned()));
    }

    #[test]
    fn what_is_wrong_or_hostile_ends_with_a_sentence() {
        let now = Timestamp::UNIX_EPOCH;
        for text in ["", "a ==", "'open", "(((", "app.", "any(app)", "1 @ 2"] {
            let outcome = Expression::parse(text).and_then(|e| e.is_true(&json!({"app": {}}), now));
            assert!(outcome.is_err(), "{text}");
        }
        assert!(Expression::parse(&"(".repeat(5_000)).is_err());
        assert!(Expression::parse(&"!".repeat(5_000)).is_err());
        let many = json!({"l": vec![0; 1_000]});
        let nested = Expression::parse("all(l, {all(l, {all(l, {true})})})").expect("readable");
        assert!(nested.is_true(&many, now).is_err(), "it is ended");
    }
}
