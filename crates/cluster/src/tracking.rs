//! Whose an object is, by a rule that the subscriber hands in: how objects are marked is not this room's knowledge.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::ObjectKey;

type Rule = dyn Fn(&Value, &ObjectKey) -> Option<String> + Send + Sync;

/// Says by which name an object is tracked ([`crate::Subject::Tracker`]). It is asked once for each version of an object, which
/// it sees whole. Two rules of one name are the same rule.
#[derive(Clone)]
pub struct Tracking {
    name: String,
    rule: Arc<Rule>,
}

impl Tracking {
    pub fn new(
        name: impl Into<String>,
        rule: impl Fn(&Value, &ObjectKey) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), rule: Arc::new(rule) }
    }

    pub(crate) fn tracker_of(&self, object: &Value, key: &ObjectKey) -> Option<String> {
        (self.rule)(object, key)
    }
}

/// Nobody tracks anything.
impl Default for Tracking {
    fn default() -> Self {
        Self::new("", |_, _| None)
    }
}

impl PartialEq for Tracking {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Tracking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tracking").field(&self.name).finish()
    }
}
