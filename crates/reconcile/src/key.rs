//! What is reconciled: an object by kind, namespace and name.

use slipway_cluster::ObjectKey;

/// A kind of object, whatever its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub kind: &'static str,
}

impl Kind {
    pub const fn new(group: &'static str, kind: &'static str) -> Self {
        Self { group, kind }
    }

    pub fn is(self, key: &ObjectKey) -> bool {
        key.group == self.group && key.kind == self.kind
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.group {
            "" => f.write_str(self.kind),
            group => write!(f, "{group}/{}", self.kind),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The object of this kind; `None` where it is of another.
    pub fn of(kind: Kind, object: &ObjectKey) -> Option<Self> {
        kind.is(object).then(|| Self::new(kind, &object.namespace, &object.name))
    }

    pub fn object(&self) -> ObjectKey {
        ObjectKey::new(self.kind.group, self.kind.kind, &self.namespace, &self.name)
    }
}

/// `namespace/name`: whoever prints a key says of which kind it is.
impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
