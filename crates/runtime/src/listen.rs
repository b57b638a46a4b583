//! What the runtime serves by itself: metrics, how its engines fare, a sign of life, and a place where Git providers call.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use slipway_dialect::prometheus;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::metrics;
use crate::webhook::{self, Webhooks};

/// What is served from.
struct Served {
    context: Context,
    webhooks: Arc<Webhooks>,
}

pub(crate) async fn serve(
    context: Context,
    webhooks: Arc<Webhooks>,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), std::io::Error> {
    let router = Router::new()
        .route("/metrics", get(exposition))
        .route("/engines", get(engines))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/api/webhook", post(hook).layer(DefaultBodyLimit::max(webhook::BODY_BYTES_MAX)))
        .with_state(Arc::new(Served { context, webhooks }));
    let router = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await }).await
}

async fn exposition(State(served): State<Arc<Served>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], metrics::text(&served.context))
}

/// How each engine fares, and what fails. Nobody signs in here, so that the reasons, which may quote what a service
/// answered, are for whoever is on this machine (`kubectl port-forward` is).
async fn engines(
    State(served): State<Arc<Served>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> impl IntoResponse {
    let mut engines = served.context.tasks.status();
    if !peer.ip().is_loopback() {
        for failing in engines.iter_mut().flat_map(|engine| &mut engine.errors) {
            failing.error.clear();
        }
    }
    axum::Json(engines)
}

async fn hook(State(served): State<Arc<Served>>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    webhook::receive(&served.webhooks, &headers, &body)
}

/// Takes the address before anything else starts, so that a wrong one is said at once.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, crate::RuntimeError> {
    TcpListener::bind(address).await.map_err(|source| crate::RuntimeError::Listen { address, source })
}
