//! Deletes one live object of an Application: of its tree, as the project permits, and only the very object that was looked at.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use slipway_api::proxy::{DeletePropagation, DeleteResourceRequest};
use slipway_cluster::{ObjectKey, Propagation};
use slipway_gitops::project;

use super::tree::Tree;
use super::{AppPath, Proxy, Refusal, done};

pub(super) async fn delete(
    State(proxy): State<Proxy>,
    path: AppPath,
    Json(request): Json<DeleteResourceRequest>,
) -> Result<Json<Value>, Refusal> {
    let tree = Tree::of(&proxy, path)?;
    let DeleteResourceRequest { group, kind, namespace, resource_name, propagation, force } = request;
    let key = ObjectKey::new(&group, &kind, &namespace, &resource_name);
    let live = tree.find(&key)?;
    let refused = |message: String| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "NOT_PERMITTED", message);
    if !project::permits_kind(&tree.project, &group, &kind, &resource_name, !namespace.is_empty()) {
        let project = tree.app.spec.project_name();
        return Err(refused(format!("project '{project}' does not permit {kind}/{resource_name}")));
    }
    let cluster = proxy.running()?.permits().writer(&tree.app, &tree.to).map_err(refused)?;
    let propagation = match propagation {
        DeletePropagation::Foreground => Propagation::Foreground,
        DeletePropagation::Background => Propagation::Background,
        DeletePropagation::Orphan => Propagation::Orphan,
    };
    let grace_seconds = force.then_some(0);
    // By its uid: one of the same name that came meanwhile is not meant.
    if !cluster.delete_within(&key, Some(&live.uid), propagation, grace_seconds).await? {
        return Err(tree.nothing(&key));
    }
    let what = format!("{kind}/{resource_name}");
    Ok(done(&match propagation {
        Propagation::Orphan => format!("{what} is deleted; what it owns stays"),
        _ if force => format!("{what} is deleted without waiting for it"),
        _ => format!("{what} is deleted"),
    }))
}
