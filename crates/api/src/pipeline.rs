//! Pipelines as the published CLI and the Terraform provider send and read them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Pipeline {
    #[serde(default = "version")]
    pub version: String,
    #[serde(default = "kind")]
    pub kind: String,
    pub metadata: PipelineMetadata,
    pub spec: PipelineSpec,
}

fn version() -> String {
    "1.0".into()
}
fn kind() -> String {
    "pipeline".into()
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct PipelineMetadata {
    #[serde(default)]
    pub id: String,
    /// `project/pipeline`.
    pub name: String,
    #[serde(default)]
    pub project: String,
    #[serde(default)]
    pub revision: i64,
    #[serde(default)]
    pub created_at: String,
    #[serde(default)]
    pub updated_at: String,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub other: Map<String, Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineSpec {
    #[serde(default)]
    pub triggers: Vec<GitTrigger>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
    /// Where the steps are when they are not inline: the runner reads them, the control plane never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_template: Option<SpecTemplate>,
    /// Kept as the text that came in: the order of steps is the order they run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub steps: Option<Box<RawValue>>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub other: Map<String, Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct Variable {
    pub key: String,
    pub value: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SpecTemplate {
    /// `git` or `url`.
    pub location: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitTrigger {
    pub name: String,
    #[serde(rename = "type", default = "git")]
    pub kind: String,
    /// `owner/name`.
    pub repo: String,
    #[serde(default)]
    pub events: Vec<String>,
    /// `/regex/flags`; absent means every branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_regex: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub other: Map<String, Value>,
}

fn git() -> String {
    "git".into()
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PipelineList {
    pub docs: Vec<Pipeline>,
    pub count: i64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct RunRequest {
    #[serde(default)]
    pub branch: Option<String>,
    #[serde(default)]
    pub sha: Option<String>,
    #[serde(default)]
    pub trigger: Option<String>,
    #[serde(default, deserialize_with = "variables")]
    pub variables: Vec<Variable>,
}

/// How one run differs from others. On a pipeline and on a trigger they are what a run starts with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunOptions {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_cache: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_cf_cache: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reset_volume: bool,
    /// Also a run by hand tells Git and people how it went.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enable_notifications: bool,
    /// Run these steps only; none is all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// Stop at the breakpoints that steps set.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub debug: bool,
}

/// The published CLI sends either a list of variables or one object of names and values.
fn variables<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Variable>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        List(Vec<Variable>),
        Map(std::collections::BTreeMap<String, Value>),
        None(()),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::List(list) => list,
        Either::Map(map) => map
            .into_iter()
            .map(|(key, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                Variable { key, value, encrypted: false }
            })
            .collect(),
        Either::None(()) => Vec::new(),
    })
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidateRequest {
    pub yaml: String,
    #[serde(default)]
    pub output_format: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidateResponse {
    pub valid: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summarize: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation_links: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<ValidateDetail>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ValidateDetail {
    pub message: String,
    #[serde(default)]
    pub line: u32,
    #[serde(default)]
    pub column: u32,
    /// `error` or `warning`.
    #[serde(default)]
    pub level: String,
}
