//! Who an object is, whatever version it is read in.

use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub group: String,
    pub kind: String,
    /// Empty for what lives outside of namespaces.
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    pub fn of(object: &Value) -> Self {
        let (group, _) = group_version(object["apiVersion"].as_str().unwrap_or_default());
        let metadata = &object["metadata"];
        Self::new(
            group,
            object["kind"].as_str().unwrap_or_default(),
            metadata["namespace"].as_str().unwrap_or_default(),
            metadata["name"].as_str().unwrap_or_default(),
        )
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}", self.name)
    }
}

/// `apps/v1` → (`apps`, `v1`); `v1` → (``, `v1`).
pub(crate) fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
