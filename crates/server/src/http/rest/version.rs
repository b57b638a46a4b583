//! Which version this is, as the published CLI asks for it.

use axum::Json;
use serde::Serialize;
use slipway_api::error::ErrorBody;
use utoipa::ToSchema;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServerVersion {
    current_version: &'static str,
    /// What the published CLI prints.
    current_commit: &'static str,
}

/// The version of the server.
#[utoipa::path(get, path = "/api/version", tag = "user",
    responses((status = 200, body = ServerVersion), (status = 401, body = ErrorBody)))]
pub(crate) async fn of_server() -> Json<ServerVersion> {
    Json(ServerVersion { current_version: VERSION, current_commit: VERSION })
}
