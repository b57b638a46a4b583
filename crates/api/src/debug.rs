//! Builds that stop at breakpoints, and shells in their steps.
//!
//! A paused step says so in its build (`BuildStep::paused`). A person asks for a shell, for the step to go on, or for
//! more breakpoints; the runner hears it with its next `sync`. Bytes of a shell travel at offsets through the server,
//! which keeps the newest of them in memory for whoever is behind, and writes none of them down.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a step stops when its build is debugged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Phases {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub before: bool,
    /// Instead of its commands; freestyle steps only.
    #[serde(rename = "override", skip_serializing_if = "std::ops::Not::not")]
    pub instead: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub after: bool,
}

/// By the names of steps.
pub type Breakpoints = BTreeMap<String, Phases>;

/// A step that stands at a breakpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// `before`, `override` or `after`.
    pub phase: String,
    pub since: String,
    /// When it ends by itself, unless somebody lets it go on.
    pub until: String,
    /// Somebody has a shell open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
}

/// `POST /api/builds/{id}/debug`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DebugRequest {
    /// `continue`: the paused step goes on. `breakpoints`: the steps named in `breakpoints` stop there from now on.
    pub action: String,
    /// Which step goes on; may be left out when one is paused.
    pub step: Option<String>,
    pub breakpoints: Breakpoints,
}

/// `POST /api/builds/{id}/debug/shells`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenShell {
    /// May be left out when one step is paused.
    pub step: Option<String>,
    /// Of the terminal; 80 × 24 when left out.
    pub columns: Option<u16>,
    pub rows: Option<u16>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shell {
    pub id: String,
    pub step: String,
    pub phase: String,
}

/// Bytes of a shell, in base64 because a terminal's are not always text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShellBytes {
    /// Of the first byte, counted from the shell's start; larger than what was asked for when some are gone.
    pub offset: u64,
    pub bytes: String,
    /// Nothing comes after these; a sentence on why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
}

/// `POST /api/builds/{id}/debug/shells/{shell}/input`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ShellInput {
    /// In base64.
    pub bytes: String,
}

/// What a person asked of a build that is debugged, for its runner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DebugOrder {
    pub id: String,
    pub build: String,
    /// `shell`, `continue` or `breakpoints`.
    pub action: String,
    /// Empty for `breakpoints`.
    pub step: String,
    /// The phase that the person saw; an order for another one means nothing any more.
    pub phase: String,
    pub by: String,
    pub columns: u16,
    pub rows: u16,
    pub breakpoints: Breakpoints,
}

/// `POST /api/agent/runner/builds/{id}/shells/{shell}/output`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ShellOutput {
    pub epoch: i64,
    #[serde(flatten)]
    pub piece: ShellBytes,
}

/// `POST /api/agent/runner/builds/{id}/shells/{shell}/input`: held until there is some, or for `waitMs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShellInputWanted {
    pub epoch: i64,
    pub after: u64,
    pub wait_ms: u64,
}
