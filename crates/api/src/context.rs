//! Shared configuration and integrations, as the published CLI sends and reads them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    #[serde(default = "version")]
    pub api_version: String,
    #[serde(default = "kind")]
    pub kind: String,
    pub metadata: ContextMetadata,
    pub spec: ContextSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// In answers: that it has no effect, and why. Ignored when it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

fn version() -> String {
    "v1".into()
}
fn kind() -> String {
    "context".into()
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ContextMetadata {
    pub name: String,
    #[serde(default)]
    pub default: bool,
    #[serde(default)]
    pub system: bool,
    #[serde(default, skip_serializing_if = "ContextLabels::is_empty")]
    pub labels: ContextLabels,
    /// Nobody reads its secrets back, administrators neither: builds get them, nothing else.
    #[serde(default, rename = "forbidDecrypt", skip_serializing_if = "std::ops::Not::not")]
    pub forbid_decrypt: bool,
    #[serde(default)]
    pub revision: i64,
    #[serde(default)]
    pub created_at: String,
    #[serde(default)]
    pub updated_at: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ContextLabels {
    #[serde(default)]
    pub tags: Vec<String>,
}

impl ContextLabels {
    fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ContextSpec {
    #[serde(rename = "type")]
    pub kind: String,
    /// Secret parts are `*****` unless asked for with `decrypt=true` by somebody who may.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub data: Value,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub other: Map<String, Value>,
}
