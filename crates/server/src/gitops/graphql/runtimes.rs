//! Runtimes, their parts and their clusters, as GraphQL shows them. What the platform does not know of a runtime is null.

use async_graphql::{Context, Enum, Object, SimpleObject};
use slipway_access::{Policy, Resource};
use slipway_api::health::Component;
use slipway_api::managed_cluster::ManagedCluster;
use slipway_api::runtime::Runtime;

use super::meta::{ErrorLevels, HealthStatus, ObjectMeta, SyncError, SyncStatus};
use super::slice::{self, ClusterSlice, ComponentSlice, RuntimeSlice, SlicePaginationArgs};
use crate::gitops::{clusters, runtimes};
use crate::http::graphql::{Door, asking, refuse, said};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
enum AccessMode {
    Ingress,
    Tunnel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
enum InstallationStatus {
    Completed,
    Failed,
    /// It is registered and was never heard of.
    InProgress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
enum InstallationType {
    Helm,
    HelmHosted,
}

#[derive(SimpleObject)]
struct EntityStatus {
    sync_status: SyncStatus,
    health_status: HealthStatus,
    health_message: Option<String>,
}

pub(crate) struct RuntimeNode {
    account: String,
    runtime: Runtime,
}

impl RuntimeNode {
    fn health(&self) -> HealthStatus {
        match self.runtime.health.as_str() {
            "healthy" => HealthStatus::Healthy,
            "degraded" | "unreachable" => HealthStatus::Degraded,
            _ => HealthStatus::Unknown,
        }
    }

    fn message(&self) -> Option<String> {
        said(&self.runtime.health_reasons.join("; "))
    }
}

#[Object(name = "Runtime")]
impl RuntimeNode {
    async fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            kind: "Runtime".into(),
            name: self.runtime.name.clone(),
            namespace: said(&self.runtime.namespace),
            runtime: self.runtime.name.clone(),
            cluster: said(&self.runtime.cluster),
            account: self.account.clone(),
            last_updated: self.runtime.last_seen.clone(),
            created: self.runtime.created.clone(),
            ..ObjectMeta::default()
        }
    }

    #[graphql(name = "self")]
    async fn this(&self) -> EntityStatus {
        let (sync_status, health_status) = (SyncStatus::Unknown, self.health());
        EntityStatus { sync_status, health_status, health_message: self.message() }
    }

    /// Whether it is as its Git repository says; unknown where it was not installed from one.
    async fn sync_status(&self) -> SyncStatus {
        SyncStatus::Unknown
    }

    async fn health_status(&self) -> HealthStatus {
        self.health()
    }

    async fn health_message(&self) -> Option<String> {
        self.message()
    }

    async fn cluster(&self) -> Option<String> {
        said(&self.runtime.cluster)
    }

    /// Whether the platform's operator runs it.
    async fn managed(&self) -> bool {
        false
    }

    async fn is_remote_cluster_connected(&self) -> bool {
        self.runtime.clusters.iter().any(|cluster| cluster.state == "Successful")
    }

    /// Where its callers reach it.
    async fn ingress_host(&self) -> Option<String> {
        said(&self.runtime.url)
    }

    async fn internal_ingress_host(&self) -> Option<String> {
        None
    }

    async fn ingress_class(&self) -> Option<String> {
        None
    }

    async fn ingress_controller(&self) -> Option<String> {
        None
    }

    async fn runtime_version(&self) -> Option<String> {
        said(&self.runtime.version)
    }

    async fn installation_status(&self) -> InstallationStatus {
        match self.runtime.state.as_str() {
            "never-connected" => InstallationStatus::InProgress,
            _ => InstallationStatus::Completed,
        }
    }

    /// Null where it did not come by a chart, or has not said yet.
    async fn installation_type(&self) -> Option<InstallationType> {
        (self.runtime.installed_by == "helm").then_some(InstallationType::Helm)
    }

    /// The repository that it was installed from.
    async fn repo(&self) -> Option<String> {
        None
    }

    async fn git_provider(&self) -> Option<String> {
        None
    }

    async fn managed_clusters_num(&self) -> usize {
        self.runtime.clusters.len()
    }

    async fn access_mode(&self) -> AccessMode {
        match self.runtime.access_mode.as_str() {
            "ingress" => AccessMode::Ingress,
            _ => AccessMode::Tunnel,
        }
    }

    /// Whether it was heard of lately.
    async fn available(&self) -> bool {
        self.runtime.online
    }

    async fn applications_num(&self) -> i64 {
        self.runtime.applications
    }

    async fn last_updated(&self) -> Option<&str> {
        self.runtime.last_seen.as_deref()
    }
}

/// A part of one of a runtime's processes.
#[derive(SimpleObject)]
#[graphql(name = "Component")]
pub(crate) struct ComponentNode {
    metadata: ObjectMeta,
    version: String,
    #[graphql(name = "self")]
    this: ComponentSelf,
    sync_status: SyncStatus,
    health_status: HealthStatus,
    health_message: Option<String>,
    /// Which process; null where there is one.
    replica: Option<String>,
}

#[derive(SimpleObject)]
struct ComponentSelf {
    status: EntityStatus,
    errors: Vec<SyncError>,
}

fn component(account: &str, runtime: &Runtime, part: Component) -> ComponentNode {
    let health_status = match part.health.state.as_str() {
        "healthy" => HealthStatus::Healthy,
        "degraded" => HealthStatus::Degraded,
        "off" => HealthStatus::Suspended,
        _ => HealthStatus::Unknown,
    };
    let message = said(&part.health.message);
    let error = |message: &String| SyncError {
        level: ErrorLevels::Error,
        title: format!("{} is {}", part.health.name, part.health.state),
        message: message.clone(),
        suggestion: None,
        last_seen: part.heard.clone(),
    };
    let errors = message.iter().filter(|_| health_status == HealthStatus::Degraded).map(error).collect();
    let sync_status = SyncStatus::Unknown;
    ComponentNode {
        version: runtime.version.clone(),
        this: ComponentSelf {
            status: EntityStatus { sync_status, health_status, health_message: message.clone() },
            errors,
        },
        sync_status,
        health_status,
        health_message: message,
        replica: said(&part.replica),
        metadata: ObjectMeta {
            kind: "Component".into(),
            name: part.health.name,
            namespace: said(&runtime.namespace),
            runtime: runtime.name.clone(),
            account: account.to_owned(),
            last_updated: Some(part.heard),
            ..ObjectMeta::default()
        },
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(rename_items = "PascalCase")]
enum ClusterConnectionStatus {
    Failed,
    Successful,
    Unknown,
}

/// A cluster that a runtime deploys to.
#[derive(SimpleObject)]
#[graphql(name = "Cluster")]
pub(crate) struct ClusterNode {
    metadata: ObjectMeta,
    server: String,
    info: ClusterInfo,
    /// The one that the runtime stands in.
    is_own: bool,
}

#[derive(SimpleObject)]
struct ClusterInfo {
    connection_state: ConnectionState,
    server_version: Option<String>,
    applications_count: usize,
    /// Not reported to the platform.
    cache_info: Option<CacheInfo>,
}

#[derive(SimpleObject)]
struct CacheInfo {
    resources_count: Option<i32>,
    apis_count: Option<i32>,
}

#[derive(SimpleObject)]
struct ConnectionState {
    status: ClusterConnectionStatus,
    message: Option<String>,
    attempted_at: Option<String>,
}

fn cluster(account: &str, cluster: ManagedCluster) -> ClusterNode {
    let status = match cluster.state.as_str() {
        "Successful" => ClusterConnectionStatus::Successful,
        "Failed" => ClusterConnectionStatus::Failed,
        _ => ClusterConnectionStatus::Unknown,
    };
    ClusterNode {
        metadata: ObjectMeta {
            kind: "Cluster".into(),
            name: cluster.name,
            runtime: cluster.runtime,
            cluster: said(&cluster.server),
            account: account.to_owned(),
            last_updated: cluster.since,
            ..ObjectMeta::default()
        },
        server: cluster.server,
        info: ClusterInfo {
            connection_state: ConnectionState {
                status,
                message: said(&cluster.message),
                attempted_at: cluster.attempted_at,
            },
            server_version: said(&cluster.server_version),
            applications_count: cluster.applications,
            cache_info: None,
        },
        is_own: cluster.is_own,
    }
}

#[derive(Default)]
pub(crate) struct RuntimesQuery;

#[Object]
impl RuntimesQuery {
    /// Runtimes, by name.
    #[graphql(guard = "Door(Policy::Member(Resource::Gitops))", complexity = "5 + child_complexity")]
    async fn runtimes(
        &self,
        context: &Context<'_>,
        pagination: Option<SlicePaginationArgs>,
    ) -> async_graphql::Result<RuntimeSlice> {
        let (server, caller) = asking(context);
        let account = caller.scope().account().to_string();
        let all = runtimes::list(&server, &caller).await.map_err(refuse)?;
        let node = |runtime| RuntimeNode { account: account.clone(), runtime };
        slice::of(all, |runtime| runtime.name.clone(), pagination.as_ref(), node)
    }

    /// One runtime; null where there is none of this name.
    #[graphql(guard = "Door(Policy::Member(Resource::Gitops))", complexity = "5 + child_complexity")]
    async fn runtime(
        &self,
        context: &Context<'_>,
        name: String,
    ) -> async_graphql::Result<Option<RuntimeNode>> {
        let (server, caller) = asking(context);
        let account = caller.scope().account().to_string();
        let found = runtimes::detail(&server, &caller, name).await;
        match found {
            Ok(detail) => Ok(Some(RuntimeNode { account, runtime: detail.runtime })),
            Err(error) if error.status() == axum::http::StatusCode::NOT_FOUND => Ok(None),
            Err(error) => Err(refuse(error)),
        }
    }

    /// The parts of a runtime's processes, as each last said.
    #[graphql(guard = "Door(Policy::Member(Resource::Gitops))", complexity = "5 + child_complexity")]
    async fn components(
        &self,
        context: &Context<'_>,
        runtime: String,
        pagination: Option<SlicePaginationArgs>,
    ) -> async_graphql::Result<ComponentSlice> {
        let (server, caller) = asking(context);
        let account = caller.scope().account().to_string();
        let detail = runtimes::detail(&server, &caller, runtime).await.map_err(refuse)?;
        let key = |part: &Component| format!("{}/{}", part.health.name, part.replica);
        let node = |one| component(&account, &detail.runtime, one);
        slice::of(detail.components, key, pagination.as_ref(), node)
    }

    /// Clusters that runtimes deploy to, of one runtime or all.
    #[graphql(guard = "Door(Policy::Member(Resource::Gitops))", complexity = "5 + child_complexity")]
    async fn clusters(
        &self,
        context: &Context<'_>,
        runtime: Option<String>,
        pagination: Option<SlicePaginationArgs>,
    ) -> async_graphql::Result<ClusterSlice> {
        let (server, caller) = asking(context);
        let account = caller.scope().account().to_string();
        let mut all = clusters::list(&server, &caller).await.map_err(refuse)?;
        // Published clients send an empty name for all.
        if let Some(runtime) = runtime.filter(|runtime| !runtime.is_empty()) {
            all.retain(|cluster| cluster.runtime == runtime);
        }
        let key = |cluster: &ManagedCluster| format!("{}/{}", cluster.runtime, cluster.name);
        slice::of(all, key, pagination.as_ref(), |one| cluster(&account, one))
    }
}
