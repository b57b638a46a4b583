//! What can be acted on, and how: kinds, their actions, the scope each action needs, and what of an entity rules may look at.
//!
//! Only what something asks about is listed: a rule about anything else would guard nothing, and is refused.
//! Pipelines look at tags and are closed until a rule opens them (a new account has rules that open them to
//! its team `users`). Applications look at attributes and are open until a rule restricts them, but for commands in their pods, which are
//! closed until a rule opens them. Repositories of the
//! built-in Git host look at attributes; reading is open until a rule restricts it, pushing is closed until one opens it.

use crate::scope::{Resource, Verb};

/// One entity as rules see it.
#[derive(Debug, Clone, Default)]
pub struct Entity<'a> {
    pub kind: &'a str,
    /// For messages.
    pub name: &'a str,
    pub tags: Vec<&'a str>,
    /// Tags of the project that a pipeline is in.
    pub project_tags: Vec<&'a str>,
    /// `RUNTIME`, `CLUSTER`, `NAMESPACE`, `LABEL` (with a key), … One that is not known is not here, and a rule that names
    /// it does not fit.
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    pub name: String,
    /// Of a label; empty otherwise.
    pub key: String,
    pub value: String,
}

impl Attribute {
    pub fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.into(), key: String::new(), value: value.into() }
    }

    pub fn label(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: "LABEL".into(), key: key.into(), value: value.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Tags,
    Attributes,
}

/// Something that can be done to an entity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Action {
    pub(crate) name: &'static str,
    /// What a limited key needs for it, whichever door it comes through. `None` where several doors read the same entity
    /// for different reasons (a build is read by its pipeline): there the door asks.
    pub(crate) scope: Option<(Resource, Verb)>,
    /// Every member may until a rule names the action.
    pub(crate) open: bool,
}

const fn looks(name: &'static str) -> Action {
    Action { name, scope: None, open: false }
}

const fn writes(name: &'static str, resource: Resource) -> Action {
    Action { name, scope: Some((resource, Verb::Write)), open: false }
}

const fn open(name: &'static str, verb: Verb) -> Action {
    Action { name, scope: Some((Resource::Gitops, verb)), open: true }
}

pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) side: Side,
    pub(crate) actions: &'static [Action],
    /// What its rules may name; empty for those that go by tags.
    pub(crate) attributes: &'static [&'static str],
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "pipeline",
        side: Side::Tags,
        actions: &[
            writes("create", Resource::Pipelines),
            looks("read"),
            writes("update", Resource::Pipelines),
            writes("delete", Resource::Pipelines),
            writes("run", Resource::Builds),
            writes("approve", Resource::Builds),
            writes("debug", Resource::Builds),
        ],
        attributes: &[],
    },
    Kind {
        name: "project",
        side: Side::Tags,
        actions: &[
            writes("create", Resource::Pipelines),
            looks("read"),
            writes("update", Resource::Pipelines),
            writes("delete", Resource::Pipelines),
        ],
        attributes: &[],
    },
    Kind {
        name: "git-context",
        side: Side::Tags,
        actions: &[
            writes("create", Resource::Contexts),
            writes("update", Resource::Contexts),
            writes("delete", Resource::Contexts),
            looks("use"),
        ],
        attributes: &[],
    },
    Kind {
        name: "shared-configuration",
        side: Side::Tags,
        actions: &[
            writes("create", Resource::Contexts),
            looks("read"),
            writes("update", Resource::Contexts),
            writes("delete", Resource::Contexts),
        ],
        attributes: &[],
    },
    Kind {
        name: "gitopsApplications",
        side: Side::Attributes,
        actions: &[
            open("VIEW", Verb::Read),
            open("REFRESH", Verb::Write),
            open("SYNC", Verb::Write),
            open("TERMINATE_SYNC", Verb::Write),
            open("APP_ROLLBACK", Verb::Write),
            open("RESOURCE_ACTION", Verb::Write),
            open("VIEW_POD_LOGS", Verb::Read),
            open("DELETE_RESOURCE", Verb::Write),
            // The commit is its author's, and the Git provider decides whether it is taken.
            open("CREATE", Verb::Write),
            open("EDIT", Verb::Write),
            open("DELETE", Verb::Write),
            open("ROLLOUT_PAUSE", Verb::Write),
            open("ROLLOUT_RESUME", Verb::Write),
            open("ROLLOUT_PROMOTE_FULL", Verb::Write),
            open("ROLLOUT_SKIP_CURRENT_STEP", Verb::Write),
            open("ROLLOUT_ABORT", Verb::Write),
            open("ROLLOUT_RETRY", Verb::Write),
            open("ROLLOUT_RESTART", Verb::Write),
            // A shell in a pod is more than the Application: nobody but Administrators until a rule says so.
            writes("EXEC_TO_POD", Resource::Gitops),
        ],
        attributes: &["CLUSTER", "NAMESPACE", "RUNTIME", "GIT_SOURCE", "LABEL"],
    },
    Kind {
        name: "gitRepository",
        side: Side::Attributes,
        actions: &[
            Action { name: "read", scope: Some((Resource::Repos, Verb::Read)), open: true },
            writes("push", Resource::Repos),
        ],
        attributes: &["REPOSITORY", "BRANCH", "TAG", "PIPELINE"],
    },
];

/// Words that published clients know and that nothing here is guarded by: rules about them are refused with this.
const GUARD_NOTHING: [&str; 9] = [
    "cluster",
    "runtime-environment",
    "chart",
    "execution-context",
    "environments",
    "products",
    "promotionFlows",
    "workflows",
    "workflowTemplates",
];

pub(crate) fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

pub(crate) fn guards_nothing(kind: &str) -> bool {
    GUARD_NOTHING.contains(&kind)
}

pub(crate) fn action(kind: &str, name: &str) -> Option<Action> {
    self::kind(kind)?.actions.iter().find(|action| action.name == name).copied()
}

pub fn known_kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// The actions of a kind; none when the kind is not known.
pub fn known_actions(kind: &str) -> Vec<&'static str> {
    self::kind(kind).map(|kind| kind.actions.iter().map(|action| action.name).collect()).unwrap_or_default()
}

/// What rules about a kind may name besides its tags; none for those that go by tags.
pub fn known_attributes(kind: &str) -> &'static [&'static str] {
    self::kind(kind).map_or(&[], |kind| kind.attributes)
}

/// Whether rules about a kind go by tags.
pub fn goes_by_tags(kind: &str) -> bool {
    self::kind(kind).is_some_and(|kind| kind.side == Side::Tags)
}

/// Whoever may do `held` may also do `asked`.
pub(crate) fn implies(held: &str, asked: &str) -> bool {
    held == asked || (held == "SYNC" && asked == "REFRESH")
}
