//! What a runtime's app-proxy is asked to do to an Application.
//!
//! A decision about the app-proxy starts from one of these, which says by itself what a rule has to allow and what a
//! limited key has to hold: by what happens, not by the method or the path that asked for it.

use serde::{Deserialize, Serialize};

use crate::entity;
use crate::scope::Verb;

macro_rules! operations {
    ($($(#[$note:meta])* $name:ident),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Operation {
            $($(#[$note])* $name,)+
        }

        impl Operation {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];
        }
    };
}

operations! {
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
    /// What its pods print.
    Logs,
    DeleteResource,
    /// A command in a container of one of its pods.
    Exec,
}

impl Operation {
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
            Self::Logs => "logs",
            Self::DeleteResource => "delete-resource",
            Self::Exec => "exec",
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
            Self::Logs => "VIEW_POD_LOGS",
            Self::DeleteResource => "DELETE_RESOURCE",
            Self::Exec => "EXEC_TO_POD",
        }
    }

    /// Whether it changes anything: such an operation is asked for one by one, and recorded.
    pub fn verb(self) -> Verb {
        let scope = entity::action("gitopsApplications", self.action()).and_then(|action| action.scope);
        scope.map_or(Verb::Write, |(_, verb)| verb)
    }

    /// Whether it is recorded: what changes something, and what pods print, which may be anything.
    pub fn is_recorded(self) -> bool {
        self.verb() == Verb::Write || self == Self::Logs
    }

    /// Whether it goes on after it was answered: whoever opened it is asked about again while it does, and one that is
    /// recorded by its beginning and its end is [`Self::Exec`].
    pub fn goes_on(self) -> bool {
        matches!(self, Self::Logs | Self::Exec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_reads_and_everything_else_writes() {
        let mut words = std::collections::BTreeSet::new();
        for operation in Operation::ALL.iter().copied() {
            use Operation::{Actions, Diff, Logs, Manifests, Plan};
            let looks = matches!(operation, Manifests | Diff | Plan | Actions | Logs);
            assert_eq!(operation.verb() == Verb::Read, looks, "{operation:?}");
            assert!(entity::action("gitopsApplications", operation.action()).is_some(), "{operation:?}");
            assert!(words.insert(operation.word()), "{operation:?}");
        }
    }
}
