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
    /// In answers: what is kept as it came and has no effect here. Ignored when it is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
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
    /// The same: a hook may have several steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub hooks: Option<Box<RawValue>>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub other: Map<String, Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct Variable {
    pub key: String,
    #[serde(deserialize_with = "scalar", default)]
    pub value: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
}

/// A text, a number, yes or no: a variable is a text in the end.
fn scalar<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        Value::Null => Ok(String::new()),
        value @ (Value::Number(_) | Value::Bool(_)) => Ok(value.to_string()),
        _ => Err(serde::de::Error::custom("the value of a variable is a text, a number, true or false")),
    }
}

/// What of a pipeline's settings decides something here. The rest is kept as it came.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// How many builds run at once. Absent: any number; 0: none, the pipeline is frozen.
    pub concurrency: Option<i64>,
    pub trigger_concurrency: Option<i64>,
    pub branch_concurrency: Option<i64>,
    /// −100 to 100; higher goes first.
    pub priority: Option<i64>,
    pub termination_policy: Option<Vec<TerminationPolicy>>,
    pub options: Option<PipelineOptions>,
    pub cron_triggers: Option<Vec<CronTrigger>>,
    /// After another pipeline: ours, the published product has none.
    pub pipeline_triggers: Option<Vec<PipelineTrigger>>,
    pub permit_restart_from_failed_steps: Option<bool>,
    /// `{name: …}`: the runner that builds are for.
    pub runtime_environment: Option<Value>,
}

/// The name in a `runtimeEnvironment`, whatever else is in it.
pub fn runtime_name(written: Option<&Value>) -> Option<&str> {
    written?.get("name")?.as_str().filter(|name| !name.is_empty())
}

impl PipelineSpec {
    /// A sentence when a setting has the wrong shape.
    pub fn settings(&self) -> Result<Settings, String> {
        serde_json::from_value(Value::Object(self.other.clone())).map_err(|error| error.to_string())
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PipelineOptions {
    #[serde(flatten)]
    pub run: RunOptions,
    pub pending_approval_concurrency_applied: Option<bool>,
}

/// Which builds end when another starts or ends.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TerminationPolicy {
    /// `branch` or `annotation`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `onCreate` or `onTerminate`.
    pub event: String,
    pub ignore_branch: Option<bool>,
    pub ignore_trigger: Option<bool>,
    /// Only builds of branches that fit this regular expression.
    pub branch_name: Option<String>,
    pub key: Option<String>,
    pub value: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronTrigger {
    #[serde(rename = "type")]
    pub kind: String,
    pub name: String,
    /// Five fields, or six with seconds first; names, ranges, steps, `L`, `#`, `@hourly`.
    pub expression: String,
    pub message: String,
    /// A name such as `Europe/Berlin`; UTC when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    pub disabled: bool,
    /// With `branch`: runs as this Git trigger would for that branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_trigger_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub other: Map<String, Value>,
}

/// Start after another pipeline's build has ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PipelineTrigger {
    pub name: String,
    /// Name or id of the other pipeline.
    pub pipeline: String,
    /// `success`, `error`, `terminated`; success when left out.
    pub statuses: Vec<String>,
    pub branch_regex: Option<String>,
    pub disabled: bool,
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
    #[serde(default)]
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

/// What else of a Git trigger decides something.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TriggerSettings {
    pub id: Option<String>,
    /// Name of the Git context; absent or `builtin` is the built-in host.
    pub context: Option<String>,
    pub branch_regex_input: Option<String>,
    pub pull_request_target_branch_regex: Option<String>,
    pub comment_regex: Option<String>,
    pub modified_files_glob: Option<String>,
    pub pull_request_allow_fork_events: Option<bool>,
    pub commit_status_title: Option<String>,
    pub skip_comment_author_association_validation: Option<bool>,
    pub concurrency: Option<i64>,
    pub priority: Option<i64>,
    pub termination_policy: Option<Vec<TerminationPolicy>>,
    pub variables: Option<Vec<Variable>>,
    pub options: Option<RunOptions>,
    pub runtime_environment: Option<Value>,
}

impl GitTrigger {
    pub fn settings(&self) -> Result<TriggerSettings, String> {
        serde_json::from_value(Value::Object(self.other.clone()))
            .map_err(|error| format!("trigger `{}`: {error}", self.name))
    }

    /// The Git context that it goes by; none for the built-in host.
    pub fn context(&self) -> Option<&str> {
        let named = self.other.get("context").and_then(Value::as_str);
        let listed = || self.other.get("contexts")?.as_array()?.first()?.as_str();
        named.or_else(listed).filter(|name| !matches!(*name, "" | "builtin" | "CF-default"))
    }

    pub fn id(&self) -> Option<&str> {
        self.other.get("id").and_then(Value::as_str)
    }
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
    #[serde(default)]
    pub options: Option<RunOptions>,
    /// More shared configuration for this run.
    #[serde(default)]
    pub contexts: Option<Vec<String>>,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub annotations: Option<Map<String, Value>>,
    /// `{cpu, memory}`: what each step may use this time.
    #[serde(default, rename = "userMachineConfig")]
    #[schema(value_type = Option<Object>)]
    pub user_machine_config: Option<Value>,
    /// A pipeline's text that runs instead of the pipeline's own.
    #[serde(default, rename = "userYamlDescriptor")]
    pub user_yaml_descriptor: Option<String>,
}

/// One state that a pipeline had.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineRevision {
    pub revision: i64,
    pub name: String,
    pub author: String,
    pub at: String,
}

/// Two states of a pipeline as text, for a page that shows them side by side.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PipelineDiff {
    pub from: i64,
    pub to: i64,
    pub before: String,
    pub after: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    #[serde(default)]
    pub id: String,
    pub project_name: String,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// Names of shared configuration that every pipeline of the project gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<String>,
    /// Nobody has favourites here: absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub favorite: Option<bool>,
    #[serde(default)]
    pub pipelines_number: i64,
    #[serde(default)]
    pub updated_at: String,
}

/// What is left out stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectChange {
    pub project_name: Option<String>,
    pub tags: Option<Vec<String>>,
    pub variables: Option<Vec<Variable>>,
    pub contexts: Option<Vec<String>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ProjectList {
    pub projects: Vec<Project>,
    pub total: i64,
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
    /// More of them than the steps set themselves.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub breakpoints: crate::debug::Breakpoints,
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
    /// The steps that would run, in file order; nothing when the text has errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PlannedStep>,
}

/// A step before it runs: what it waits for, and where it is shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct PlannedStep {
    pub name: String,
    pub title: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
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
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
