//! What is asked of a runtime's app-proxy about the live objects of an Application: logs, deletion, commands in pods.
//!
//! Each body is what the pass was given for ([`crate::application::Pass`]): it is recorded, and no other is accepted.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /app-proxy/api/applications/{namespace}/{name}/logs`: answered with server-sent events, a [`PodLog`] each, and at last
/// an event `end`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LogsRequest {
    /// Of the resource whose pods are meant: a Deployment, a Job, a Pod. Without a name: all pods of the Application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_name: String,
    /// Without one: the default container of each pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container: String,
    pub follow: bool,
    /// The run before the last restart.
    pub previous: bool,
    /// Only this many of the last lines of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// Only what was printed in the last so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_seconds: Option<u64>,
    /// Each line behind the time at which it was printed.
    pub timestamps: bool,
}

/// Whole lines of one container, with their ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PodLog {
    pub pod: String,
    pub container: String,
    pub text: String,
}

/// The same in an event `failed`: why the rest of a container's log does not come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PodLogFailed {
    /// Empty: of all of them.
    #[serde(default)]
    pub pod: String,
    pub message: String,
}

/// What a subscription to logs says: text of a container, or why the rest of its log does not come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PodLogEntry {
    pub pod: String,
    #[serde(default)]
    pub container: String,
    #[serde(default)]
    pub text: String,
    /// Why no more comes of this pod; of all of them, where no pod is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// `POST /app-proxy/api/runtime/runtime-logs`: what the runtime's own process says of its work. Of several processes the one that is reached
/// answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RuntimeLogsRequest {
    /// Of this one alone: `applications`, `app-proxy`, `reports`, `tunnel`, …
    #[serde(skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// So many of the last lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
}

/// What is kept of it: the last of it, up to a size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeLogs {
    /// Which of the runtime's processes.
    pub process: String,
    /// Those that have said something, whichever was asked for.
    pub components: Vec<String>,
    /// Earlier lines that are not kept any more.
    pub dropped: u64,
    /// The oldest first.
    pub lines: Vec<RuntimeLogLine>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuntimeLogLine {
    /// RFC 3339.
    pub at: String,
    /// `ERROR`, `WARN`, `INFO`.
    pub level: String,
    pub component: String,
    pub message: String,
}

/// What becomes of what a deleted object owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeletePropagation {
    /// It is deleted first.
    #[default]
    Foreground,
    /// It is deleted afterwards.
    Background,
    /// It stays.
    Orphan,
}

/// `POST /app-proxy/api/applications/{namespace}/{name}/delete-resource`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteResourceRequest {
    #[serde(default)]
    pub group: String,
    pub kind: String,
    #[serde(default)]
    pub namespace: String,
    pub resource_name: String,
    #[serde(default)]
    pub propagation: DeletePropagation,
    /// Without waiting for what it would do before it ends.
    #[serde(default)]
    pub force: bool,
}

/// `POST /app-proxy/api/applications/{namespace}/{name}/rollout-pause`, and the other orders to a Rollout: `rollout-resume`,
/// `rollout-promote-full`, `rollout-skip-current-step`, `rollout-abort`, `rollout-retry`, `rollout-restart`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutRequest {
    pub namespace: String,
    /// The Rollout's.
    pub resource_name: String,
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/exec?request=…`, where it is JSON: becomes a WebSocket. Messages are binary;
/// their first byte is the channel ([`channel`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecRequest {
    pub namespace: String,
    pub pod: String,
    /// Without one: the default container of the pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    pub command: Vec<String>,
    #[serde(default)]
    pub tty: bool,
    #[serde(default)]
    pub stdin: bool,
}

/// What a page names when it opens the WebSocket of a command, with its pass as the second protocol: it can set no header there.
pub const EXEC_PROTOCOL: &str = "slipway.exec";

/// The first byte of a message, as Kubernetes numbers them.
pub mod channel {
    pub const STDIN: u8 = 0;
    pub const STDOUT: u8 = 1;
    pub const STDERR: u8 = 2;
    /// The last message of a command: [`super::ExecEnded`].
    pub const STATUS: u8 = 3;
    /// [`super::ExecSize`]; only with a terminal.
    pub const SIZE: u8 = 4;
    /// No more comes on the channel in the second byte.
    pub const CLOSE: u8 = 255;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecEnded {
    /// Absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecSize {
    pub columns: u16,
    pub rows: u16,
}
