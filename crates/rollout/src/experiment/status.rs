//! `status` of an Experiment. The words are those that `kubectl argo rollouts` reads.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_at: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub template_statuses: Vec<TemplateStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub analysis_runs: Vec<RunStatus>,
    /// Fields that are not ours.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateStatus {
    pub name: String,
    pub replicas: i64,
    pub updated_replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_template_hash: String,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunStatus {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub analysis_run: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Status {
    pub fn of(value: &Value) -> Self {
        serde_json::from_value(value.clone()).unwrap_or_default()
    }

    pub(super) fn template(&self, name: &str) -> Option<&TemplateStatus> {
        self.template_statuses.iter().find(|one| one.name == name)
    }

    pub(super) fn run(&self, name: &str) -> Option<&RunStatus> {
        self.analysis_runs.iter().find(|one| one.name == name)
    }
}
