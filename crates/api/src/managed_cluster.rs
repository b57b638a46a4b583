//! Clusters that a runtime deploys to besides its own: added and removed through its app-proxy, listed by the platform from what
//! runtimes report. The platform never has the means to reach one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /app-proxy/api/clusters/cluster-add`: the runtime tries it, and keeps it in a Secret. Of the same address and name, it takes the
/// place of what was known.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterAdd {
    /// A label of a host name: at most 63 lowercase letters, digits and hyphens, a letter first.
    pub name: String,
    /// `https://10.0.0.1:6443`, as the runtime reaches it.
    pub server: String,
    /// Of an account of that cluster. The platform hears nothing of it.
    pub token: String,
    /// The certificates (PEM in base64) that the server's is checked by; empty: those that the runtime's machine trusts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ca_data: String,
    /// Do not look at the server's certificate.
    #[serde(default)]
    pub insecure: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAdded {
    pub name: String,
    pub server: String,
    /// `added` or `changed`.
    pub outcome: String,
    pub server_version: String,
}

/// `POST /app-proxy/api/clusters/cluster-remove`: the runtime forgets it; nothing changes in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterRemove {
    pub name: String,
    /// Also when Applications go there: they can be compared and synced no more.
    #[serde(default)]
    pub force: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRemoved {
    pub name: String,
    pub server: String,
    /// Applications that went there.
    pub applications: usize,
}

/// `GET /api/gitops/clusters`: one for each runtime that deploys to it. Those who are no Administrators see neither `server` nor
/// `message`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedCluster {
    pub runtime: String,
    pub name: String,
    pub server: String,
    /// `Successful`, `Failed` or `Unknown`: of a runtime that is not heard of nothing is known.
    pub state: String,
    pub message: String,
    /// Since when; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When the runtime last asked it, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempted_at: Option<String>,
    pub server_version: String,
    pub applications: usize,
    /// The one that the runtime is in: it cannot be removed.
    pub is_own: bool,
}
