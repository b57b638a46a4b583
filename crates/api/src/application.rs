//! Argo Applications as pages show them: reported by the runtime, with no manifest in them.
//!
//! Manifests, diffs and plans stay with the runtime; its app-proxy serves them to the browser.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slipway_access::Verb;
pub use slipway_access::{About as ProxyAbout, Operation as ProxyOperation};
use slipway_model::{HealthCode, SyncCode, Word};
use utoipa::ToSchema;

use crate::rollout::{Rollout, RolloutSummary};

/// What somebody wants to do through a runtime's app-proxy. `POST /api/runtimes/{runtime}/pass` answers with a [`Pass`] for it, or why not.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ProxyQuestion {
    /// `manifests`, `diff`, `plan`, `actions`, `sync`, `refresh`, `rollback`, `terminate`, `sync-policy`, `action`, `logs`,
    /// `delete-resource`, `exec`, `create`, `edit` or `delete`; or, of the runtime itself (then without `namespace` and `name`), `git-tokens`, `git-register`,
    /// `git-forget`, `git-organizations`, `git-repositories`, `git-branches` or `git-commit`.
    #[schema(value_type = String)]
    pub operation: ProxyOperation,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub name: String,
    /// What else is asked for (which revision, which deployment): the body that the app-proxy will get, which has to be this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub detail: Option<serde_json::Value>,
}

/// Good for one operation on one Application of one runtime, for two minutes: all that a runtime ever sees of its caller.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pass {
    /// For the app-proxy, as `Authorization: Bearer …`.
    pub token: String,
    /// Where the app-proxy is; without a host: on the platform's own address.
    pub url: String,
    pub expires: String,
}

/// A runtime asks whether a pass is good for what its bearer asks for: `POST /api/access/application`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PassQuestion {
    pub pass: String,
    #[serde(flatten)]
    pub question: ProxyQuestion,
    #[serde(default, skip_serializing_if = "PassMoment::is_shown")]
    pub moment: PassMoment,
    /// With `ended`: how, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// When a runtime asks about a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PassMoment {
    /// Its bearer has just come with it.
    #[default]
    Shown,
    /// What it opened (a log that is followed, a command in a pod) still goes on: may its bearer still?
    Ongoing,
    /// What it opened is over; that is recorded. No more than that is asked.
    Ended,
}

impl PassMoment {
    pub fn is_shown(&self) -> bool {
        *self == Self::Shown
    }
}

/// The caller may. Nothing that opens anything is in it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyAnswer {
    pub user_name: String,
    /// Always the same for the same person or service account: what the runtime keeps for them is kept by it.
    #[serde(default)]
    pub user_id: String,
}

/// Whether each such operation is asked about by itself, and recorded.
pub fn changes_something(operation: ProxyOperation) -> bool {
    operation.verb() == Verb::Write
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Application {
    /// Filled in by the control plane.
    #[serde(default)]
    pub runtime: String,
    pub namespace: String,
    pub name: String,
    pub project: String,
    pub repo_url: String,
    pub path: String,
    pub target_revision: String,
    /// The namespace that it deploys to.
    pub destination: String,
    /// The cluster that it deploys to, by the name and the address that the runtime knows it by. Rules by CLUSTER compare
    /// with either; where neither was reported, no such rule fits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination_server: String,
    /// The Git sources that it comes from: the Application that declares it, and the repository of its manifests where it
    /// is one. Rules by GIT_SOURCE compare with each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git_sources: Vec<String>,
    /// Of the Application itself. Rules by LABEL compare with these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Synced, OutOfSync, Unknown.
    #[schema(value_type = String)]
    pub sync_status: Word<SyncCode>,
    /// Healthy, Progressing, Degraded, Suspended, Missing, Unknown.
    #[schema(value_type = String)]
    pub health_status: Word<HealthCode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_message: Option<String>,
    /// Since when it has this health; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_changed_at: Option<String>,
    /// The commit compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// One sentence in plain words: what it is doing or waiting for, or what a person has to do.
    pub summary: String,
    #[serde(default)]
    pub conditions: Vec<Condition>,
    #[serde(default)]
    pub resources: Vec<ResourceNode>,
    #[serde(default)]
    pub history: Vec<Deployment>,
    #[serde(default)]
    pub images: Vec<String>,
    #[serde(default)]
    pub automated: bool,
    /// Rollouts among its resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<Rollout>,
    /// RFC 3339.
    pub observed_at: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct Revision {
    pub sha: String,
    #[serde(default)]
    pub author: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub date: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// The id that the answer to `sync` or `rollback` gave; empty for what others asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Pending (asked for, not begun), Running, Succeeded, Failed, Error, Terminating.
    pub phase: String,
    pub message: String,
    /// RFC 3339; empty while it is pending.
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// What the sync still waits for, as sentences.
    #[serde(default)]
    pub waiting_on: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Of an Application with several sources: the revision of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    #[serde(default)]
    pub initiated_by: String,
    /// Whether it was automation and nobody who asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automated: bool,
    /// As `why` of a deployment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What became of each object and hook so far, in the order of the sync; of many, those that failed or are under way, and the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultOfSync>,
    /// How many there are besides.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub more_results: usize,
}

fn is_none_left(count: &usize) -> bool {
    *count == 0
}

/// What a sync did to one object, or how a hook of it fares.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ResultOfSync {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// PreSync, Sync, PostSync, SyncFail.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Which hook it is; empty: it is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hook: String,
    /// Synced, SyncFailed, Pruned, PruneSkipped; of a hook Running, Succeeded, Failed, Error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// Names file and line where there is one.
    pub message: String,
    #[serde(default)]
    pub last_transition_time: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ResourceNode {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    #[serde(default)]
    pub uid: String,
    /// uid of the owner; empty for what the Application itself declares.
    #[serde(default)]
    pub parent_uid: String,
    /// Synced, OutOfSync, Unknown; absent for children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub status: Option<Word<SyncCode>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub health: Option<Word<HealthCode>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_message: Option<String>,
    #[serde(default)]
    pub requires_pruning: bool,
    /// "2/2 ready", "exit code 1", an image, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    pub id: i64,
    pub revision: Revision,
    /// When the sync began; how long it took is from here to `deployedAt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    pub deployed_at: String,
    pub initiated_by: String,
    /// Whether it was automation and nobody who asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automated: bool,
    /// `first`, `commit` (other commits), `parameters` (the same commits with another source or parameters), `drift` (the same again, because the
    /// cluster had changed), `manual`, `rollback`; empty where nobody can tell any more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Of an Application with several sources: the revision of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// What was applied, where it is still known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Of these, what differs from the deployments before, as far as those are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_changes: Vec<ImageChange>,
}

/// An image that another version took the place of.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct ImageChange {
    /// Without tag and digest.
    pub image: String,
    /// Tags or digests; empty: it was not there.
    #[serde(default)]
    pub before: Vec<String>,
    #[serde(default)]
    pub after: Vec<String>,
}

/// Why a sync was begun.
pub mod why {
    pub const FIRST: &str = "first";
    pub const COMMIT: &str = "commit";
    pub const PARAMETERS: &str = "parameters";
    pub const DRIFT: &str = "drift";
    pub const MANUAL: &str = "manual";
    pub const ROLLBACK: &str = "rollback";
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/diff`: from the runtime, never stored by the control plane.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ApplicationDiff {
    pub resources: Vec<ResourceDiff>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDiff {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// `add`, `change`, `delete` or `same`.
    pub change: String,
    /// YAML, secrets masked; empty when it is not there.
    pub live: String,
    pub desired: String,
    /// Unified diff of the two.
    pub unified: String,
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/plan`: what a sync would do now, in order.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationPlan {
    pub revision: String,
    pub steps: Vec<PlanStep>,
    pub waiting: Vec<String>,
    /// The whole as text, for terminals.
    pub text: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    pub phase: String,
    pub wave: i64,
    pub action: String,
    /// The resource for people; below what it consists of.
    pub resource: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(default)]
    #[schema(required = true)]
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(default)]
    #[schema(required = true)]
    pub name: String,
    pub why: String,
}

/// `POST /app-proxy/api/applications/{namespace}/{name}/sync-policy`: what is absent stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncPolicyRequest {
    /// Whether it syncs by itself when Git changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated: Option<bool>,
    /// Whether that undoes changes made in the cluster too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_heal: Option<bool>,
    /// Whether that deletes what is no longer in Git too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
}

/// `POST /app-proxy/api/applications/{namespace}/{name}/sync`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SyncRequest {
    /// A branch, tag, version or commit; the Application's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Of an Application with several sources: one for each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<String>,
    /// Delete what is no longer in Git.
    pub prune: bool,
    /// Ask the cluster what would happen, and change nothing.
    pub dry_run: bool,
    /// Only these; hooks are not run then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<SyncResource>,
    /// `hook` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<SyncStrategy>,
    /// Delete and make again what cannot be changed in place.
    pub force: bool,
    /// `Name=value`, over the Application's own of that name; its others stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_options: Option<Vec<String>>,
    /// How often it is tried, in place of the Application's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<SyncRetry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncStrategy {
    /// Hooks run.
    Hook,
    /// They do not.
    Apply,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncResource {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SyncRetry {
    /// Below zero: without end. Zero: none.
    pub limit: i64,
    /// The first wait, `5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// By which each further one is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<i64>,
    /// The longest one, `3m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<String>,
}

/// `POST /app-proxy/api/applications/{namespace}/{name}/refresh`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RefreshRequest {
    /// Render again even what is in a cache.
    pub hard: bool,
}

/// `POST /app-proxy/api/applications/{namespace}/{name}/rollback`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct RollbackRequest {
    /// Of a deployment of the history.
    pub id: i64,
    #[serde(default)]
    pub prune: bool,
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/diff?deployment=`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct DiffRequest {
    /// A deployment of the history: what a rollback to it would change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<i64>,
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/plan?prune=`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct PlanRequest {
    /// As the Application's automation has it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
}

/// What was asked for is done, or under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// What was asked for, for people.
    pub message: String,
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/manifests`: as Git says, secrets masked.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ApplicationManifests {
    pub revisions: Vec<String>,
    pub manifests: Vec<Manifest>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Manifest {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Where it was written; the line is 0 for what a tool made.
    pub file: String,
    pub line: usize,
    pub yaml: String,
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/tree`: what it declares, then what that owns, as it is now.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ResourceTree {
    pub resources: Vec<ResourceNode>,
}

/// One live object of an Application.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRef {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub resource_name: String,
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/resource?group=&kind=&namespace=&resourceName=`: one live object of an
/// Application, without what says who wrote which field.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ResourceManifest {
    /// Secrets masked.
    pub yaml: String,
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/events?group=&kind=&namespace=&resourceName=`: of one of its live objects; without
/// one, of the Application itself and all of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EventsRequest {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_name: String,
}

/// Newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ApplicationEvents {
    pub events: Vec<ObjectEvent>,
}

/// What Kubernetes or the runtime noted about an object. It forgets them after an hour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectEvent {
    /// The object that it is about.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub severity: String,
    pub reason: String,
    pub message: String,
    pub count: i64,
    /// RFC 3339.
    pub first_seen: String,
    pub last_seen: String,
    /// Who noted it.
    pub source: String,
}

/// `GET /app-proxy/api/applications/{namespace}/{name}/actions?group=&kind=&namespace=&resourceName=`: what can be done to
/// one of its live objects.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResourceActions {
    pub actions: Vec<ResourceAction>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAction {
    pub name: String,
    /// Known for this kind, but pointless in the object's present state.
    pub disabled: bool,
    #[serde(default)]
    pub display_name: String,
    /// Names of the parameters that it needs.
    #[serde(default)]
    pub parameters: Vec<String>,
}

/// `POST /app-proxy/api/applications/{namespace}/{name}/action`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionRequest {
    #[serde(default)]
    pub group: String,
    pub kind: String,
    #[serde(default)]
    pub namespace: String,
    pub resource_name: String,
    pub action: String,
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// The answer to `sync` and `rollback`: which operation was asked for. When it comes, `GET /api/applications/…` shows that
/// operation as pending already, so that nobody who waits takes the state before for its outcome.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationOrdered {
    pub message: String,
    /// `operation.id` of the Application while this operation is the last one.
    pub operation_id: String,
    /// RFC 3339.
    pub requested_at: String,
}

impl Operation {
    pub fn is_over(&self) -> bool {
        !matches!(self.phase.as_str(), "Pending" | "Running" | "Terminating")
    }
}

/// What lists show of an Application: everything but its resources, conditions, images and history.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationRow {
    pub runtime: String,
    pub namespace: String,
    pub name: String,
    pub project: String,
    pub repo_url: String,
    pub path: String,
    pub target_revision: String,
    /// The namespace that it deploys to.
    pub destination: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination_server: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git_sources: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Synced, OutOfSync, Unknown.
    #[schema(value_type = String)]
    pub sync_status: Word<SyncCode>,
    /// Healthy, Progressing, Degraded, Suspended, Missing, Unknown.
    #[schema(value_type = String)]
    pub health_status: Word<HealthCode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    pub summary: String,
    #[serde(default)]
    pub automated: bool,
    /// When it was last deployed; RFC 3339, absent when it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed_at: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<RolloutSummary>,
    /// When its state last changed; RFC 3339.
    pub observed_at: String,
}

impl From<&Application> for ApplicationRow {
    fn from(app: &Application) -> Self {
        Self {
            runtime: app.runtime.clone(),
            namespace: app.namespace.clone(),
            name: app.name.clone(),
            project: app.project.clone(),
            repo_url: app.repo_url.clone(),
            path: app.path.clone(),
            target_revision: app.target_revision.clone(),
            destination: app.destination.clone(),
            destination_name: app.destination_name.clone(),
            destination_server: app.destination_server.clone(),
            git_sources: app.git_sources.clone(),
            labels: app.labels.clone(),
            sync_status: app.sync_status.clone(),
            health_status: app.health_status.clone(),
            health_message: app.health_message.clone(),
            revision: app.revision.clone(),
            // What it did to each object is the Application's own.
            operation: app.operation.clone().map(|operation| Operation {
                results: Vec::new(),
                more_results: 0,
                ..operation
            }),
            summary: app.summary.clone(),
            automated: app.automated,
            rollouts: app.rollouts.iter().map(RolloutSummary::from).collect(),
            deployed_at: app.history.iter().map(|entry| &entry.deployed_at).max().cloned(),
            observed_at: app.observed_at.clone(),
        }
    }
}

/// One page of the Applications that fit the filters.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationList {
    pub applications: Vec<ApplicationRow>,
    /// How many fit, over all pages.
    pub total: usize,
    pub facets: ApplicationFacets,
}

/// How many Applications there are by each value. Each is counted over what fits all the other filters, so that a page can
/// say how many another choice would show.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ApplicationFacets {
    pub health: BTreeMap<String, usize>,
    pub sync: BTreeMap<String, usize>,
    pub runtime: BTreeMap<String, usize>,
    pub namespace: BTreeMap<String, usize>,
    pub project: BTreeMap<String, usize>,
}
