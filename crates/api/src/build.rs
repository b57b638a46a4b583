//! Builds: what pages, the CLI and the published CLI read.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    pub id: String,
    /// pending, elected, running, pending-approval, success, error, terminating, terminated, delayed.
    pub status: String,
    pub created: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    pub pipeline_name: String,
    /// Within its pipeline, from 1: `demo-app #17`. Routes that take a build's id take `PIPELINE#17` too.
    #[serde(default)]
    pub number: i64,
    /// The end of the id, as pages show it. Routes that take a build's id take this too.
    #[serde(default)]
    pub short_id: String,
    /// Id of the pipeline.
    pub service_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_trigger_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_trigger_id: Option<String>,
    pub webhook_triggered: bool,
    /// Who or what started it; absent for builds of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<Initiator>,
    /// What it was started with, in the order in which later ones win; known when one build is asked for. Values of
    /// encrypted ones are masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<BuildVariable>,
    /// How it ended, where `status` has no word for it: `denied`, when somebody refused an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The id under which logs are followed; the same as the build's.
    pub progress: String,
    /// What the build is doing or why it ended, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `podman`, `docker`, `kubernetes` or `host`; known once a runner has taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    #[serde(default)]
    pub steps: Vec<BuildStep>,
    /// Answers that were given to steps that asked for approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub annotations: std::collections::BTreeMap<String, serde_json::Value>,
    /// What it has made or pushed; known when one build is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<crate::agent::BuiltImage>,
    #[serde(default)]
    pub priority: i64,
    /// The build that it goes on from, or is another run of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_of: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<crate::agent::PullRequest>,
    /// What this person may do with it now.
    #[serde(default)]
    pub can: BuildCan,
}

/// Who or what started a build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initiator {
    /// `user`, `service-account`, `git`, `schedule`, `registry`, `pipeline`, or `build` for a step that starts another
    /// pipeline.
    pub kind: String,
    /// Of the person, the trigger, the schedule, or the pipeline that ended before.
    pub name: String,
    /// Who pushed or commented, where a provider says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildVariable {
    pub key: String,
    pub value: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    /// Where it comes from: `project`, `pipeline`, `trigger` or `build-run`.
    pub from: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildCan {
    pub terminate: bool,
    pub restart: bool,
    pub restart_from_failed: bool,
    pub approve: bool,
    /// Let a paused step go on, open a shell in it, set breakpoints.
    #[serde(default)]
    pub debug: bool,
}

/// Who answered, which way, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub step: String,
    pub approved: bool,
    pub by: String,
    pub by_kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub at: String,
}

/// `POST /api/builds/{id}/approvals`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApprovalAnswer {
    /// `approve` or `deny`.
    pub answer: String,
    /// Which step; may be left out when one waits.
    pub step: Option<String>,
    pub reason: Option<String>,
}

/// `POST /api/builds/{id}/restart`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRequest {
    /// Go on from the first step that did not succeed.
    pub from_failed: bool,
    /// Go on from this step.
    pub from_step: Option<String>,
    /// Stop at breakpoints this time.
    pub debug: bool,
    /// More of them than the steps set themselves.
    pub breakpoints: crate::debug::Breakpoints,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BuildStep {
    pub name: String,
    pub title: String,
    /// freestyle, git-clone, build, …
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    pub status: String,
    #[serde(default)]
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it was skipped, what it waits for, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Bytes of log that the server holds.
    #[serde(default)]
    pub log_bytes: u64,
    /// Taken over from the build that this one goes on from; it did not run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub previously_executed: bool,
    /// Names of the steps that it waits for, for the graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Counts of a JUnit report that the step left behind; the report itself stays with the runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// It stands at a breakpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<crate::debug::Paused>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TestCounts {
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
    /// Names of cases that failed, the first of them; what they printed stays with the runner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_cases: Vec<String>,
    /// The first of those that passed, and of those that were skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_cases: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_cases: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BuildPage {
    pub workflows: BuildDocs,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BuildDocs {
    pub docs: Vec<Build>,
    pub total: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    #[serde(rename = "_id")]
    pub id: String,
    pub account: String,
    pub status: String,
    pub location: ProgressLocation,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ProgressLocation {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// One piece of a step's log. Server-sent events carry it with the event id `seq`, so that a client resumes after it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LogChunk {
    /// Grows over the whole build: the order in which the pieces arrived.
    pub seq: i64,
    pub step: String,
    /// Byte offset of `text` in the step's log.
    pub offset: u64,
    pub text: String,
}
