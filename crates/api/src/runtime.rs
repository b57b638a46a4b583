//! What a GitOps runtime says to the control plane and hears from it. It dials; nobody dials it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::application::Application;

/// `GET /api/agent/runtime/events?after=SEQ&waitMs=N`, long-polled. `after` absent: only what is new from now.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct RuntimeEvents {
    pub events: Vec<RuntimeEvent>,
    /// Give it back as `after`.
    pub next: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeEvent {
    pub seq: i64,
    /// A branch moved: refresh what is built from it.
    pub clone_url: String,
    pub reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<String>,
    pub changed_paths: Vec<String>,
}

/// `POST /2.0/api/events`: the state of Applications as the runtime sees it. Sending one twice is sending it once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeReport {
    pub runtime: String,
    pub version: String,
    /// Where browsers and CLIs reach the runtime's app-proxy; empty: the same origin, under `/app-proxy`.
    #[serde(default)]
    pub ingress_url: String,
    /// What the runtime deploys to, in a sentence ("embedded cluster, pods by podman 4.3.1").
    #[serde(default)]
    pub cluster: String,
    pub applications: Vec<Application>,
    /// `true`: `applications` and `reported` are everything there is, drop the others. `false`: only what changed.
    pub complete: bool,
    /// Of a complete report in several bodies, in the last one: the Applications of the bodies before, as
    /// `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<String>,
    /// Applications that are gone, as `namespace/name`.
    #[serde(default)]
    pub removed: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    pub name: String,
    pub version: String,
    pub cluster: String,
    pub ingress_url: String,
    pub online: bool,
    pub last_seen: String,
    pub applications: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Runner {
    pub name: String,
    pub version: String,
    pub executor: String,
    pub online: bool,
    pub last_seen: String,
}
