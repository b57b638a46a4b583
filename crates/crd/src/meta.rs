//! Kubernetes object metadata, the part that the engines look at.

use crate::wire::wire_struct;
use std::collections::BTreeMap;

/// A time as Kubernetes writes it (RFC 3339). Kept as text: one unreadable time must not make an object unreadable.
pub type Time = String;

wire_struct! {
    /// `metadata` of an object.
    ObjectMeta {
        omit {
            name: String,
            generate_name: String,
            namespace: String,
            labels: BTreeMap<String, String>,
            annotations: BTreeMap<String, String>,
            finalizers: Vec<String>,
            owner_references: Vec<OwnerReference>,
            uid: String,
            resource_version: String,
            generation: i64,
            creation_timestamp: Option<Time>,
            deletion_timestamp: Option<Time>,
        }
    }
}

wire_struct! {
    /// One entry of `metadata.ownerReferences`.
    OwnerReference {
        keep { api_version: String, kind: String, name: String, uid: String, }
        omit { controller: Option<bool>, block_owner_deletion: Option<bool>, }
    }
}

impl ObjectMeta {
    /// The annotation's value, if it is there.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }
}
