//! Shapes: what a field may look like, and the check of a tree against them.
//!
//! The rules and the wording are those of the validator users know (Joi 9): numbers and booleans may
//! be written as text, an empty text is no text, an explicit null is a value.

use std::sync::LazyLock;

use regex::Regex;
use slipway_yaml::{Node, NodeKind, Span};

use crate::interpolate::only_reference;
use crate::resolve::flag_word;

/// What a value may be.
#[derive(Clone)]
pub(super) enum Shape {
    Any,
    Forbidden,
    Text,
    /// Text for which the rule holds; the words say what the rule wants.
    TextLike(fn(&str) -> bool, &'static str),
    /// One of these words.
    Word(Vec<String>),
    Number,
    Positive,
    /// A boolean, the word for one, or a variable.
    Flag,
    /// A boolean or a variable.
    StrictFlag,
    List {
        item: Box<Shape>,
        min: usize,
    },
    /// Any names, one shape.
    Map {
        key: fn(&str) -> bool,
        value: Box<Shape>,
        min: usize,
    },
    Object(Box<Object>),
    Either(Vec<Shape>),
    OrNull(Box<Shape>),
}

/// Named fields.
#[derive(Clone, Default)]
pub(super) struct Object {
    pub(super) fields: Vec<Field>,
    /// Other names are let through.
    pub(super) open: bool,
    pub(super) renames: Vec<(&'static str, &'static str)>,
    pub(super) rules: Vec<Rule>,
}

#[derive(Clone)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) required: bool,
}

/// What fields say about each other.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// The first forbids the second.
    Without(&'static str, &'static str),
    /// The first needs the second.
    With(&'static str, &'static str),
    /// Exactly one of the two.
    OneOf(&'static str, &'static str),
    /// `if_field` there: `forbidden` must not be; absent: it must be a text.
    InsteadOf { if_field: &'static str, field: &'static str },
    /// The field needs a switch that is on.
    NeedsSwitch { field: &'static str, switch: &'static str },
}

/// One violation.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    /// From the checked value: keys and indexes.
    pub(super) path: Vec<String>,
    pub(super) message: String,
    pub(super) unknown_key: bool,
    pub(super) span: Span,
}

pub(super) fn text() -> Shape {
    Shape::Text
}

pub(super) fn list(item: Shape) -> Shape {
    Shape::List { item: Box::new(item), min: 0 }
}

pub(super) fn list_of(item: Shape, min: usize) -> Shape {
    Shape::List { item: Box::new(item), min }
}

pub(super) fn word(words: &[&str]) -> Shape {
    Shape::Word(words.iter().map(|word| (*word).to_owned()).collect())
}

pub(super) fn map(key: fn(&str) -> bool, value: Shape) -> Shape {
    Shape::Map { key, value: Box::new(value), min: 0 }
}

pub(super) fn object(fields: Vec<Field>) -> Shape {
    Shape::Object(Box::new(Object { fields, ..Object::default() }))
}

/// Any object at all.
pub(super) fn any_object() -> Shape {
    Shape::Object(Box::new(Object { open: true, ..Object::default() }))
}

pub(super) fn may(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: false }
}

pub(super) fn must(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: true }
}

pub(super) fn any_key(key: &str) -> bool {
    !key.is_empty()
}

/// `[A-Za-z0-9_]+`
pub(super) fn word_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A name of at least two characters somewhere in the key.
pub(super) fn variable_key(key: &str) -> bool {
    static PATTERN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("[_a-zA-Z][_a-zA-Z0-9]").expect("a constant"));
    PATTERN.is_match(key)
}

/// `NAME=value`
pub(super) fn assignment(text: &str) -> bool {
    static PATTERN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("^[_a-zA-Z][_a-zA-Z0-9]{1,256}=").expect("a constant"));
    PATTERN.is_match(text)
}

/// Checks a value and adds what is wrong with it.
pub(super) fn check(shape: &Shape, node: &Node, path: &mut Vec<String>, problems: &mut Vec<Problem>) {
    if let Some(wrong) = mismatch(shape, node, path) {
        problems.push(problem(path, node, wrong));
        // An empty text breaks the rule for emptiness and the rule for its form.
        if let (Shape::TextLike(rule, wanted), Some("")) = (shape, node.as_str())
            && !rule("")
        {
            let name = path.last().map_or("value", String::as_str);
            problems.push(problem(
                path,
                node,
                format!("\"{name}\" fails to match the required pattern: {wanted}"),
            ));
        }
        return;
    }
    match shape {
        Shape::List { item, .. } => {
            for (index, value) in node.items().iter().enumerate() {
                path.push(index.to_string());
                check(item, value, path, problems);
                path.pop();
            }
        }
        Shape::Map { key, value, .. } => {
            for (name, member) in node.entries() {
                path.push(name.key_text());
                if key(&name.key_text()) {
                    check(value, member, path, problems);
                } else {
                    problems.push(not_allowed(path, name));
                }
                path.pop();
            }
        }
        Shape::Object(object) => check_object(object, node, path, problems),
        Shape::Either(shapes) => check_either(shapes, node, path, problems),
        Shape::OrNull(inner) if !node.is_null() => check(inner, node, path, problems),
        _ => {}
    }
}

fn check_either(shapes: &[Shape], node: &Node, path: &mut Vec<String>, problems: &mut Vec<Problem>) {
    let mut nearest: Option<Vec<Problem>> = None;
    for shape in shapes {
        let mut found = Vec::new();
        check(shape, node, path, &mut found);
        if found.is_empty() {
            return;
        }
        // The alternative that got furthest into the value is the one that was meant.
        let depth =
            |problems: &[Problem]| problems.iter().map(|problem| problem.path.len()).max().unwrap_or(0);
        if nearest.as_ref().is_none_or(|known| depth(&found) > depth(known)) {
            nearest = Some(found);
        }
    }
    problems.extend(nearest.unwrap_or_default());
}

fn check_object(object: &Object, node: &Node, path: &mut Vec<String>, problems: &mut Vec<Problem>) {
    let renamed = |name: &str| {
        object
            .renames
            .iter()
            .find(|(old, _)| *old == name)
            .map_or(name.to_owned(), |(_, new)| (*new).to_owned())
    };
    let get = |name: &str| {
        node.entries().iter().find(|(key, _)| renamed(&key.key_text()) == name).map(|(_, value)| value)
    };
    for (old, new) in &object.renames {
        if node.get(old).is_some() && node.get(new).is_some() {
            problems.push(problem(
                path,
                node,
                format!("\"{old}\" and \"{new}\" are the same; keep one of them"),
            ));
        }
    }
    for field in &object.fields {
        match get(field.name) {
            Some(value) => {
                path.push(field.name.to_owned());
                check(&field.shape, value, path, problems);
                path.pop();
            }
            None if field.required => {
                let mut at = path.clone();
                at.push(field.name.to_owned());
                let message = format!("\"{}\" is required", field.name);
                problems.push(Problem { path: at, message, unknown_key: false, span: node.span });
            }
            None => {}
        }
    }
    if !object.open {
        for (key, _) in node.entries() {
            let name = renamed(&key.key_text());
            let known = object.fields.iter().any(|field| field.name == name)
                || object.rules.iter().any(|rule| rule.names().contains(&name.as_str()));
            if !known {
                path.push(key.key_text());
                problems.push(not_allowed(path, key));
                path.pop();
            }
        }
    }
    for rule in &object.rules {
        check_rule(*rule, node, &get, path, problems);
    }
}

impl Rule {
    /// Names a rule checks by itself, which therefore need no field.
    fn names(self) -> Vec<&'static str> {
        match self {
            Self::InsteadOf { field, .. } | Self::NeedsSwitch { field, .. } => vec![field],
            _ => Vec::new(),
        }
    }
}

fn check_rule<'n>(
    rule: Rule,
    node: &'n Node,
    get: &impl Fn(&str) -> Option<&'n Node>,
    path: &[String],
    problems: &mut Vec<Problem>,
) {
    let mut fail = |name: &str, message: String, span: Span| {
        let mut at = path.to_vec();
        at.push(name.to_owned());
        problems.push(Problem { path: at, message, unknown_key: false, span });
    };
    match rule {
        Rule::Without(first, second) => {
            if let (Some(_), Some(other)) = (get(first), get(second)) {
                fail(first, format!("\"{first}\" conflict with forbidden peer \"{second}\""), other.span);
            }
        }
        Rule::With(first, second) => {
            if let (Some(value), None) = (get(first), get(second)) {
                fail(first, format!("\"{first}\" missing required peer \"{second}\""), value.span);
            }
        }
        Rule::OneOf(first, second) => match (get(first), get(second)) {
            (Some(_), Some(other)) => fail(
                second,
                format!("\"value\" contains a conflict between exclusive peers [{first}, {second}]"),
                other.span,
            ),
            (None, None) => {
                fail(first, format!("\"value\" must contain at least one of [{first}, {second}]"), node.span);
            }
            _ => {}
        },
        Rule::InsteadOf { if_field, field } => {
            let instead =
                get(if_field).is_some_and(|value| value.as_str().is_some_and(|text| !text.is_empty()));
            match get(field) {
                Some(value) if instead => fail(field, format!("\"{field}\" is not allowed"), value.span),
                Some(value) => {
                    if let Some(wrong) = mismatch(&Shape::Text, value, &[field.to_owned()]) {
                        fail(field, wrong, value.span);
                    }
                }
                None if !instead => fail(field, format!("\"{field}\" is required"), node.span),
                None => {}
            }
        }
        Rule::NeedsSwitch { field, switch } => {
            let on = get(switch).is_some_and(|value| !value.is_null() && value.as_bool() != Some(false));
            match get(field) {
                Some(value) if !on => fail(field, format!("\"{field}\" is not allowed"), value.span),
                Some(value) => {
                    if let Some(wrong) = mismatch(&Shape::Text, value, &[field.to_owned()]) {
                        fail(field, wrong, value.span);
                    }
                }
                None => {}
            }
        }
    }
}

fn problem(path: &[String], node: &Node, message: String) -> Problem {
    Problem { path: path.to_vec(), message, unknown_key: false, span: node.span }
}

fn not_allowed(path: &[String], key: &Node) -> Problem {
    let name = path.last().cloned().unwrap_or_default();
    Problem {
        path: path.to_vec(),
        message: format!("\"{name}\" is not allowed"),
        unknown_key: true,
        span: key.span,
    }
}

/// What is wrong with the value itself, members aside.
fn mismatch(shape: &Shape, node: &Node, path: &[String]) -> Option<String> {
    let name = path.last().map_or("value", String::as_str);
    let must = |what: &str| Some(format!("\"{name}\" must be {what}"));
    match shape {
        Shape::Any | Shape::Either(_) | Shape::OrNull(_) => None,
        Shape::Forbidden => Some(format!("\"{name}\" is not allowed")),
        Shape::Text | Shape::TextLike(..) | Shape::Word(_) => {
            let Some(text) = node.as_str() else {
                return match shape {
                    Shape::Word(words) => must(&format!("one of [{}]", words.join(", "))),
                    _ => must("a string"),
                };
            };
            match shape {
                Shape::Word(words) if !words.iter().any(|word| word == text) => {
                    must(&format!("one of [{}]", words.join(", ")))
                }
                Shape::Word(_) => None,
                _ if text.is_empty() => Some(format!("\"{name}\" is not allowed to be empty")),
                Shape::TextLike(rule, wanted) if !rule(text) => Some(format!(
                    "\"{name}\" with value \"{text}\" fails to match the required pattern: {wanted}"
                )),
                _ => None,
            }
        }
        Shape::Number | Shape::Positive => {
            let number = match &node.kind {
                NodeKind::Number(number) => number.as_f64(),
                NodeKind::String(text) => text.trim().parse::<f64>().ok().filter(|number| number.is_finite()),
                _ => None,
            };
            match number {
                None => must("a number"),
                Some(number) if matches!(shape, Shape::Positive) && number <= 0.0 => {
                    must("a positive number")
                }
                Some(_) => None,
            }
        }
        Shape::Flag | Shape::StrictFlag => {
            let ok = match &node.kind {
                NodeKind::Bool(_) => true,
                NodeKind::String(text) if only_reference(text).is_some() => true,
                NodeKind::String(_) | NodeKind::Number(_) if matches!(shape, Shape::Flag) => {
                    flag_word(&node.key_text()).is_some()
                }
                _ => false,
            };
            if ok { None } else { must("a boolean") }
        }
        Shape::List { min, .. } => match node.is_sequence() {
            false => must("an array"),
            true if node.items().len() < *min => must(&format!("at least {min} items long")),
            true => None,
        },
        Shape::Map { min, .. } => match node.is_mapping() {
            false => must("an object"),
            true if node.entries().len() < *min => must(&format!("an object with at least {min} children")),
            true => None,
        },
        Shape::Object(_) => {
            if node.is_mapping() {
                None
            } else {
                must("an object")
            }
        }
    }
}
