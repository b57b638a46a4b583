//! Reads `builtin.txt`: the shapes of Kubernetes' own types, kept as a compact table of facts.
//!
//! One line per type: `name field!:type…`. Types: `s` string, `y` base64, `i`/`l` integers, `n` number, `b` boolean,
//! `I` int-or-string, `q` quantity, `t`/`u` times, `x` anything, `[T]` list, `{T}` map, `@name` another type.
//! After the type: `*` atomic, `=` set, `/a,b` list map keys, `+key` strategic merge, `~` retainKeys.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{ListType, Node, PatchRule, Type};

static TABLE: &str = include_str!("builtin.txt");

static TYPES: LazyLock<HashMap<&'static str, Node>> = LazyLock::new(|| {
    TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(parse_line).collect()
});

/// The shape of a built-in type by its short name, such as `core.v1.Pod`.
pub(crate) fn builtin(name: &str) -> Option<&'static Node> {
    TYPES.get(name)
}

/// All built-in types, for the OpenAPI documents.
pub(crate) fn types() -> &'static HashMap<&'static str, Node> {
    &TYPES
}

/// The name that Kubernetes' OpenAPI documents use for a type.
pub(crate) fn full_name(short: &str) -> String {
    match short.split('.').next() {
        Some("meta") => format!("io.k8s.apimachinery.pkg.apis.{short}"),
        Some("apiextensions") => format!("io.k8s.apiextensions-apiserver.pkg.apis.{short}"),
        Some("apiregistration") => format!("io.k8s.kube-aggregator.pkg.apis.{short}"),
        _ => format!("io.k8s.api.{short}"),
    }
}

fn parse_line(line: &'static str) -> (&'static str, Node) {
    let mut words = line.split(' ');
    let head = words.next().unwrap_or_default();
    let name = head.trim_end_matches('*');
    let mut node = Node { atomic: head.ends_with('*'), ..Node::of(Type::Object) };
    for word in words {
        let (field, ty) = word.split_once(':').expect("builtin.txt fields are name:type");
        if let Some(required) = field.strip_suffix('!') {
            node.required.push(required.to_owned());
        }
        let mut rest = ty;
        let child = parse_type(&mut rest);
        node.fields.insert(field.trim_end_matches('!').to_owned(), child);
    }
    (name, node)
}

fn parse_type(rest: &mut &'static str) -> Node {
    let mut node = match take(rest) {
        's' => Node::of(Type::String),
        'y' => Node::of(Type::Bytes),
        'i' => Node::of(Type::Integer),
        'l' => Node::of(Type::Long),
        'n' => Node::of(Type::Number),
        'b' => Node::of(Type::Boolean),
        'I' => Node::of(Type::IntOrString),
        'q' => Node::of(Type::Quantity),
        't' => Node::of(Type::Time),
        'u' => Node::of(Type::MicroTime),
        'x' => Node { preserve: true, atomic: true, ..Node::of(Type::Any) },
        '[' => bracket(Type::Array, rest),
        '{' => bracket(Type::Map, rest),
        '@' => Node::of(Type::Ref(word(rest))),
        other => panic!("builtin.txt: unknown type letter {other}"),
    };
    suffixes(&mut node, rest);
    node
}

fn bracket(ty: Type, rest: &mut &'static str) -> Node {
    let item = parse_type(rest);
    take(rest);
    Node { items: Some(Box::new(item)), ..Node::of(ty) }
}

fn suffixes(node: &mut Node, rest: &mut &'static str) {
    loop {
        match rest.chars().next() {
            Some('*') => {
                take(rest);
                node.atomic = true;
            }
            Some('=') => {
                take(rest);
                node.list = ListType::Set;
            }
            Some('/') => {
                take(rest);
                node.list = ListType::Map(word(rest).split(',').map(str::to_owned).collect());
            }
            Some('+') => {
                take(rest);
                let key = word(rest);
                node.patch =
                    PatchRule { merge: true, key: (!key.is_empty()).then(|| key.to_owned()), retain_keys: false };
            }
            Some('~') => {
                take(rest);
                node.patch.retain_keys = true;
            }
            _ => return,
        }
    }
}

fn take(rest: &mut &'static str) -> char {
    let first = rest.chars().next().expect("builtin.txt types are complete");
    *rest = &rest[first.len_utf8()..];
    first
}

fn word(rest: &mut &'static str) -> &'static str {
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | '-' | '_'))).unwrap_or(rest.len());
    let (word, tail) = rest.split_at(end);
    *rest = tail;
    word
}
