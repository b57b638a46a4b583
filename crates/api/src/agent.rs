//! What a runner says to the control plane. It dials; nobody dials it.
//!
//! One long-polled call, `sync`, renews the leases of what runs, takes new work and hears of
//! terminations. Reports and logs are idempotent: a state with a growing revision, and bytes at an
//! offset. Every call about a build carries the epoch under which the build was taken; a call with
//! an old epoch is refused with 409 (`FENCED`), and the runner then drops the build.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::build::BuildStep;
use crate::pipeline::{RunOptions, Variable};

/// `POST /api/runners`, by an administrator
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreateRunner {
    /// The runtime environment that the runner serves.
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunnerToken {
    pub name: String,
    /// Shown once; good for one registration.
    pub token: String,
    pub expires: String,
}

/// `POST /api/agent/runner/register`: safe to repeat.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisterRunner {
    pub token: String,
    /// SHA-256, in hex, of a secret that the runner has made and keeps.
    pub secret_digest: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredRunner {
    pub name: String,
    /// The runner's key is `<keyId>.<its secret>`.
    pub key_id: String,
}

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
    /// It makes calls inside of its network for integrations that are behind a firewall.
    #[serde(default)]
    pub errands: bool,
}

/// A call that a runner makes inside of its own network: the platform does not dial this integration (`behindFirewall`).
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Errand {
    pub id: String,
    pub method: String,
    pub url: String,
    /// By name; who asks is among them.
    pub headers: std::collections::BTreeMap<String, String>,
    /// JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<serde_json::Value>,
}

impl std::fmt::Debug for Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Errand").field("id", &self.id).field("method", &self.method).finish_non_exhaustive()
    }
}

/// `POST /api/agent/runner/errands/{id}`: how an errand ended, by the runner that was given it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrandAnswer {
    /// Of HTTP; 0: there was no answer, and `problem` says why.
    pub status: u16,
    /// Base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// What comes after this page of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// How to prove who one is, of an answer that asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningBuild {
    pub id: String,
    pub epoch: i64,
    /// The runner has heard of the termination; the server need not wake it for it again.
    #[serde(default)]
    pub terminating: bool,
    /// Steps whose approval or denial the runner has written down; the server need not wake it for them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decided: Vec<String>,
    /// Orders of people who debug the build that the runner has heard; the server need not wake it for them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub debug_heard: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerSyncAnswer {
    pub taken: Vec<TakenBuild>,
    /// Stop these, then report their end.
    pub terminate: Vec<String>,
    /// These are no longer yours (another runner has them, or they have ended): stop and forget them.
    pub lost: Vec<String>,
    /// What people answered to steps that wait for approval. Each comes again with every answer until the runner
    /// lists its step in `decided`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<ApprovalDecision>,
    /// What people who debug a build ask for. Each comes again until the runner lists it in `debugHeard`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub debug: Vec<crate::debug::DebugOrder>,
    /// Calls to make inside of its network; each is given to one runner, once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errands: Vec<Errand>,
    /// A runner that is not heard for so long counts as away.
    pub lease_ms: u64,
    /// After so much silence a runner stops its steps by itself: soon after, its builds may go to others. Absent: never.
    #[serde(default)]
    pub fence_ms: u64,
}

/// Somebody's answer to a step of type `pending-approval`: who, which way, why. Kept by the server, in its audit too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecision {
    pub build: String,
    /// The step's name.
    pub step: String,
    /// `false` is a denial.
    pub approved: bool,
    /// Becomes `${{steps.STEP.authEntity.name}}`.
    pub by: String,
    /// `user` or `service-account`: becomes `${{steps.STEP.authEntity.type}}`.
    pub by_kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub at_ms: i64,
}

/// A build that goes on from where another one failed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartFrom {
    /// The build that is gone on from; its runner may still have its workspace.
    pub build: String,
    /// Every step before this one that succeeded is taken over as it was. Absent: from the first that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The steps of that build as they were reported at its end.
    pub steps: Vec<BuildStep>,
}

/// What each step of a build may use that says nothing itself, as Kubernetes writes it (`500m`, `2Gi`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Machine {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

impl Machine {
    /// From a `runtimeEnvironment` or a run's `userMachineConfig`, whatever else is in it.
    pub fn read(value: Option<&serde_json::Value>) -> Self {
        let text = |key: &str| match value?.get(key)? {
            serde_json::Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            serde_json::Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Self { cpu: text("cpu"), memory: text("memory") }
    }

    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { cpu: self.cpu.or(other.cpu), memory: self.memory.or(other.memory) }
    }
}

/// A Git integration that steps may name in `git:`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitIntegration {
    /// Name of the context.
    pub name: String,
    /// `github`, `gitlab`, `bitbucket`, `bitbucket-server`, `gitea`.
    pub provider: String,
    pub access: GitAccess,
}

/// A registry of images that steps may name in `registry`, with what opens it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryAccess {
    pub name: String,
    /// `host[:port]`.
    pub domain: String,
    /// Comes between the host and an image's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub username: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub password: String,
    #[serde(default)]
    pub default: bool,
    /// Of several with one host, the one that images are fetched with.
    #[serde(default)]
    pub primary: bool,
    /// Why it cannot be used, for the step that names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
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
    /// Who started it, as people know them; absent when the server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<String>,
    /// Where the repository of the trigger is: the built-in Git host with a credential that lives as long as the
    /// build, or the Git provider of the trigger's context.
    pub git: GitAccess,
    /// Other Git providers of the account, by the names that steps use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub integrations: Vec<GitIntegration>,
    /// Registries of the account, none for the pull request of a fork.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<RegistryAccess>,
    #[serde(default)]
    pub options: RunOptions,
    #[serde(default)]
    pub machine: Machine,
    /// Answers that were given before this runner took the build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<ApprovalDecision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartFrom>,
    /// The pull request of a fork: no secrets came with it, and it writes no cache that others read.
    #[serde(default)]
    pub from_fork: bool,
    /// It runs a text that came with the run, not the pipeline's own: nothing is kept of it, and it finds nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_text: bool,
}

/// `POST /api/agent/runner/builds/{id}/step-types`: what only the runner knows, because it alone reads the pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepTypesWanted {
    pub epoch: i64,
    /// As steps write them: `name`, `name:version`; with a variable in it, all that begin like it.
    pub names: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "location", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PipelineSource {
    /// The pipeline's own text.
    Inline { yaml: String },
    /// A file in a repository, read by the runner.
    Git { repo: String, path: String, revision: Option<String> },
    /// A public address, read by the runner.
    Url { url: String },
}

impl Default for PipelineSource {
    fn default() -> Self {
        Self::Inline { yaml: String::new() }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct VariableLayer {
    pub name: String,
    pub variables: Vec<Variable>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggerCommit {
    /// `owner/name`.
    pub repo: String,
    pub branch: String,
    pub sha: String,
    pub author: String,
    pub message: String,
    pub trigger_name: String,
    /// `push.heads`, `pullrequest.opened`, …; empty for a run by hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// `builtin`, `github`, `gitlab`, `bitbucket`, `bitbucket-server`, `gitea`; empty is built in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// Where a person looks at the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequest>,
}

/// For the variables `CF_PULL_REQUEST_*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequest {
    pub number: i64,
    pub title: String,
    /// `opened`, `closed`, `synchronize`, …
    pub action: String,
    pub target: String,
    /// `owner/name` of where the changes come from; another repository than the trigger's is a fork.
    pub head_repo: String,
    pub is_fork: bool,
    pub merged: bool,
    pub url: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitAccess {
    /// `https://host/git/`; a repository is `<base><owner/name>.git`.
    pub base_url: String,
    pub username: String,
    pub password: String,
}

/// `PUT /api/agent/runner/builds/{id}/state`: the whole state, so that sending it twice is sending it once.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
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
    /// Everything that the build has annotated so far, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<AnnotationChange>,
    /// Images that the build has made or pushed so far. The images themselves stay where they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<BuiltImage>,
}

/// An annotation that a step sets or takes away.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnnotationChange {
    /// `build`, `pipeline`, `project` or `image`.
    pub entity_type: String,
    /// The build's id, the pipeline's or project's name, the image's id.
    pub entity_id: String,
    pub key: String,
    /// Absent: the annotation goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub value: Option<serde_json::Value>,
    /// An older change never hides what somebody set later.
    pub at_ms: i64,
}

/// An image that a step has made or pushed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BuiltImage {
    pub step: String,
    /// `sha256:…` where the executor knows it, else the name.
    pub id: String,
    pub name: String,
    pub tag: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub at_ms: i64,
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
