//! What a runtime's app-proxy is asked to do: to an Application, or with the asker's own Git token that the runtime keeps.
//!
//! A decision about the app-proxy starts from one of these, which says by itself what a rule has to allow and what a
//! limited key has to hold: by what happens, not by the method or the path that asked for it.

use serde::{Deserialize, Serialize};

use crate::entity;
use crate::scope::Verb;

/// What an operation is done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// One Application, whose rules decide.
    Application,
    /// The asker's own Git token, and repositories as far as that reaches: every member may, and the Git provider decides.
    Git,
}

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
    /// Which Git tokens the asker has given the runtime; never the tokens.
    GitTokens,
    GitRegister,
    GitForget,
    GitOrganizations,
    GitRepositories,
    GitBranches,
    GitCommit,
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
            Self::GitTokens => "git-tokens",
            Self::GitRegister => "git-register",
            Self::GitForget => "git-forget",
            Self::GitOrganizations => "git-organizations",
            Self::GitRepositories => "git-repositories",
            Self::GitBranches => "git-branches",
            Self::GitCommit => "git-commit",
        }
    }

    /// What a rule has to allow; `None` where no rule can: what is one's own, one may.
    pub fn action(self) -> Option<&'static str> {
        Some(match self {
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
            Self::GitTokens
            | Self::GitRegister
            | Self::GitForget
            | Self::GitOrganizations
            | Self::GitRepositories
            | Self::GitBranches
            | Self::GitCommit => return None,
        })
    }

    pub fn about(self) -> About {
        if self.action().is_some() { About::Application } else { About::Git }
    }

    /// Whether it changes anything: such an operation is asked for one by one, and recorded.
    pub fn verb(self) -> Verb {
        let Some(action) = self.action() else {
            return match self {
                Self::GitRegister | Self::GitForget | Self::GitCommit => Verb::Write,
                _ => Verb::Read,
            };
        };
        let scope = entity::action("gitopsApplications", action).and_then(|action| action.scope);
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
        use Operation::{Actions, Diff, GitBranches, GitOrganizations, GitRepositories, GitTokens, Logs};
        use Operation::{Manifests, Plan};
        let mut words = std::collections::BTreeSet::new();
        for operation in Operation::ALL.iter().copied() {
            let looks = matches!(
                operation,
                Manifests
                    | Diff
                    | Plan
                    | Actions
                    | Logs
                    | GitTokens
                    | GitOrganizations
                    | GitRepositories
                    | GitBranches
            );
            assert_eq!(operation.verb() == Verb::Read, looks, "{operation:?}");
            let known = |action| entity::action("gitopsApplications", action).is_some();
            assert!(operation.action().is_none_or(known), "{operation:?}");
            assert!(words.insert(operation.word()), "{operation:?}");
        }
    }
}
