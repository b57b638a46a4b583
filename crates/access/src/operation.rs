//! What a runtime's app-proxy is asked to do: to an Application, with the asker's own Git token that the runtime keeps, to the
//! clusters that it deploys to, or to say of itself.
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
    /// A cluster that the runtime deploys to: Administrators may.
    Cluster,
    /// The runtime itself: Administrators may.
    Runtime,
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
    /// Its live objects.
    Tree,
    /// What was noted about them.
    Events,
    /// One of them, as it is now.
    Resource,
    /// How it fares, as that changes.
    Live,
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
    /// Declares a new Application in Git, by a commit of the asker's own.
    Create,
    /// Changes what Git says of it, in the same way.
    Edit,
    /// Takes it out of Git, in the same way.
    Delete,
    /// Orders to one of its Rollouts.
    RolloutPause,
    RolloutResume,
    RolloutPromoteFull,
    RolloutSkipCurrentStep,
    RolloutAbort,
    RolloutRetry,
    RolloutRestart,
    /// Which Git tokens the asker has given the runtime; never the tokens.
    GitTokens,
    GitRegister,
    GitForget,
    /// Sign in to a Git provider instead: it begins, and it ends.
    GitAuthorize,
    GitConnect,
    GitOrganizations,
    GitRepositories,
    GitBranches,
    GitCommit,
    /// Describe a cluster to the runtime, which deploys to it from then on.
    ClusterAdd,
    /// Let go of one; nothing changes in it.
    ClusterRemove,
    /// What its own process says.
    RuntimeLogs,
}

impl Operation {
    /// Its last word in a path, and in the audit trail.
    pub fn word(self) -> &'static str {
        match self {
            Self::Manifests => "manifests",
            Self::Diff => "diff",
            Self::Plan => "plan",
            Self::Tree => "tree",
            Self::Events => "events",
            Self::Resource => "resource",
            Self::Live => "live",
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
            Self::Create => "create",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::RolloutPause => "rollout-pause",
            Self::RolloutResume => "rollout-resume",
            Self::RolloutPromoteFull => "rollout-promote-full",
            Self::RolloutSkipCurrentStep => "rollout-skip-current-step",
            Self::RolloutAbort => "rollout-abort",
            Self::RolloutRetry => "rollout-retry",
            Self::RolloutRestart => "rollout-restart",
            Self::GitTokens => "git-tokens",
            Self::GitRegister => "git-register",
            Self::GitForget => "git-forget",
            Self::GitAuthorize => "git-authorize",
            Self::GitConnect => "git-connect",
            Self::GitOrganizations => "git-organizations",
            Self::GitRepositories => "git-repositories",
            Self::GitBranches => "git-branches",
            Self::GitCommit => "git-commit",
            Self::ClusterAdd => "cluster-add",
            Self::ClusterRemove => "cluster-remove",
            Self::RuntimeLogs => "runtime-logs",
        }
    }

    /// What a rule has to allow; `None` where no rule can: what is one's own, one may, and clusters are an Administrator's.
    pub fn action(self) -> Option<&'static str> {
        Some(match self {
            Self::Manifests
            | Self::Diff
            | Self::Plan
            | Self::Tree
            | Self::Events
            | Self::Resource
            | Self::Live
            | Self::Actions => "VIEW",
            // Automation is a standing order to sync.
            Self::Sync | Self::SyncPolicy => "SYNC",
            Self::Refresh => "REFRESH",
            Self::Rollback => "APP_ROLLBACK",
            Self::Terminate => "TERMINATE_SYNC",
            Self::Action => "RESOURCE_ACTION",
            Self::Logs => "VIEW_POD_LOGS",
            Self::DeleteResource => "DELETE_RESOURCE",
            Self::Exec => "EXEC_TO_POD",
            Self::Create => "CREATE",
            Self::Edit => "EDIT",
            Self::Delete => "DELETE",
            Self::RolloutPause => "ROLLOUT_PAUSE",
            Self::RolloutResume => "ROLLOUT_RESUME",
            Self::RolloutPromoteFull => "ROLLOUT_PROMOTE_FULL",
            Self::RolloutSkipCurrentStep => "ROLLOUT_SKIP_CURRENT_STEP",
            Self::RolloutAbort => "ROLLOUT_ABORT",
            Self::RolloutRetry => "ROLLOUT_RETRY",
            Self::RolloutRestart => "ROLLOUT_RESTART",
            Self::GitTokens
            | Self::GitRegister
            | Self::GitForget
            | Self::GitAuthorize
            | Self::GitConnect
            | Self::GitOrganizations
            | Self::GitRepositories
            | Self::GitBranches
            | Self::GitCommit
            | Self::ClusterAdd
            | Self::ClusterRemove
            | Self::RuntimeLogs => return None,
        })
    }

    pub fn about(self) -> About {
        match self {
            Self::ClusterAdd | Self::ClusterRemove => About::Cluster,
            Self::RuntimeLogs => About::Runtime,
            _ if self.action().is_some() => About::Application,
            _ => About::Git,
        }
    }

    /// Whether it changes anything: such an operation is asked for one by one, and recorded.
    pub fn verb(self) -> Verb {
        let Some(action) = self.action() else {
            return match self {
                Self::GitRegister
                | Self::GitForget
                | Self::GitAuthorize
                | Self::GitConnect
                | Self::GitCommit
                | Self::ClusterAdd
                | Self::ClusterRemove => Verb::Write,
                _ => Verb::Read,
            };
        };
        let scope = entity::action("gitopsApplications", action).and_then(|action| action.scope);
        scope.map_or(Verb::Write, |(_, verb)| verb)
    }

    /// Whether it says what the Application will be: then rules are asked about that too, and not only about what it is.
    pub fn declares(self) -> bool {
        matches!(self, Self::Create | Self::Edit)
    }

    /// Whether it is recorded: what changes something, and what pods or the runtime print, which may be anything.
    pub fn is_recorded(self) -> bool {
        self.verb() == Verb::Write || matches!(self, Self::Logs | Self::RuntimeLogs)
    }

    /// Whether it goes on after it was answered: whoever opened it is asked about again while it does, and one that is
    /// recorded by its beginning and its end is [`Self::Exec`].
    pub fn goes_on(self) -> bool {
        matches!(self, Self::Logs | Self::Live | Self::Exec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_reads_and_everything_else_writes() {
        use Operation::{Actions, Diff, GitBranches, GitOrganizations, GitRepositories, GitTokens, Logs};
        use Operation::{Events, Live, Manifests, Plan, Resource, RuntimeLogs, Tree};
        let mut words = std::collections::BTreeSet::new();
        for operation in Operation::ALL.iter().copied() {
            let looks = matches!(
                operation,
                Manifests
                    | Diff
                    | Plan
                    | Tree
                    | Events
                    | Resource
                    | Live
                    | Actions
                    | Logs
                    | GitTokens
                    | GitOrganizations
                    | GitRepositories
                    | GitBranches
                    | RuntimeLogs
            );
            assert_eq!(operation.verb() == Verb::Read, looks, "{operation:?}");
            let known = |action| entity::action("gitopsApplications", action).is_some();
            assert!(operation.action().is_none_or(known), "{operation:?}");
            assert!(words.insert(operation.word()), "{operation:?}");
        }
    }
}
