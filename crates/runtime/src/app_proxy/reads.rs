//! What may be read of an Application: differences, the plan of a sync, manifests. Nothing is changed by it.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;
use slipway_api::application::{
    ApplicationDiff, ApplicationManifests, ApplicationPlan, DiffRequest, Manifest, PlanRequest, PlanStep,
    ResourceDiff, ResourceManifest, ResourceRef, ResourceTree,
};
use slipway_cluster::ObjectKey;
use slipway_crd::SyncOperation;
use slipway_gitops::diff::{block_text, masked, unified};
use slipway_gitops::sync::{self, Action, SyncProgress};
use slipway_gitops::{SyncCode, object};

use super::tree::Tree;
use super::{AppPath, Proxy, Refusal, app_key, deployment};
use crate::engines::applications::observe::Observed;
use crate::report::tree;

fn comparable(observed: &Observed) -> Result<(), Refusal> {
    match &observed.comparison.context.error {
        Some(error) => Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "COMPARISON_ERROR", error.clone())),
        None => Ok(()),
    }
}

pub(super) async fn diff(
    State(proxy): State<Proxy>,
    path: AppPath,
    Query(query): Query<DiffRequest>,
) -> Result<Json<ApplicationDiff>, Refusal> {
    let key = app_key(path);
    let mut app = proxy.application(&key)?;
    if let Some(id) = query.deployment {
        app = deployment::as_deployed(&app, id)?;
    }
    let observed = proxy.running()?.view.observe(&key, &app).await;
    comparable(&observed)?;
    let resources = observed
        .comparison
        .resources
        .iter()
        .filter(|resource| !resource.hook)
        .map(|resource| {
            let (live, desired) = match &resource.diff {
                Some(diff) => (diff.live.clone(), diff.predicted.clone()),
                None => (Value::Null, Value::Null),
            };
            let change = match (live.is_null(), desired.is_null(), resource.status) {
                (true, false, _) => "add",
                (false, true, _) => "delete",
                (_, _, Some(SyncCode::OutOfSync)) => "change",
                _ => "same",
            };
            let name = format!("{}/{}", resource.key.kind, resource.key.name);
            ResourceDiff {
                group: resource.key.group.clone(),
                kind: resource.key.kind.clone(),
                namespace: resource.key.namespace.clone(),
                name: resource.key.name.clone(),
                change: change.into(),
                unified: if change == "same" { String::new() } else { unified(&name, &live, &desired) },
                live: block_text(&live),
                desired: block_text(&desired),
            }
        })
        .collect();
    Ok(Json(ApplicationDiff { resources }))
}

pub(super) async fn plan(
    State(proxy): State<Proxy>,
    path: AppPath,
    Query(query): Query<PlanRequest>,
) -> Result<Json<ApplicationPlan>, Refusal> {
    let (app, observed) = proxy.observe(&app_key(path)).await?;
    comparable(&observed)?;
    let automated_prune = app.spec.automation().is_some_and(|automated| automated.prune == Some(true));
    let revision =
        observed.desired.as_ref().and_then(|d| d.revisions().into_iter().next()).unwrap_or_default();
    let operation = SyncOperation {
        prune: query.prune.unwrap_or(automated_prune),
        sync_options: app.spec.sync_options().to_vec(),
        ..SyncOperation::default()
    };
    let progress = SyncProgress::start(Timestamp::now(), &revision);
    let plan = sync::plan(&observed.comparison, &operation, &progress);
    let steps = plan
        .steps
        .iter()
        .map(|step| PlanStep {
            phase: step.phase.as_str().into(),
            wave: step.wave,
            action: action(&step.action).into(),
            resource: step.key.to_string(),
            group: step.key.group.clone(),
            kind: step.key.kind.clone(),
            namespace: step.key.namespace.clone(),
            name: step.key.name.clone(),
            why: step.why.clone(),
        })
        .collect();
    let waiting = plan.waiting.iter().map(|waiting| waiting.plain()).collect();
    Ok(Json(ApplicationPlan { revision, steps, waiting, text: sync::explain(&plan) }))
}

fn action(action: &Action) -> &'static str {
    match action {
        Action::Apply { .. } => "apply",
        Action::Prune { .. } => "prune",
        Action::RunHook { .. } => "run hook",
        Action::ReleaseHook { .. } => "release hook",
        Action::DeleteHook { .. } => "delete hook",
    }
}

pub(super) async fn manifests(
    State(proxy): State<Proxy>,
    path: AppPath,
) -> Result<Json<ApplicationManifests>, Refusal> {
    let (_, observed) = proxy.observe(&app_key(path)).await?;
    comparable(&observed)?;
    let sensitive = proxy.running()?.settings.get().sensitive_annotations.clone();
    let manifests = observed
        .desired
        .iter()
        .flat_map(|desired| desired.with_origins())
        .map(|(manifest, origin)| Manifest {
            group: object::group(manifest).into(),
            kind: object::kind(manifest).into(),
            namespace: object::namespace(manifest).into(),
            name: object::name(manifest).into(),
            file: origin.file.clone(),
            line: origin.line,
            yaml: block_text(&masked(manifest, &sensitive)),
        })
        .collect();
    let revisions = observed.desired.as_ref().map(|desired| desired.revisions()).unwrap_or_default();
    Ok(Json(ApplicationManifests { revisions, manifests }))
}

/// What it declares and what that owns, also where the manifests in Git cannot be read now.
pub(super) async fn tree(State(proxy): State<Proxy>, path: AppPath) -> Result<Json<ResourceTree>, Refusal> {
    let (app, observed) = proxy.observe(&app_key(path)).await?;
    let family = proxy.running()?.view.family(&app, &observed.comparison);
    Ok(Json(ResourceTree { resources: tree::resources(&observed, &family) }))
}

/// One object of its tree as the cluster has it now, also one that nobody declared: a pod, a ReplicaSet.
pub(super) async fn resource(
    State(proxy): State<Proxy>,
    path: AppPath,
    Query(of): Query<ResourceRef>,
) -> Result<Json<ResourceManifest>, Refusal> {
    let tree = Tree::of(&proxy, path)?;
    let wanted = ObjectKey::new(&of.group, &of.kind, &of.namespace, &of.resource_name);
    tree.find(&wanted)?;
    let mut found = tree.to.cluster.read(&wanted).await?.ok_or_else(|| tree.nothing(&wanted))?;
    if let Some(metadata) = found["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    let sensitive = proxy.running()?.settings.get().sensitive_annotations.clone();
    Ok(Json(ResourceManifest { yaml: block_text(&masked(&found, &sensitive)) }))
}
