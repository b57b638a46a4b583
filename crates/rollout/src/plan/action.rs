//! What a plan asks for.

use serde_json::{Value, json};

/// An object by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Target {
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let [api_version, kind, namespace, name] = [api_version, kind, namespace, name].map(str::to_owned);
        Self { api_version, kind, namespace, name }
    }

    /// As an object that has nothing but its name.
    pub fn object(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": {"namespace": self.namespace, "name": self.name}})
    }
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Create(Value),
    /// A JSON merge patch.
    Patch {
        target: Target,
        patch: Value,
    },
    Delete {
        target: Target,
        uid: String,
    },
    /// A pod goes, if nobody's budget forbids it.
    Evict {
        target: Target,
    },
}

impl Action {
    pub fn patch(target: Target, patch: Value) -> Self {
        Self::Patch { target, patch }
    }
}

/// Something that people are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub reason: &'static str,
    pub warning: bool,
    pub message: String,
}
