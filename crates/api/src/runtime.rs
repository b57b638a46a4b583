//! What a GitOps runtime says to the control plane and hears from it. It dials; nobody dials it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
