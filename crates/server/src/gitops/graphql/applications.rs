//! Applications, their releases and Git sources, as GraphQL shows them: only from what was reported, and only what the caller may see.

use std::collections::HashMap;

use async_graphql::{Context, InputObject, Object, SimpleObject};
use slipway_access::{Policy, Resource};
use slipway_api::application::{
    Application, ApplicationRow, Condition, Deployment, ImageChange, Operation, ResourceNode, Revision,
};

use super::meta::{ErrorLevels, HealthStatus, ObjectMeta, SyncError, SyncStatus, pairs};
use super::slice::{self, ApplicationSlice, GitSourceSlice, GitopsReleaseSlice, SlicePaginationArgs, part};
use crate::gitops::application_filter::{Filter, ListQuery};
use crate::gitops::applications;
use crate::http::error::ApiError;
use crate::http::graphql::{Door, asking, refuse, said};

/// Whole Applications may be large, so that a page of them is a small one.
const WHOLE_MAX: usize = 50;
/// What only a whole Application has.
const WHOLE_FIELDS: [&str; 4] = ["resources", "history", "images", "errors"];

/// What is not given, and a list of nothing, is any.
#[derive(Debug, Clone, Default, InputObject)]
pub(crate) struct ApplicationsFilterArgs {
    project: Option<String>,
    runtime: Option<String>,
    runtimes: Option<Vec<String>>,
    /// Names.
    applications: Option<Vec<String>>,
    /// A part of the name, namespace, project, repository, path or destination; several words must all be found.
    application_name: Option<String>,
    statuses: Option<Vec<SyncStatus>>,
    health_statuses: Option<Vec<HealthStatus>>,
    namespace: Option<String>,
    namespaces: Option<Vec<String>>,
    /// Addresses of the clusters that they deploy to.
    cluster_urls: Option<Vec<String>>,
    /// `key=value` or `key`; all must be there.
    labels: Option<Vec<String>>,
    /// `name` (unless given), `problems` (what needs attention first) or `changed` (the latest change first).
    sort: Option<String>,
}

impl ApplicationsFilterArgs {
    fn rows(&self, rows: Vec<ApplicationRow>) -> Result<Vec<ApplicationRow>, ApiError> {
        let sync = words(self.statuses.as_deref(), SyncStatus::word);
        let health = words(self.health_statuses.as_deref(), HealthStatus::word);
        // Asked for by a state that nothing here is ever in.
        if sync.as_deref() == Some("") || health.as_deref() == Some("") {
            return Ok(Vec::new());
        }
        let query = ListQuery {
            project: self.project.clone(),
            runtime: several(self.runtime.as_ref(), self.runtimes.as_deref()),
            namespace: several(self.namespace.as_ref(), self.namespaces.as_deref()),
            search: self.application_name.clone(),
            label: self.labels.as_ref().map(|labels| labels.join(",")),
            sort: self.sort.clone(),
            sync,
            health,
            ..ListQuery::default()
        };
        let mut rows = Filter::read(&query)?.all(rows);
        rows.retain(|row| {
            let among = |chosen: &Option<Vec<String>>, text: &String| {
                chosen.as_ref().is_none_or(|chosen| chosen.is_empty() || chosen.contains(text))
            };
            among(&self.applications, &row.name) && among(&self.cluster_urls, &row.destination_server)
        });
        Ok(rows)
    }
}

fn several(one: Option<&String>, many: Option<&[String]>) -> Option<String> {
    let all: Vec<&str> = one.into_iter().chain(many.into_iter().flatten()).map(String::as_str).collect();
    (!all.is_empty()).then(|| all.join(","))
}

fn words<T: Copy>(chosen: Option<&[T]>, word: fn(T) -> Option<&'static str>) -> Option<String> {
    let chosen = chosen.filter(|chosen| !chosen.is_empty())?;
    Some(chosen.iter().filter_map(|one| word(*one)).collect::<Vec<_>>().join(","))
}

pub(crate) struct ApplicationNode {
    account: String,
    row: ApplicationRow,
    /// Read where something is asked for that only it has.
    whole: Option<Box<Application>>,
}

#[derive(SimpleObject)]
struct ApplicationSource {
    #[graphql(name = "repoURL")]
    repo_url: String,
    path: String,
    /// The branch, tag, version or commit that it follows.
    target_revision: String,
    /// The commit that it was compared with.
    revision: Option<String>,
    commit_message: Option<String>,
    commit_author: Option<String>,
    commit_date: Option<String>,
}

#[derive(SimpleObject)]
struct ApplicationDestination {
    server: Option<String>,
    name: Option<String>,
    namespace: String,
}

#[derive(SimpleObject)]
struct ApplicationOperationState {
    /// Pending, Running, Succeeded, Failed, Error or Terminating.
    phase: String,
    message: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    initiated_by: String,
    /// As `why` of a release.
    why: Option<String>,
    revision: Option<String>,
    /// What it still waits for, as sentences.
    waiting_on: Vec<String>,
}

#[derive(SimpleObject)]
struct ApplicationResource {
    group: String,
    version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    /// `uid` of the owner; empty for what the Application itself declares.
    parent_uid: String,
    sync_status: Option<SyncStatus>,
    health_status: Option<HealthStatus>,
    health_message: Option<String>,
    requires_pruning: bool,
    info: Option<String>,
}

#[Object(name = "Application")]
impl ApplicationNode {
    async fn metadata(&self) -> ObjectMeta {
        meta(&self.account, &self.row)
    }

    async fn projects(&self) -> [&str; 1] {
        [&self.row.project]
    }

    async fn source(&self) -> ApplicationSource {
        let revision = self.row.revision.as_ref();
        let text = |of: fn(&Revision) -> &String| revision.map(of).filter(|text| !text.is_empty()).cloned();
        ApplicationSource {
            repo_url: self.row.repo_url.clone(),
            path: self.row.path.clone(),
            target_revision: self.row.target_revision.clone(),
            revision: text(|revision| &revision.sha),
            commit_message: text(|revision| &revision.message),
            commit_author: text(|revision| &revision.author),
            commit_date: text(|revision| &revision.date),
        }
    }

    async fn destination(&self) -> ApplicationDestination {
        ApplicationDestination {
            server: said(&self.row.destination_server),
            name: said(&self.row.destination_name),
            namespace: self.row.destination.clone(),
        }
    }

    async fn sync_status(&self) -> SyncStatus {
        SyncStatus::of(&self.row.sync_status)
    }

    async fn health_status(&self) -> HealthStatus {
        HealthStatus::of(&self.row.health_status)
    }

    async fn health_message(&self) -> Option<&str> {
        self.row.health_message.as_deref()
    }

    /// One sentence in plain words: what it is doing or waiting for, or what a person has to do.
    async fn summary(&self) -> &str {
        &self.row.summary
    }

    /// Whether it syncs by itself when Git changes.
    async fn automated(&self) -> bool {
        self.row.automated
    }

    #[graphql(name = "repoURL")]
    async fn repo_url(&self) -> &str {
        &self.row.repo_url
    }

    async fn path(&self) -> &str {
        &self.row.path
    }

    async fn revision(&self) -> Option<&str> {
        self.row.revision.as_ref().map(|revision| revision.sha.as_str())
    }

    /// When its state last changed; RFC 3339.
    async fn updated_at(&self) -> &str {
        &self.row.observed_at
    }

    async fn operation_state(&self) -> Option<ApplicationOperationState> {
        self.row.operation.as_ref().map(operation)
    }

    async fn errors(&self) -> Vec<SyncError> {
        self.whole.iter().flat_map(|app| &app.conditions).map(error).collect()
    }

    #[graphql(complexity = "5 + child_complexity")]
    async fn resources(&self) -> Vec<ApplicationResource> {
        self.whole.iter().flat_map(|app| &app.resources).map(resource).collect()
    }

    async fn images(&self) -> Vec<&str> {
        self.whole.iter().flat_map(|app| &app.images).map(String::as_str).collect()
    }

    /// What was deployed, the newest first.
    async fn history(&self) -> Vec<GitopsReleaseNode> {
        self.whole.iter().flat_map(|app| releases(&self.account, app)).collect()
    }
}

fn meta(account: &str, row: &ApplicationRow) -> ObjectMeta {
    ObjectMeta {
        group: "argoproj.io".into(),
        version: "v1alpha1".into(),
        kind: "Application".into(),
        name: row.name.clone(),
        namespace: said(&row.namespace),
        runtime: row.runtime.clone(),
        cluster: said(&row.destination_server),
        account: account.to_owned(),
        labels: pairs(&row.labels),
        last_updated: said(&row.observed_at),
        created: None,
    }
}

fn operation(operation: &Operation) -> ApplicationOperationState {
    ApplicationOperationState {
        phase: operation.phase.clone(),
        message: operation.message.clone(),
        started_at: said(&operation.started_at),
        finished_at: operation.finished_at.clone(),
        initiated_by: operation.initiated_by.clone(),
        why: said(&operation.why),
        revision: operation.revision.clone(),
        waiting_on: operation.waiting_on.clone(),
    }
}

fn error(condition: &Condition) -> SyncError {
    // As Argo names its conditions: `ComparisonError`, `OrphanedResourceWarning`.
    let level = if condition.kind.ends_with("Warning") { ErrorLevels::Warning } else { ErrorLevels::Error };
    SyncError {
        level,
        title: condition.kind.clone(),
        message: condition.message.clone(),
        suggestion: None,
        last_seen: condition.last_transition_time.clone(),
    }
}

fn resource(node: &ResourceNode) -> ApplicationResource {
    ApplicationResource {
        group: node.group.clone(),
        version: node.version.clone(),
        kind: node.kind.clone(),
        namespace: node.namespace.clone(),
        name: node.name.clone(),
        uid: node.uid.clone(),
        parent_uid: node.parent_uid.clone(),
        sync_status: node.status.as_ref().map(SyncStatus::of),
        health_status: node.health.as_ref().map(HealthStatus::of),
        health_message: node.health_message.clone(),
        requires_pruning: node.requires_pruning,
        info: node.info.clone(),
    }
}

/// One deployment of an Application.
#[derive(SimpleObject)]
#[graphql(name = "GitopsRelease")]
pub(crate) struct GitopsReleaseNode {
    application_metadata: ObjectMeta,
    history_id: i64,
    /// The newest of its Application.
    current: bool,
    revision: String,
    /// Of an Application with several sources: the revision of each.
    revisions: Vec<String>,
    commit_message: Option<String>,
    commit_author: Option<String>,
    commit_date: Option<String>,
    images: Vec<String>,
    /// Of these, what differs from the releases before, as far as those are known.
    image_changes: Vec<ReleaseImageChange>,
    started_at: Option<String>,
    deployed_at: String,
    initiated_by: String,
    /// Whether it was automation and nobody who asked for it.
    automated: bool,
    /// `first`, `commit`, `parameters`, `drift`, `manual` or `rollback`; absent where nobody can tell any more.
    why: Option<String>,
}

/// An image that another version took the place of.
#[derive(SimpleObject)]
struct ReleaseImageChange {
    /// Without tag and digest.
    image: String,
    /// Tags or digests; empty: it was not there.
    before: Vec<String>,
    after: Vec<String>,
}

fn image_change(change: &ImageChange) -> ReleaseImageChange {
    let ImageChange { image, before, after } = change.clone();
    ReleaseImageChange { image, before, after }
}

fn releases(account: &str, app: &Application) -> Vec<GitopsReleaseNode> {
    let row = ApplicationRow::from(app);
    let newest = app.history.iter().map(|entry| entry.id).max();
    let mut history: Vec<&Deployment> = app.history.iter().collect();
    history.sort_by_key(|entry| std::cmp::Reverse(entry.id));
    let node = |entry: &Deployment| GitopsReleaseNode {
        application_metadata: meta(account, &row),
        history_id: entry.id,
        current: Some(entry.id) == newest,
        revision: entry.revision.sha.clone(),
        revisions: entry.revisions.clone(),
        commit_message: said(&entry.revision.message),
        commit_author: said(&entry.revision.author),
        commit_date: said(&entry.revision.date),
        images: entry.images.clone(),
        image_changes: entry.image_changes.iter().map(image_change).collect(),
        started_at: entry.started_at.clone(),
        deployed_at: entry.deployed_at.clone(),
        initiated_by: entry.initiated_by.clone(),
        automated: entry.automated,
        why: said(&entry.why),
    };
    history.into_iter().map(node).collect()
}

/// An Application that brings others from a Git repository.
#[derive(SimpleObject)]
#[graphql(name = "GitSource")]
pub(crate) struct GitSourceNode {
    metadata: ObjectMeta,
    #[graphql(name = "self")]
    this: GitSourceSelf,
    sync_status: SyncStatus,
    health_status: HealthStatus,
    health_message: Option<String>,
    /// How many of the account's Applications it declares.
    applications: usize,
}

#[derive(SimpleObject)]
struct GitSourceSelf {
    path: String,
    #[graphql(name = "repoURL")]
    repo_url: String,
    status: GitSourceStatus,
}

#[derive(SimpleObject)]
struct GitSourceStatus {
    sync_status: SyncStatus,
    health_status: HealthStatus,
}

#[derive(Default)]
pub(crate) struct ApplicationsQuery;

#[Object]
impl ApplicationsQuery {
    /// Applications of every runtime that fit, by name unless asked otherwise.
    #[graphql(guard = "Door(Policy::Member(Resource::Gitops))", complexity = "5 + child_complexity")]
    async fn applications(
        &self,
        context: &Context<'_>,
        filters: Option<ApplicationsFilterArgs>,
        pagination: Option<SlicePaginationArgs>,
    ) -> async_graphql::Result<ApplicationSlice> {
        let (server, caller) = asking(context);
        let account = caller.scope().account().to_string();
        let filters = filters.unwrap_or_default();
        let node = context.look_ahead().field("edges").field("node");
        let whole = WHOLE_FIELDS.iter().any(|field| node.field(field).exists());
        // One reading: what is in the list is what is read whole, whatever goes meanwhile.
        let found = server.look(move |tx| {
            let rows = filters.rows(applications::visible(tx, &caller, None)?)?;
            let keys: Vec<_> = rows.iter().map(key).collect();
            let part = match part(&keys, pagination.as_ref()) {
                Ok(part) => part,
                Err(error) => return Ok(Err(error)),
            };
            let rows: Vec<_> = rows.into_iter().skip(part.range.start).take(part.range.len()).collect();
            if whole && rows.len() > WHOLE_MAX {
                let fields = WHOLE_FIELDS.join(", ");
                return Ok(Err(format!("{fields} can be asked for of {WHOLE_MAX} Applications at once: give `pagination: {{first: {WHOLE_MAX}}}`").into()));
            }
            let read = if whole { applications::whole(tx, &caller, &rows)? } else { Vec::new() };
            Ok(Ok((part, rows, read)))
        });
        let (part, rows, read) = found.await.map_err(refuse)??;
        let mut read: HashMap<_, _> =
            read.into_iter().map(|app| (key(&ApplicationRow::from(&app)), Box::new(app))).collect();
        let node = |row: ApplicationRow| {
            let whole = read.remove(&key(&row));
            ApplicationNode { account: account.clone(), row, whole }
        };
        Ok(part.with(rows.into_iter().map(node).collect::<Vec<_>>()))
    }

    /// One Application; null where there is none that you may see.
    #[graphql(guard = "Door(Policy::Member(Resource::Gitops))", complexity = "5 + child_complexity")]
    async fn application(
        &self,
        context: &Context<'_>,
        runtime: String,
        name: String,
        namespace: String,
    ) -> async_graphql::Result<Option<ApplicationNode>> {
        let account = asking(context).1.scope().account().to_string();
        let app = whole(context, runtime, namespace, name).await?;
        Ok(app.map(|app| ApplicationNode {
            account,
            row: ApplicationRow::from(&app),
            whole: Some(Box::new(app)),
        }))
    }

    /// What was deployed by one Application, the newest first.
    #[graphql(guard = "Door(Policy::Member(Resource::Gitops))", complexity = "5 + child_complexity")]
    async fn gitops_releases(
        &self,
        context: &Context<'_>,
        runtime: String,
        name: String,
        namespace: String,
        pagination: Option<SlicePaginationArgs>,
    ) -> async_graphql::Result<GitopsReleaseSlice> {
        let account = asking(context).1.scope().account().to_string();
        let app = whole(context, runtime, namespace, name).await?;
        let all = app.map(|app| releases(&account, &app)).unwrap_or_default();
        slice::of(all, |release| release.history_id.to_string(), pagination.as_ref(), |release| release)
    }

    /// Applications that bring others from Git, of one runtime or all.
    #[graphql(guard = "Door(Policy::Member(Resource::Gitops))", complexity = "5 + child_complexity")]
    async fn git_sources(
        &self,
        context: &Context<'_>,
        runtime: Option<String>,
        pagination: Option<SlicePaginationArgs>,
    ) -> async_graphql::Result<GitSourceSlice> {
        let (server, caller) = asking(context);
        let account = caller.scope().account().to_string();
        let rows =
            server.store().read(move |tx| applications::visible(tx, &caller, None)).await.map_err(refuse)?;
        // Published clients send an empty name for all.
        let runtime = runtime.filter(|runtime| !runtime.is_empty());
        let sources = git_sources(&account, &rows, runtime.as_deref());
        let key = |node: &GitSourceNode| format!("{}/{}", node.metadata.runtime, node.metadata.name);
        slice::of(sources, key, pagination.as_ref(), |source| source)
    }
}

async fn whole(
    context: &Context<'_>,
    runtime: String,
    namespace: String,
    name: String,
) -> async_graphql::Result<Option<Application>> {
    let (server, caller) = asking(context);
    let found = server.look(move |tx| applications::one(tx, &caller, &runtime, &namespace, &name)).await;
    match found {
        Ok(app) => Ok(Some(app)),
        Err(error) if error.status() == axum::http::StatusCode::NOT_FOUND => Ok(None),
        Err(error) => Err(refuse(error)),
    }
}

fn key(row: &ApplicationRow) -> String {
    format!("{}/{}/{}", row.runtime, row.namespace, row.name)
}

/// Those whose name another Application of the same runtime gives as where it comes from.
fn git_sources(account: &str, rows: &[ApplicationRow], runtime: Option<&str>) -> Vec<GitSourceNode> {
    let mut declared: HashMap<(&str, &str), usize> = HashMap::new();
    for row in rows {
        for source in row.git_sources.iter().filter(|source| **source != row.name) {
            *declared.entry((&row.runtime, source)).or_default() += 1;
        }
    }
    let node = |row: &ApplicationRow| {
        let applications = *declared.get(&(row.runtime.as_str(), row.name.as_str()))?;
        let (sync_status, health_status) =
            (SyncStatus::of(&row.sync_status), HealthStatus::of(&row.health_status));
        Some(GitSourceNode {
            metadata: meta(account, row),
            this: GitSourceSelf {
                path: row.path.clone(),
                repo_url: row.repo_url.clone(),
                status: GitSourceStatus { sync_status, health_status },
            },
            sync_status,
            health_status,
            health_message: row.health_message.clone(),
            applications,
        })
    };
    rows.iter().filter(|row| runtime.is_none_or(|runtime| row.runtime == runtime)).filter_map(node).collect()
}
