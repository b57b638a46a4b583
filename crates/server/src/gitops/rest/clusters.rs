//! Clusters that runtimes deploy to. Adding and removing is asked of the runtime itself ([`super::proxied`]).

use axum::Json;
use axum::extract::State;
use slipway_api::error::ErrorBody;
use slipway_api::managed_cluster::ManagedCluster;

use crate::ctx::Server;
use crate::gitops::clusters;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;

/// Clusters of all runtimes of the account, by runtime and name. Addresses and reasons are for Administrators.
#[utoipa::path(get, path = "/api/gitops/clusters", tag = "gitops", responses((status = 200, body = [ManagedCluster]), (status = 401, body = ErrorBody)))]
pub(crate) async fn list_clusters(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<ManagedCluster>>, ApiError> {
    Ok(Json(clusters::list(&server, &caller).await?))
}
