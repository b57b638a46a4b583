//! What the engine serves by itself: metrics, a sign of life, and a place where Git providers call.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::webhook;

pub(crate) async fn serve(
    engine: Arc<Engine>,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), std::io::Error> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/api/webhook", post(hook).layer(DefaultBodyLimit::max(webhook::BODY_BYTES_MAX)))
        .with_state(engine);
    axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await }).await
}

async fn metrics(State(engine): State<Arc<Engine>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], engine.metrics_text())
}

async fn hook(State(engine): State<Arc<Engine>>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    webhook::receive(&engine, &headers, &body)
}

/// Takes the address before anything else starts, so that a wrong one is said at once.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, crate::RuntimeError> {
    TcpListener::bind(address).await.map_err(|source| crate::RuntimeError::Listen { address, source })
}
