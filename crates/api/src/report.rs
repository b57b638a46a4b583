//! What a runtime reports: custom resources of any kind, as entities in one envelope.
//!
//! A body holds what changed, or is a page of everything there is. Bodies are numbered by the runtime that sends them: what
//! was said with a higher number stands, so that a body which comes twice, late or out of order changes nothing. What an
//! entity's `body` holds is agreed on by kind; an Application's is [`crate::application::Application`].

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::health::RuntimeHealth;

/// The kind of Argo Applications, as entities name it.
pub const APPLICATION: &str = "argoproj.io/Application";
/// The kind of Argo ApplicationSets; their body is an [`ApplicationSet`].
pub const APPLICATION_SET: &str = "argoproj.io/ApplicationSet";
/// The kind of clusters that a runtime deploys to, its own among them; their body is a [`ReportedCluster`]. There is no such custom
/// resource: what is known of a cluster is its runtime's connection to it.
pub const CLUSTER: &str = "slipway.io/Cluster";

/// Numbers of bodies stay below this: a number that every client can read.
pub const SEQUENCE_MAX: i64 = (1 << 53) - 1;
/// Entities and removals that one body may hold.
pub const ENTITIES_MAX: usize = 10_000;
/// Pages that a complete report may have.
pub const PAGES_MAX: u32 = 10_000;
/// Processes of one runtime whose complete reports are remembered.
pub const REPLICAS_MAX: usize = 64;
/// What one entity may weigh as JSON.
pub const ENTITY_BYTES_MAX: usize = 4 << 20;

/// `POST /2.0/api/events`: the state of custom resources as the runtime sees it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeReport {
    pub runtime: String,
    pub version: String,
    /// Where browsers and CLIs reach the runtime's app-proxy; empty: the same origin, under `/app-proxy`.
    #[serde(default)]
    pub ingress_url: String,
    /// What the runtime deploys to, in a sentence ("embedded cluster, pods by podman 4.3.1").
    #[serde(default)]
    pub cluster: String,
    /// Rises from body to body. All pages of a complete report have the number that it began with.
    pub sequence: i64,
    /// This body is a page of everything there is. Absent: only what changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<CompletePage>,
    #[serde(default)]
    pub entities: Vec<Entity>,
    /// What is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<EntityName>,
    /// Which of the runtime's processes this is, where several share its objects; empty: it is alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replica: String,
    /// Of a complete report: the parts of the runtime's objects (0 to 63, by a hash of namespace and name) that it is about. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<u16>,
    /// How the process that sends it fares; now and then, and when that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<RuntimeHealth>,
}

/// Which page of a complete report. When all of them have come, in any order, what none of them named is taken away. A report
/// that never ends takes nothing away, and one that begins later takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompletePage {
    /// From 0.
    pub page: u32,
    pub last: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct EntityName {
    /// `group/kind`; without a group, `kind`.
    pub kind: String,
    #[serde(default)]
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// `group/kind`; without a group, `kind`.
    pub kind: String,
    #[serde(default)]
    pub namespace: String,
    pub name: String,
    /// Another object of the same name is another one.
    #[serde(default)]
    pub uid: String,
    /// Of the custom resource that was read.
    #[serde(default)]
    pub resource_version: String,
    #[serde(default)]
    pub state: EntityState,
    /// As its kind has it; never a manifest.
    #[schema(value_type = Object)]
    pub body: Value,
}

/// What can be said of any kind, in the words of the kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EntityState {
    /// Healthy, Progressing, Degraded, Suspended, Missing, Unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub health: String,
    /// Synced, OutOfSync, Unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sync: String,
    /// Of an operation or a run: Running, Succeeded, Failed, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// One sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Entity {
    pub fn name(&self) -> EntityName {
        EntityName { kind: self.kind.clone(), namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// The answer to a report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportTaken {
    /// False: a complete report with a higher number has begun, and nothing of this body was looked at.
    pub taken: bool,
    /// The highest number that was heard; the next body has a higher one.
    pub sequence: i64,
    /// Of a complete report whose last page has come: the pages that have not. A hundred at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<u32>,
    /// What was said of these came late: a body with a higher number, or a complete report, was there before. Whoever still has them
    /// says it again with a higher number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<EntityName>,
    /// The highest number that was heard before this body. Lower than one that was taken before: the control plane has lost something,
    /// and everything is to be said again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// What was left out, and why. A hundred at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refused {
    #[serde(flatten)]
    pub entity: EntityName,
    pub reason: String,
}

/// What is reported of an Argo ApplicationSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationSet {
    pub conditions: Vec<SetCondition>,
    /// The Applications that it made, by name.
    pub applications: Vec<SetApplication>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetApplication {
    pub name: String,
    pub sync: String,
    pub health: String,
}

/// What is reported of a cluster that a runtime deploys to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedCluster {
    pub name: String,
    pub server: String,
    /// `Successful`, `Failed` or `Unknown`.
    pub state: String,
    /// Why it is in that state, where there is something to say.
    pub message: String,
    /// Since when it is in that state; RFC 3339.
    pub since: String,
    /// When it was last asked, to the minute.
    pub attempted_at: String,
    /// Of Kubernetes; empty: it was never reached.
    pub server_version: String,
    /// Applications of the runtime that go there.
    pub applications: usize,
    /// It is the one that the runtime is in.
    pub is_own: bool,
}

/// `GET /api/gitops/entities`: what runtimes reported, of any kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityList {
    pub entities: Vec<ReportedEntity>,
    /// Give it back as `after` for the next page; absent after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct ReportedEntity {
    pub runtime: String,
    #[serde(flatten)]
    pub entity: Entity,
}
