//! What somebody wants of the copy besides what they track: whole objects of a kind, news of them, news of what they own.

use crate::ObjectKey;

/// Objects that are kept whole and whose changes are announced. Everything else keeps its metadata alone unless somebody
/// tracks it, owns it or asked about its key: a cluster is full of Secrets that are none of our business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    group: String,
    /// None: every kind of the group.
    kind: Option<String>,
    /// None: in all namespaces.
    namespace: Option<String>,
    announced: bool,
    owned: bool,
}

impl Subscription {
    pub fn kind(group: &str, kind: &str) -> Self {
        Self { kind: Some(kind.to_owned()), ..Self::group(group) }
    }

    /// Every kind of a group.
    pub fn group(group: &str) -> Self {
        Self { group: group.to_owned(), kind: None, namespace: None, announced: true, owned: false }
    }

    /// Only in this namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    /// Kept, but no change of them is announced for its own sake.
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { announced: false, ..self }
    }

    /// Changes of what they own, directly or not, are addressed to them.
    #[must_use]
    pub fn with_owned(self) -> Self {
        Self { owned: true, ..self }
    }

    fn covers(&self, key: &ObjectKey) -> bool {
        key.group == self.group
            && self.kind.as_ref().is_none_or(|kind| *kind == key.kind)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
    }
}

/// All subscriptions of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subscriptions(pub(crate) Vec<Subscription>);

impl Subscriptions {
    pub(crate) fn retains(&self, key: &ObjectKey) -> bool {
        // Discovery compares them with what the server says it serves.
        let own = key.group == "apiextensions.k8s.io" && key.kind == "CustomResourceDefinition";
        own || self.0.iter().any(|one| one.covers(key))
    }

    pub(crate) fn announces(&self, key: &ObjectKey) -> bool {
        self.0.iter().any(|one| one.announced && one.covers(key))
    }

    /// True when changes of what the object owns are addressed to it.
    pub(crate) fn answers_for_owned(&self, key: &ObjectKey) -> bool {
        self.0.iter().any(|one| one.owned && one.covers(key))
    }

    pub(crate) fn wants_owned(&self) -> bool {
        self.0.iter().any(|one| one.owned)
    }
}
