//! What this runtime's process says of its work, for Administrators.

use axum::Json;
use axum::extract::State;
use slipway_api::proxy::{RuntimeLogs, RuntimeLogsRequest};

use super::{Proxy, Refusal};

/// When nobody says how many.
const LINES: usize = 1_000;

pub(super) async fn read(
    State(proxy): State<Proxy>,
    body: Option<Json<RuntimeLogsRequest>>,
) -> Result<Json<RuntimeLogs>, Refusal> {
    let RuntimeLogsRequest { component, tail } = body.map(|Json(body)| body).unwrap_or_default();
    let running = proxy.running()?;
    Ok(Json(running.config.own_log.read(&running.process, &component, tail.unwrap_or(LINES))))
}
