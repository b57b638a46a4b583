//! Argo Rollouts as pages show them: reported with the Application that they belong to, with no manifest in them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A Rollout of an Application: where it stands, why it is not moving, and what can be asked of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `Canary` or `BlueGreen`.
    pub strategy: String,
    /// Healthy, Progressing, Paused, Degraded.
    pub phase: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Why it is not moving, in a sentence; empty when it is where it should be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waiting: String,
    /// The step that is under way, from 0; all of them are done where it is their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RolloutStep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<RolloutWeights>,
    /// Newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<RolloutRevision>,
    /// Newest first; the last dozen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RolloutRun>,
    pub desired: i64,
    pub updated: i64,
    pub ready: i64,
    pub available: i64,
    /// Operations of the app-proxy, in the order of use.
    pub actions: Vec<RolloutAction>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RolloutStep {
    /// `setWeight: 20`, `pause`, `analysis`, …
    pub words: String,
    /// PENDING, ACTIVE, PASSED, FAILED, PAUSED_INDEFINITE, PAUSED_INCONCLUSIVE, TERMINATED.
    pub state: String,
}

/// The share of the wanted version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RolloutWeights {
    pub now: i64,
    pub wanted: i64,
    /// What they are a part of: 100, unless the Rollout says otherwise.
    pub most: i64,
    /// A router divides the requests; otherwise the pods that are available do.
    pub routed: bool,
    /// Whether the router has taken it; absent: it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RolloutRevision {
    pub revision: i64,
    /// Of its ReplicaSet.
    pub name: String,
    pub hash: String,
    /// `stable`, `canary`, `active`, `preview`.
    pub roles: Vec<String>,
    pub images: Vec<String>,
    pub desired: i64,
    pub ready: i64,
    pub available: i64,
    /// RFC 3339.
    pub created: String,
    /// When its pods leave, where that is decided; RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<String>,
}

/// An AnalysisRun with what it measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutRun {
    pub name: String,
    /// `Step`, `Background`, `PrePromotion`, `PostPromotion`.
    pub kind: String,
    /// Which step it is of, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    pub revision: String,
    /// Pending, Running, Successful, Failed, Error, Inconclusive; empty until it began.
    pub phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub started_at: String,
    pub completed_at: String,
    pub metrics: Vec<RolloutMetric>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutMetric {
    pub name: String,
    /// `prometheus`, `web`, `job`, …
    pub provider: String,
    pub phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub success_condition: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_condition: String,
    pub dry_run: bool,
    pub successful: i64,
    pub failed: i64,
    pub inconclusive: i64,
    pub error: i64,
    /// Oldest first; the last sixty.
    pub measurements: Vec<RolloutMeasurement>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RolloutMeasurement {
    /// RFC 3339.
    pub at: String,
    pub phase: String,
    /// As it was written down.
    pub value: String,
    /// The number in it, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutAction {
    /// Of the app-proxy: `rollout-pause`, …
    pub operation: String,
    /// Why there is nothing to do now; absent: it can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
}

/// A line of `GET /api/gitops/rollouts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSummary {
    pub namespace: String,
    pub name: String,
    pub strategy: String,
    pub phase: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waiting: String,
    /// Steps that are done, and how many there are.
    pub step: i64,
    pub steps: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<RolloutWeights>,
    pub desired: i64,
    pub available: i64,
    /// Of the version that is wanted.
    pub images: Vec<String>,
}

impl From<&Rollout> for RolloutSummary {
    fn from(rollout: &Rollout) -> Self {
        let steps = i64::try_from(rollout.steps.len()).unwrap_or(i64::MAX);
        Self {
            namespace: rollout.namespace.clone(),
            name: rollout.name.clone(),
            strategy: rollout.strategy.clone(),
            phase: rollout.phase.clone(),
            waiting: rollout.waiting.clone(),
            step: rollout.step.unwrap_or(0),
            steps,
            weights: rollout.weights.clone(),
            desired: rollout.desired,
            available: rollout.available,
            images: rollout.revisions.first().map(|newest| newest.images.clone()).unwrap_or_default(),
        }
    }
}

/// A Rollout and the Application that it belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedRollout {
    pub runtime: String,
    /// Of the Application.
    pub application_namespace: String,
    pub application: String,
    #[serde(flatten)]
    pub rollout: RolloutSummary,
}
