//! What a runtime's app-proxy is asked to do to an Application.
//!
//! A decision about the app-proxy starts from one of these, which says by itself what a rule has to allow and what a
//! limited key has to hold: by what happens, not by the method or the path that asked for it.

use serde::{Deserialize, Serialize};

use crate::entity;
use crate::scope::Verb;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Manifests,
    Diff,
    Plan,
    /// What can be done to one of its live objects.
    Actions,
    Sync,
    Refresh,
    Rollback,
    Terminate,
    SyncPolicy,
    /// Does it.
    Action,
}

impl Operation {
    pub const ALL: [Self; 10] = [
        Self::Manifests,
        Self::Diff,
        Self::Plan,
        Self::Actions,
        Self::Sync,
        Self::Refresh,
        Self::Rollback,
        Self::Terminate,
        Self::SyncPolicy,
        Self::Action,
    ];

    /// Its last word in a path, and in the audit trail.
    pub fn word(self) -> &'static str {
        match self {
            Self::Manifests => "manifests",
            Self::Diff => "diff",
            Self::Plan => "plan",
            Self::Sync => "sync",
            Self::Refresh => "refresh",
            Self::Rollback => "rollback",
            Self::Terminate => "terminate",
            Self::SyncPolicy => "sync-policy",
            Self::Actions => "actions",
            Self::Action => "action",
        }
    }

    /// What a rule has to allow.
    pub fn action(self) -> &'static str {
        match self {
            Self::Manifests | Self::Diff | Self::Plan | Self::Actions => "VIEW",
            // Automation is a standing order to sync.
            Self::Sync | Self::SyncPolicy => "SYNC",
            Self::Refresh => "REFRESH",
            Self::Rollback => "APP_ROLLBACK",
            Self::Terminate => "TERMINATE_SYNC",
            Self::Action => "RESOURCE_ACTION",
        }
    }

    /// Whether it changes anything: such an operation is asked for one by one, and recorded.
    pub fn verb(self) -> Verb {
        let scope = entity::action("gitopsApplications", self.action()).and_then(|action| action.scope);
        scope.map_or(Verb::Write, |(_, verb)| verb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_reads_and_everything_else_writes() {
        for operation in Operation::ALL {
            use Operation::{Actions, Diff, Manifests, Plan};
            let looks = matches!(operation, Manifests | Diff | Plan | Actions);
            assert_eq!(operation.verb() == Verb::Read, looks, "{operation:?}");
            assert!(entity::action("gitopsApplications", operation.action()).is_some(), "{operation:?}");
        }
    }
}
