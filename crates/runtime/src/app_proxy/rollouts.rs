//! Orders to a Rollout of an Application: the same writes as `kubectl argo rollouts` makes, so that either controller carries them out.
//!
//! Only Rollouts of the Application's tree ([`super::tree`]) can be ordered; what cannot be done now is said, and nothing is written.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;
use slipway_api::proxy::RolloutRequest;
use slipway_cluster::{ObjectKey, WriteOptions};
use slipway_crd::names::GROUP;
use slipway_crd::rollout::Rollout;
use slipway_gitops::project;
use slipway_rollout::orders::{Order, Patch, writes};

use super::tree::Tree;
use super::{AppPath, Proxy, Refusal, done};

/// Each operation has an order of its own.
macro_rules! orders {
    ($($name:ident => $order:expr, $what:literal;)+) => {$(
        pub(super) async fn $name(
            State(proxy): State<Proxy>,
            path: AppPath,
            Json(request): Json<RolloutRequest>,
        ) -> Result<Json<Value>, Refusal> {
            order(&proxy, path, &request, &$order, $what).await
        }
    )+};
}

orders! {
    pause => Order::Pause, "is paused";
    resume => Order::Resume, "goes on";
    promote_full => Order::PromoteFull, "is promoted";
    skip_current_step => Order::SkipStep, "goes to the next step";
    abort => Order::Abort, "is aborted";
    retry => Order::Retry, "is tried again";
    restart => Order::Restart, "restarts its pods";
}

async fn order(
    proxy: &Proxy,
    path: AppPath,
    request: &RolloutRequest,
    order: &Order,
    what: &str,
) -> Result<Json<Value>, Refusal> {
    let tree = Tree::of(proxy, path)?;
    let RolloutRequest { namespace, resource_name } = request;
    let key = ObjectKey::new(GROUP, "Rollout", namespace, resource_name);
    tree.find(&key)?;
    let refused =
        |name: &'static str, message: String| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, name, message);
    if !project::permits_kind(&tree.project, GROUP, "Rollout", resource_name, true) {
        let project = tree.app.spec.project_name();
        let message = format!("project '{project}' does not permit Rollout/{resource_name}");
        return Err(refused("NOT_PERMITTED", message));
    }
    let found = tree.to.cluster.read(&key).await?.ok_or_else(|| tree.nothing(&key))?;
    let rollout: Rollout = serde_json::from_value(found)
        .map_err(|error| refused("NOT_READABLE", format!("the Rollout cannot be read: {error}")))?;
    let planned = writes(order, &rollout, &[], None, Timestamp::now());
    // What there is nothing to do about is no error of the cluster.
    let planned = planned.map_err(|why| Refusal::new(StatusCode::CONFLICT, "NOTHING_TO_DO", why))?;
    let writer = proxy.running()?.permits().writer(&tree.app, &tree.to);
    let cluster = writer.map_err(|message| refused("NOT_PERMITTED", message))?;
    for write in planned {
        let target = write.target.object();
        match (write.subresource, write.patch) {
            (Some(subresource), Patch::Merge(patch)) => {
                cluster.merge_subresource(&target, subresource, &patch).await?;
            }
            (None, Patch::Merge(patch)) => {
                cluster.merge(&target, &patch, WriteOptions::default()).await?;
            }
            (_, Patch::Json(operations)) => {
                cluster.json_patch(&target, &operations, WriteOptions::default()).await?;
            }
        }
    }
    Ok(done(&format!("{resource_name} {what}")))
}
