//! What can be acted on, and how: kinds, their actions, and what of an entity rules may look at.
//!
//! Pipelines look at tags and are closed until a rule opens them (a new account has rules that open them to
//! its team `users`). GitOps looks at attributes and is open until a rule restricts it.

/// One entity as rules see it.
#[derive(Debug, Clone, Default)]
pub struct Entity<'a> {
    pub kind: &'a str,
    /// For messages.
    pub name: &'a str,
    pub tags: Vec<&'a str>,
    /// Tags of the project that a pipeline is in.
    pub project_tags: Vec<&'a str>,
    /// `RUNTIME`, `CLUSTER`, `NAMESPACE`, `LABEL` (with a key), …
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    pub name: String,
    /// Of a label; empty otherwise.
    pub key: String,
    pub value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Tags,
    Attributes,
}

const CRUD: &[&str] = &["create", "read", "update", "delete"];
const PIPELINE: &[&str] = &[
    "create",
    "read",
    "update",
    "delete",
    "run",
    "approve",
    "debug",
    "manage-resources",
    "set-cloud-builds",
    "set-runtime-environment",
];
const APPLICATION: &[&str] = &[
    "VIEW",
    "REFRESH",
    "SYNC",
    "TERMINATE_SYNC",
    "APP_ROLLBACK",
    "VIEW_POD_LOGS",
    "DELETE_RESOURCE",
    "EXEC_TO_POD",
    "ROLLOUT_PAUSE",
    "ROLLOUT_RESUME",
    "ROLLOUT_PROMOTE_FULL",
    "ROLLOUT_SKIP_CURRENT_STEP",
    "ROLLOUT_ABORT",
    "ROLLOUT_RETRY",
    "ROLLOUT_RESTART",
];
const WORKFLOW: &[&str] =
    &["VIEW", "CREATE", "STOP", "TERMINATE", "RESTART", "RESUBMIT", "ACCESS_LOGS", "ACCESS_ARTIFACTS"];

const KINDS: [(&str, Side, &[&str]); 14] = [
    ("pipeline", Side::Tags, PIPELINE),
    ("project", Side::Tags, CRUD),
    ("cluster", Side::Tags, &["read", "update"]),
    ("runtime-environment", Side::Tags, &["read"]),
    ("chart", Side::Tags, &["read"]),
    ("git-context", Side::Tags, &["create", "update", "delete", "use"]),
    ("shared-configuration", Side::Tags, CRUD),
    ("execution-context", Side::Tags, &["assign"]),
    ("gitopsApplications", Side::Attributes, APPLICATION),
    ("environments", Side::Attributes, &["VIEW", "PROMOTE_TO"]),
    ("products", Side::Attributes, &["VIEW", "TRIGGER_PROMOTION", "RETRY_RELEASE"]),
    ("promotionFlows", Side::Attributes, &["VIEW", "TRIGGER_PROMOTION", "RETRY_RELEASE"]),
    ("workflows", Side::Attributes, WORKFLOW),
    ("workflowTemplates", Side::Attributes, &["VIEW", "CREATE"]),
];

pub(crate) const ATTRIBUTES: [&str; 8] = [
    "CLUSTER",
    "NAMESPACE",
    "RUNTIME",
    "GIT_SOURCE",
    "LABEL",
    "PRODUCT_NAME",
    "ENVIRONMENT_NAME",
    "ENVIRONMENT_KIND",
];

pub(crate) fn side(kind: &str) -> Option<Side> {
    KINDS.iter().find(|(known, ..)| *known == kind).map(|(_, side, _)| *side)
}

pub fn known_kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(kind, ..)| *kind)
}

/// The actions of a kind; none when the kind is not known.
pub fn known_actions(kind: &str) -> &'static [&'static str] {
    KINDS.iter().find(|(known, ..)| *known == kind).map_or(&[], |(_, _, actions)| actions)
}

/// Whoever may do `held` may also do `asked`.
pub(crate) fn implies(held: &str, asked: &str) -> bool {
    held == asked || (held == "SYNC" && asked == "REFRESH")
}
