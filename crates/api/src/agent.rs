//! What a runner says to the control plane. It dials; nobody dials it.
//!
//! One long-polled call, `sync`, renews the leases of what runs, takes new work and hears of
//! terminations. Reports and logs are idempotent: a state with a growing revision, and bytes at an
//! offset. Every call about a build carries the epoch under which the build was taken; a call with
//! an old epoch is refused with 409 (`FENCED`), and the runner then drops the build.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::build::BuildStep;
use crate::pipeline::Variable;

/// `POST /api/agent/runner/sync`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerSync {
    pub runner: String,
    pub version: String,
    /// `podman`, `docker`, `kubernetes` or `host`.
    pub executor: String,
    /// How many more builds it can take now.
    pub free: u32,
    pub running: Vec<RunningBuild>,
    /// How long the server may hold the call when there is nothing to say.
    pub wait_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunningBuild {
    pub id: String,
    pub epoch: i64,
    /// The runner has heard of the termination; the server need not wake it for it again.
    #[serde(default)]
    pub terminating: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerSyncAnswer {
    pub taken: Vec<TakenBuild>,
    /// Stop these, then report their end.
    pub terminate: Vec<String>,
    /// These are no longer yours (another runner has them, or they have ended): stop and forget them.
    pub lost: Vec<String>,
    /// Leases run out this long after the answer unless `sync` is called again.
    pub lease_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenBuild {
    pub id: String,
    pub epoch: i64,
    pub pipeline_name: String,
    pub account_name: String,
    pub source: PipelineSource,
    /// Lowest precedence first: project, shared configuration, pipeline, trigger, build-run.
    pub variables: Vec<VariableLayer>,
    /// The commit that triggered it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<TriggerCommit>,
    pub created_ms: i64,
    /// Where the built-in Git host is, and a credential that lives as long as the build.
    pub git: GitAccess,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "location", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PipelineSource {
    /// The pipeline's own text.
    Inline { yaml: String },
    /// A file in a repository, read by the runner.
    Git { repo: String, path: String, revision: Option<String> },
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct VariableLayer {
    pub name: String,
    pub variables: Vec<Variable>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggerCommit {
    /// `owner/name`.
    pub repo: String,
    pub branch: String,
    pub sha: String,
    pub author: String,
    pub message: String,
    pub trigger_name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitAccess {
    /// `https://host/git/`; a repository is `<base><owner/name>.git`.
    pub base_url: String,
    pub username: String,
    pub password: String,
}

/// `PUT /api/agent/runner/builds/{id}/state`: the whole state, so that sending it twice is sending it once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildReport {
    pub epoch: i64,
    /// Grows with every change; an older one is answered 200 and ignored.
    pub revision: i64,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<i64>,
    pub steps: Vec<BuildStep>,
}

/// `POST /api/agent/runner/builds/{id}/logs`: bytes of each step at an offset, already masked.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogAppend {
    pub epoch: i64,
    pub pieces: Vec<LogPiece>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogPiece {
    pub step: String,
    pub offset: u64,
    pub text: String,
}

/// How much of each step's log the server holds now; the runner goes on from there.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct LogAppendAnswer {
    pub held: std::collections::BTreeMap<String, u64>,
}
