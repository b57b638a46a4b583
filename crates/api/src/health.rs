//! How a runtime fares: what its processes say of their parts, and what the platform makes of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Said by each process of a runtime with its reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeHealth {
    /// Where its Applications and settings live.
    pub namespace: String,
    pub components: Vec<ComponentHealth>,
    /// How it came there: `up` (in the process of `slipway up`), `helm` (by the chart) or `process`.
    pub installed_by: String,
    /// Name and version of the chart, where it was installed by one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub chart: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentHealth {
    /// `applications`, `application-sets`, `rollouts`, `app-proxy`, …
    pub name: String,
    /// `healthy`, `degraded`, or `off` where somebody switched it off.
    pub state: String,
    /// Why, where it is degraded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it last did something; RFC 3339.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_activity: String,
}

/// A part of one of a runtime's processes, as it was last heard of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    #[serde(flatten)]
    pub health: ComponentHealth,
    /// Which process; empty where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replica: String,
    /// When the process was last heard of; RFC 3339.
    pub heard: String,
}

/// One way between the platform and a runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connectivity {
    /// `callers → app-proxy`, `runtime → platform`, `reports`.
    pub name: String,
    /// `connected`, `unreachable` (for a minute), `silent` (no report for twenty minutes), `never`, or `not-known` where only its callers can tell.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity: Option<String>,
    /// What it means, and what to do.
    pub message: String,
}
