//! Access rules, and why somebody may or may not.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Teams, what they may do, and to which entities. `team`, `action` and `resource` are how published clients say
/// `teams`, `actions` and `entityType`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleSpec {
    #[serde(default)]
    pub entity_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Names or ids of teams.
    #[serde(default)]
    pub teams: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// A team's id, as published clients read it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(default)]
    pub actions: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// `project`: the tags are those of the pipeline's project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related_resource: Option<String>,
    /// `*` is any entity, `untagged` one without tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// `any` (when left out) or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag_match: Option<String>,
    /// What must be so of what GitOps deploys.
    #[serde(default)]
    pub entity_attributes: Vec<RuleAttribute>,
    /// Attributes in their other place, and tags as published clients read them back.
    #[serde(default)]
    pub attributes: Vec<TagOrAttribute>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum TagOrAttribute {
    Tag(String),
    Attribute(RuleAttribute),
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RuleAttribute {
    /// Of Applications CLUSTER, NAMESPACE, RUNTIME, GIT_SOURCE or LABEL; of repositories REPOSITORY, BRANCH, TAG or PIPELINE.
    pub name: String,
    /// Of a LABEL.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `*` stands for anything.
    pub value: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    pub id: String,
    #[serde(flatten)]
    pub spec: RuleSpec,
    /// In words.
    #[serde(rename = "teamNames")]
    pub team_names: Vec<String>,
    /// Why it guards nothing, or not what it says; a rule of an older version. Absent for one that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub created: String,
}

/// What rules can be about.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleKind {
    pub entity_type: String,
    pub actions: Vec<String>,
    /// What its rules may name; none for those that go by tags.
    #[serde(default)]
    pub attributes: Vec<String>,
    #[serde(default)]
    pub by_tags: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    pub user: String,
    pub action: String,
    pub entity: String,
    pub allowed: bool,
    /// A sentence, whichever way it went.
    pub reason: String,
    /// The rule that allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}
