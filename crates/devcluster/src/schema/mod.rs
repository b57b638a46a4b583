//! Shapes of objects: one `Node` tree for built-in kinds (from `builtin.txt`) and for CRDs (from `openAPIV3Schema`).
//!
//! Comes in: schema text or JSON. Goes out: `Node`, which pruning, defaulting, validation, strategic merge and
//! server-side apply all read. Does not know: storage, HTTP, or any single kind.

mod builtin;
mod check;
mod crd;
mod protobuf;

pub(crate) use builtin::{builtin, full_name, types};
pub(crate) use check::{ShapeError, apply_defaults, prune, validate};
pub(crate) use crd::{from_openapi, structural_errors};
pub(crate) use protobuf::decode as decode_protobuf;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Type {
    #[default]
    Any,
    String,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    Integer,
    Long,
    Number,
    Boolean,
    IntOrString,
    Object,
    Map,
    Array,
    /// A named built-in type, see [`resolve`].
    Ref(&'static str),
}

/// How server-side apply looks at a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// How strategic merge patch looks at a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PatchRule {
    pub(crate) merge: bool,
    pub(crate) key: Option<String>,
    pub(crate) retain_keys: bool,
}

/// One place in an object's shape.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) ty: Type,
    pub(crate) fields: BTreeMap<String, Node>,
    /// Items of an array, values of a map.
    pub(crate) items: Option<Box<Node>>,
    pub(crate) required: Vec<String>,
    /// Unknown fields below are kept (`x-kubernetes-preserve-unknown-fields`).
    pub(crate) preserve: bool,
    /// Holds a whole object with apiVersion, kind and metadata.
    pub(crate) embedded: bool,
    pub(crate) list: ListType,
    pub(crate) atomic: bool,
    pub(crate) patch: PatchRule,
    pub(crate) default: Option<Value>,
    pub(crate) nullable: bool,
    /// The CRD's own JSON schema at this place, for enum, pattern, bounds, allOf and the like. Shared: of thousands of
    /// places most say no more than a type.
    pub(crate) rules: Option<Arc<Value>>,
}

impl Node {
    pub(crate) fn of(ty: Type) -> Self {
        Node { ty, ..Node::default() }
    }

    /// Follows a reference to a built-in type; other nodes are themselves.
    pub(crate) fn resolve(&self) -> &Node {
        match self.ty {
            Type::Ref(name) => builtin(name).unwrap_or(self),
            _ => self,
        }
    }

    /// The shape of field `name` of a (resolved) object or map.
    pub(crate) fn child(&self, name: &str) -> Option<&Node> {
        let node = self.resolve();
        match node.ty {
            Type::Object => node.fields.get(name).or(node.items.as_deref()),
            Type::Map => node.items.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn item(&self) -> Option<&Node> {
        self.resolve().items.as_deref()
    }

    /// True where server-side apply treats the value as one leaf.
    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic || self.resolve().atomic
    }
}

/// A shape that accepts everything, for objects without a schema.
pub(crate) fn any() -> &'static Node {
    static ANY: std::sync::LazyLock<Node> =
        std::sync::LazyLock::new(|| Node { preserve: true, ..Node::of(Type::Any) });
    &ANY
}
