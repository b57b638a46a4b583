//! What a GitOps runtime says to the control plane and hears from it. It dials; nobody dials it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::health::{Component, Connectivity};
use crate::managed_cluster::ManagedCluster;

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
    /// Where its app-proxy is reached. Without a host: on the platform's own address.
    #[serde(default)]
    pub url: String,
    /// Where an administrator says that it is reached; empty: through its tunnel.
    pub ingress_url: String,
    /// `tunnel` or `ingress`.
    #[serde(default)]
    pub access_mode: String,
    /// `never-connected`, `online`, `offline` or `revoked`.
    #[serde(default)]
    pub state: String,
    pub online: bool,
    /// Absent: it was never heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// When it was registered; absent for one that came with the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    pub applications: i64,
    /// Open tunnels of this runtime, at whichever processes of the platform.
    #[serde(default)]
    pub tunnels: usize,
    /// `healthy`, `degraded`, `unreachable` or `unknown`.
    #[serde(default)]
    pub health: String,
    /// Why it is not healthy, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_reasons: Vec<String>,
    /// Where its Applications and settings live.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// How it came there, as it says: `up`, `helm` or `process`; empty: it has not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub installed_by: String,
    /// Name and version of its chart.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// What its engines look after: `GitOps`, `Rollouts`, `Workflows`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// The clusters that it deploys to, its own first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ManagedCluster>,
}

/// `GET /api/runtimes/{name}`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeDetail {
    #[serde(flatten)]
    pub runtime: Runtime,
    /// Networks from which callers may use the tunnel; empty: all.
    pub allowed_addresses: Vec<String>,
    /// For Administrators: its open tunnels.
    pub sessions: Vec<TunnelSession>,
    /// The parts of its processes, as each last said.
    #[serde(default)]
    pub components: Vec<Component>,
    /// The ways between the platform and the runtime.
    #[serde(default)]
    pub connectivity: Vec<Connectivity>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelSession {
    /// Where it was dialled from.
    pub peer: String,
    /// The process of the platform that holds it.
    #[serde(default)]
    pub process: String,
    pub since: String,
    /// Requests that have no answer yet.
    pub in_flight: usize,
    pub served: u64,
    /// Bytes that the runtime sent, and that went to it.
    #[serde(default)]
    pub received_bytes: u64,
    #[serde(default)]
    pub sent_bytes: u64,
}

/// `POST /api/runtimes`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateRuntime {
    /// A label of a host name: at most 38 lowercase letters, digits and hyphens.
    pub name: String,
    /// Where callers reach it, if not through a tunnel: an address of its own with https.
    #[serde(default)]
    pub ingress_url: String,
}

/// Shown once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeToken {
    pub name: String,
    pub token: String,
    /// What to run where the cluster is; the token comes in `SLIPWAY_TOKEN`.
    pub command: String,
}

/// `PATCH /api/runtimes/{name}`: what is absent stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeRuntime {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Empty: through its tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_addresses: Option<Vec<String>>,
}

/// `GET /api/agent/runtime/self`: who the key says that a runtime is, and how it is to be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeIdentity {
    pub name: String,
    /// The only origin whose pages may ask its app-proxy.
    pub platform_url: String,
    /// Where it is reached without a tunnel, as an administrator says; empty: it opens one.
    pub ingress_url: String,
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
