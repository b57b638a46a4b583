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
}

/// Tells pages that something they may show has changed; they ask again for the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub kind: ChangeKind,
    pub id: String,
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
