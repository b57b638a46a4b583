//! Things that happened. Facts are appended, never edited; everything downstream is derived from them.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, BuildId, PipelineId};

/// One commit at the tip of a push, as its author wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushedCommit {
    pub sha: String,
    pub author: String,
    pub message: String,
}

/// What happened to a repository, whoever hosts it, in the words that triggers use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RepoEvent {
    /// `builtin`, `github`, `gitlab`, `bitbucket`, `bitbucket-server`, `gitea`.
    pub provider: String,
    /// Name of the Git context; empty for the built-in host.
    pub context: String,
    /// `owner/name`.
    pub repo: String,
    /// Every name a trigger may know it by, the most general first: `push`, `push.heads`.
    pub events: Vec<String>,
    /// The branch or tag; of a pull request the one the changes come from.
    pub branch: String,
    pub sha: String,
    pub author: String,
    pub message: String,
    pub url: Option<String>,
    /// Whoever did it, as the provider names them.
    pub sender: String,
    /// `None` when the provider did not say.
    pub changed_paths: Option<Vec<String>>,
    pub pull_request: Option<PullRequestEvent>,
    pub comment: Option<Comment>,
    pub release: Option<String>,
    /// The same cause gives the same builds.
    pub cause: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullRequestEvent {
    pub number: i64,
    pub title: String,
    pub action: String,
    pub target: String,
    pub head_repo: String,
    /// Known by the provider's ids of both repositories, never by their names.
    pub is_fork: bool,
    pub merged: bool,
    pub url: String,
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Comment {
    pub text: String,
    pub author: String,
    /// The provider says that the author belongs to the repository.
    pub trusted: bool,
}

/// An Application, what it was about, and when: the time is the runtime's, from the custom resource itself, and may lie before
/// the moment in which the control plane heard of it, when one of them was away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationEvent {
    pub runtime: String,
    pub namespace: String,
    pub name: String,
    /// Another object of the same name is another Application.
    pub uid: String,
    /// One for each source.
    pub revisions: Vec<String>,
    /// What was applied, where it is known.
    pub images: Vec<String>,
    pub initiated_by: String,
    /// Why it was synced, in the word of the report (`commit`, `drift`, `rollback`, …); empty where nobody can tell.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    pub at_ms: i64,
    pub heard_at_ms: i64,
}

/// An image that was pushed to a registry, as the registry announced it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageEvent {
    /// The address of the event that pipelines are connected to.
    pub event: String,
    pub namespace: String,
    pub name: String,
    pub tag: String,
    pub pusher: String,
    /// RFC 3339.
    pub pushed_at: String,
    /// The announcement, as it came.
    pub payload: String,
    /// The same announcement has the same.
    pub delivery: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fact {
    /// A branch or tag of a repository now points elsewhere. `after` is `None` when it was deleted.
    Pushed {
        account: AccountId,
        repo: String,
        clone_url: String,
        reference: String,
        before: Option<String>,
        after: Option<PushedCommit>,
        pusher: String,
        changed_paths: Vec<String>,
    },
    /// Something happened to a repository of another Git host.
    Repository {
        account: AccountId,
        event: Box<RepoEvent>,
    },
    /// A schedule of a pipeline was due.
    Scheduled {
        account: AccountId,
        pipeline: PipelineId,
        /// Its name; of a schedule that is an event, the event's address.
        schedule: String,
        due_ms: i64,
    },
    /// A registry announced an image.
    ImagePushed {
        account: AccountId,
        image: Box<ImageEvent>,
    },
    BuildCreated {
        account: AccountId,
        build: BuildId,
        pipeline: PipelineId,
    },
    BuildFinished {
        account: AccountId,
        build: BuildId,
        status: crate::BuildStatus,
    },
    /// A step waits for somebody's answer.
    ApprovalAsked {
        account: AccountId,
        build: BuildId,
    },
    /// A sync of an Application began.
    SyncStarted {
        account: AccountId,
        event: Box<ApplicationEvent>,
    },
    /// A sync ended: `Succeeded`, `Failed` or `Error`, in the runtime's word.
    SyncFinished {
        account: AccountId,
        event: Box<ApplicationEvent>,
        phase: String,
        started_at_ms: i64,
    },
    /// A revision was deployed as a whole: the Application's history has an entry of this number.
    Deployed {
        account: AccountId,
        event: Box<ApplicationEvent>,
        id: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at_ms: Option<i64>,
    },
    HealthChanged {
        account: AccountId,
        event: Box<ApplicationEvent>,
        before: String,
        health: String,
    },
}

/// Tells pages that something they may show has changed; they ask again for the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Whose it is: nobody else hears of it. Absent for rights of people, which may be in several accounts; and where
    /// a process of an older version did not say, so that nobody hears of that either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountId>,
    pub kind: ChangeKind,
    pub id: String,
}

impl Change {
    pub fn is_of(&self, account: AccountId) -> bool {
        self.account == Some(account)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    Build,
    /// More of a build's log is there. Followers of that log hear it; pages do not.
    Log,
    Pipeline,
    Application,
    Runtime,
    Repository,
    /// Somebody's rights changed: open streams ask again whether they may stay open.
    Access,
}
