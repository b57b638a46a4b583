//! Which field of GraphQL is which operation of the app-proxy: a new one has to stand here, or be said to have none.

use slipway_api::application::{
    ActionRequest, Application, ApplicationDiff, ApplicationEvents, ApplicationManifests, ApplicationPlan,
    DiffRequest, Done, EventsRequest, OperationOrdered, PlanRequest, ProxyOperation as Op, RefreshRequest,
    ResourceActions, ResourceManifest, ResourceRef, ResourceTree, RollbackRequest, SyncPolicyRequest,
    SyncRequest,
};
use slipway_api::declaration::{Declaration, Declared};
use slipway_api::git_proxy::{
    GitAccount, GitAccounts, GitAuthorization, GitAuthorize, GitBranches, GitCommit, GitCommitted,
    GitConnect, GitForget, GitNames, GitPlace, GitRegister, GitRepository,
};
use slipway_api::managed_cluster::{ClusterAdd, ClusterAdded, ClusterRemove, ClusterRemoved};
use slipway_api::proxy::{
    DeleteResourceRequest, LogsRequest, PodLogEntry, RolloutRequest, RuntimeLogs, RuntimeLogsRequest,
};
use utoipa::ToSchema;

use super::types::Types;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Query,
    Mutation,
    Subscription,
}

/// What is asked for with it, besides namespace and name.
#[derive(Clone, Copy)]
pub(super) enum Request {
    Nothing,
    /// May be left out.
    May(fn(&mut Types) -> String),
    Must(fn(&mut Types) -> String),
}

#[derive(Clone, Copy)]
pub(super) struct GraphqlField {
    pub(super) root: Root,
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    pub(super) request: Request,
    pub(super) answer: fn(&mut Types) -> String,
}

fn may<T: ToSchema>() -> Request {
    Request::May(Types::input::<T>)
}

fn must<T: ToSchema>() -> Request {
    Request::Must(Types::input::<T>)
}

fn field<A: ToSchema>(
    root: Root,
    name: &'static str,
    request: Request,
    says: &'static str,
) -> Option<GraphqlField> {
    Some(GraphqlField { root, name, says, request, answer: Types::output::<A> })
}

fn query<A: ToSchema>(name: &'static str, request: Request, says: &'static str) -> Option<GraphqlField> {
    field::<A>(Root::Query, name, request, says)
}

fn mutation<A: ToSchema>(name: &'static str, request: Request, says: &'static str) -> Option<GraphqlField> {
    field::<A>(Root::Mutation, name, request, says)
}

fn subscription<A: ToSchema>(
    name: &'static str,
    request: Request,
    says: &'static str,
) -> Option<GraphqlField> {
    field::<A>(Root::Subscription, name, request, says)
}

/// `None`: it is no field.
pub(super) fn field_of(operation: Op) -> Option<GraphqlField> {
    match operation {
        Op::Manifests => query::<ApplicationManifests>(
            "applicationManifests",
            Request::Nothing,
            "What Git says, rendered; secrets masked.",
        ),
        Op::Diff => query::<ApplicationDiff>(
            "applicationDiff",
            may::<DiffRequest>(),
            "What runs against what Git says; secrets masked.",
        ),
        Op::Plan => query::<ApplicationPlan>(
            "applicationPlan",
            may::<PlanRequest>(),
            "What a sync would do now, in order.",
        ),
        Op::Tree => query::<ResourceTree>("resourceTree", Request::Nothing, "Its live objects."),
        Op::Events => query::<ApplicationEvents>(
            "applicationEvents",
            may::<EventsRequest>(),
            "What was noted about it and its live objects.",
        ),
        Op::Resource => query::<ResourceManifest>(
            "resource",
            must::<ResourceRef>(),
            "One of its live objects as it is now; secrets masked.",
        ),
        Op::Actions => query::<ResourceActions>(
            "resourceActions",
            must::<ResourceRef>(),
            "What can be done to one of its live objects.",
        ),
        Op::Sync => mutation::<OperationOrdered>("sync", may::<SyncRequest>(), "Deploy what Git says."),
        Op::Refresh => {
            mutation::<Done>("refresh", may::<RefreshRequest>(), "Look at Git again; `hard`: render again.")
        }
        Op::Rollback => mutation::<OperationOrdered>(
            "rollback",
            must::<RollbackRequest>(),
            "Deploy again what was deployed before.",
        ),
        Op::Terminate => mutation::<Done>("terminateSync", Request::Nothing, "End the operation under way."),
        Op::SyncPolicy => mutation::<Done>(
            "setSyncPolicy",
            must::<SyncPolicyRequest>(),
            "Whether it syncs by itself when Git changes.",
        ),
        Op::Action => mutation::<Done>(
            "runResourceAction",
            must::<ActionRequest>(),
            "Do something to one of its live objects.",
        ),
        Op::DeleteResource => mutation::<Done>(
            "deleteResource",
            must::<DeleteResourceRequest>(),
            "Delete one of its live objects.",
        ),
        Op::Create => mutation::<Declared>(
            "createApplication",
            must::<Declaration>(),
            "Declare it in Git, by a commit of your own.",
        ),
        Op::Edit => mutation::<Declared>(
            "editApplication",
            must::<Declaration>(),
            "Change what Git says of it, by a commit of your own.",
        ),
        Op::Delete => mutation::<Declared>(
            "deleteApplication",
            must::<Declaration>(),
            "Take it out of Git, by a commit of your own.",
        ),
        Op::RolloutPause => {
            mutation::<Done>("pauseRollout", must::<RolloutRequest>(), "Hold a Rollout where it is.")
        }
        Op::RolloutResume => {
            mutation::<Done>("resumeRollout", must::<RolloutRequest>(), "Let a Rollout go on.")
        }
        Op::RolloutPromoteFull => {
            mutation::<Done>("promoteRolloutFull", must::<RolloutRequest>(), "Leave out all further steps.")
        }
        Op::RolloutSkipCurrentStep => {
            mutation::<Done>("skipRolloutCurrentStep", must::<RolloutRequest>(), "Go on to the next step.")
        }
        Op::RolloutAbort => {
            mutation::<Done>("abortRollout", must::<RolloutRequest>(), "Go back to the stable version.")
        }
        Op::RolloutRetry => {
            mutation::<Done>("retryRollout", must::<RolloutRequest>(), "Try an aborted Rollout again.")
        }
        Op::RolloutRestart => {
            mutation::<Done>("restartRollout", must::<RolloutRequest>(), "Restart the pods of a Rollout.")
        }
        Op::GitTokens => query::<GitAccounts>(
            "gitTokens",
            Request::Nothing,
            "Which Git tokens you gave this runtime; never the tokens.",
        ),
        Op::GitRegister => mutation::<GitAccount>(
            "registerToGitIntegration",
            must::<GitRegister>(),
            "Give this runtime your personal token for a Git provider.",
        ),
        Op::GitForget => mutation::<Done>(
            "deregisterFromGitIntegration",
            must::<GitForget>(),
            "Delete your token from this runtime.",
        ),
        Op::GitAuthorize => mutation::<GitAuthorization>(
            "authorizeGit",
            must::<GitAuthorize>(),
            "Begin to sign in to a Git provider.",
        ),
        Op::GitConnect => mutation::<GitAccount>(
            "connectGit",
            must::<GitConnect>(),
            "End it, with what the provider sent your browser back with.",
        ),
        Op::GitOrganizations => {
            query::<GitNames>("gitOrganizations", must::<GitPlace>(), "Those that your token sees.")
        }
        Op::GitRepositories => {
            query::<GitNames>("gitRepositories", must::<GitPlace>(), "Those that your token sees.")
        }
        Op::GitBranches => {
            query::<GitBranches>("gitBranches", must::<GitRepository>(), "Of a repository, by your token.")
        }
        Op::GitCommit => {
            mutation::<GitCommitted>("commitFiles", must::<GitCommit>(), "Commit files as yourself.")
        }
        Op::ClusterAdd => mutation::<ClusterAdded>(
            "addCluster",
            must::<ClusterAdd>(),
            "Describe a cluster to this runtime, which tries it and deploys to it from then on.",
        ),
        Op::ClusterRemove => {
            mutation::<ClusterRemoved>("removeCluster", must::<ClusterRemove>(), "Let go of a cluster.")
        }
        Op::RuntimeLogs => query::<RuntimeLogs>(
            "runtimeLogs",
            may::<RuntimeLogsRequest>(),
            "What this runtime's own process says of its work.",
        ),
        Op::Logs => subscription::<PodLogEntry>("logs", may::<LogsRequest>(), "What its pods print."),
        Op::Live => subscription::<Application>(
            "liveState",
            Request::Nothing,
            "How it fares: at once, and whenever that changes.",
        ),
        // A command in a pod is a connection of bytes, both ways.
        Op::Exec => None,
    }
}
