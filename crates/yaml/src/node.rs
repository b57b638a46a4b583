//! The tree: ordered mappings, resolved scalars, and the place each of them was written at.

use serde_json::{Number, Value};

/// A range of the text; lines and columns count from 1, the end is the place after the last character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
}

impl Span {
    /// The first character of a text.
    pub(crate) fn start() -> Self {
        Self { line: 1, column: 1, end_line: 1, end_column: 1 }
    }
}

/// What a node is after its dialect has resolved it.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Sequence(Vec<Node>),
    Mapping(Vec<(Node, Node)>),
}

/// A value and its place. A node reached through an alias keeps the place where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub kind: NodeKind,
    pub span: Span,
}

impl Node {
    pub fn new(kind: NodeKind, span: Span) -> Self {
        Self { kind, span }
    }

    /// A tree without places, for values that did not come from text.
    pub fn from_json(value: &Value) -> Self {
        let kind = match value {
            Value::Null => NodeKind::Null,
            Value::Bool(flag) => NodeKind::Bool(*flag),
            Value::Number(number) => NodeKind::Number(number.clone()),
            Value::String(text) => NodeKind::String(text.clone()),
            Value::Array(items) => NodeKind::Sequence(items.iter().map(Self::from_json).collect()),
            Value::Object(members) => NodeKind::Mapping(
                members
                    .iter()
                    .map(|(key, value)| {
                        let key = Self::new(NodeKind::String(key.clone()), Span::default());
                        (key, Self::from_json(value))
                    })
                    .collect(),
            ),
        };
        Self { kind, span: Span::default() }
    }

    /// The value without places; mapping order is lost and keys become strings, as in JSON.
    pub fn to_json(&self) -> Value {
        match &self.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Bool(flag) => Value::Bool(*flag),
            NodeKind::Number(number) => Value::Number(number.clone()),
            NodeKind::String(text) => Value::String(text.clone()),
            NodeKind::Sequence(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            NodeKind::Mapping(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.key_text(), value.to_json())).collect())
            }
        }
    }

    pub fn is_null(&self) -> bool {
        self.kind == NodeKind::Null
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let NodeKind::Bool(flag) = self.kind { Some(flag) } else { None }
    }

    pub fn as_str(&self) -> Option<&str> {
        if let NodeKind::String(text) = &self.kind { Some(text) } else { None }
    }

    pub fn as_number(&self) -> Option<f64> {
        if let NodeKind::Number(number) = &self.kind { number.as_f64() } else { None }
    }

    /// The entries of a mapping in file order; empty for anything else.
    pub fn entries(&self) -> &[(Node, Node)] {
        if let NodeKind::Mapping(entries) = &self.kind { entries } else { &[] }
    }

    /// The items of a sequence; empty for anything else.
    pub fn items(&self) -> &[Node] {
        if let NodeKind::Sequence(items) = &self.kind { items } else { &[] }
    }

    pub fn is_mapping(&self) -> bool {
        matches!(self.kind, NodeKind::Mapping(_))
    }

    pub fn is_sequence(&self) -> bool {
        matches!(self.kind, NodeKind::Sequence(_))
    }

    /// The text of a scalar as a mapping key or an interpolated value would show it.
    pub fn key_text(&self) -> String {
        match &self.kind {
            NodeKind::Null => "null".to_owned(),
            NodeKind::Bool(flag) => flag.to_string(),
            NodeKind::Number(number) => number.to_string(),
            NodeKind::String(text) => text.clone(),
            NodeKind::Sequence(_) | NodeKind::Mapping(_) => self.to_json().to_string(),
        }
    }

    /// The entry of a mapping whose key reads as `name`.
    pub fn entry(&self, name: &str) -> Option<(&Node, &Node)> {
        self.entries()
            .iter()
            .find(|(key, _)| match key.as_str() {
                Some(text) => text == name,
                None => key.key_text() == name,
            })
            .map(|(key, value)| (key, value))
    }

    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entry(name).map(|(_, value)| value)
    }

    /// Follows mapping keys and sequence indexes from this node.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, part| match &node.kind {
            NodeKind::Mapping(_) => node.get(part),
            NodeKind::Sequence(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        })
    }

    /// The place of the value at a path.
    pub fn span_at(&self, path: &[&str]) -> Option<Span> {
        self.at(path).map(|node| node.span)
    }

    /// The place of the last key of a path, or of the deepest part of it that exists: where a person looks.
    pub fn key_span_at(&self, path: &[&str]) -> Span {
        let mut node = self;
        let mut span = self.span;
        for part in path {
            match &node.kind {
                NodeKind::Mapping(_) => match node.entry(part) {
                    Some((key, value)) => {
                        span = key.span;
                        node = value;
                    }
                    None => return span,
                },
                NodeKind::Sequence(items) => match part.parse::<usize>().ok().and_then(|i| items.get(i)) {
                    Some(item) => {
                        span = item.span;
                        node = item;
                    }
                    None => return span,
                },
                _ => return span,
            }
        }
        span
    }
}
