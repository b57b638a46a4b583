//! The HTTPS server: connections, authentication, and which handler a path belongs to.
//!
//! Comes in: bytes. Goes out: Kubernetes answers. Does not know: what kinds mean; `api` does the work.

mod channels;
mod discovery;
mod forward;
mod gnostic;
mod listing;
mod openapi;
mod query;
mod reply;
mod resources;
mod reviews;
mod spdy;
mod streams;
mod table;
mod watching;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::api::Cluster;
use crate::auth::User;
use crate::error::{ApiError, ApiResult};
use query::Query;
pub(crate) use reply::Body;
use reply::{error_reply, json_reply, text_reply};

/// One request on its way through the handlers.
pub(crate) struct Ask {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) user: User,
    pub(crate) query: Query,
    pub(crate) request: Request<Incoming>,
    pub(crate) shutdown: CancellationToken,
}

impl Ask {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or("")
    }

    pub(crate) fn method(&self) -> &Method {
        self.request.method()
    }
}

/// Accepts until `shutdown`. Connections end by themselves then, because watches look at it too.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    cluster: Arc<Cluster>,
    shutdown: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
    loop {
        let (stream, peer) = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection.");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        tokio::spawn(connection(stream, peer, acceptor.clone(), cluster.clone(), shutdown.clone()));
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: TlsAcceptor,
    cluster: Arc<Cluster>,
    shutdown: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(Duration::from_secs(10), acceptor.accept(stream)).await;
    let Ok(Ok(stream)) = handshake else {
        tracing::debug!(%peer, "A TLS handshake failed.");
        return;
    };
    // The verifier let only certificates of our own CA through, and that CA signs admins only.
    let by_certificate = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
    let service = hyper::service::service_fn(move |request| {
        let (cluster, shutdown) = (cluster.clone(), shutdown.clone());
        async move { Ok::<_, std::convert::Infallible>(answer(request, by_certificate, cluster, shutdown).await) }
    });
    let mut server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    server.http2().max_concurrent_streams(1000);
    if let Err(error) = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
        tracing::debug!(%peer, %error, "A connection ended.");
    }
}

async fn answer(
    request: Request<Incoming>,
    by_certificate: bool,
    cluster: Arc<Cluster>,
    shutdown: CancellationToken,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/healthz" | "/livez" | "/readyz" => return text_reply("ok"),
        "/version" | "/version/" => return json_reply(StatusCode::OK, &version()),
        _ => {}
    }
    let query = Query::parse(request.uri().query().unwrap_or(""));
    let user = if by_certificate { Some(User::admin()) } else { bearer(&request, &cluster) };
    let Some(user) = user else {
        return error_reply(&ApiError::new(401, "Unauthorized", "Unauthorized"));
    };
    tracing::debug!(method = %request.method(), %path, user = %user.name, "Request.");
    let ask = Ask { cluster, user, query, request, shutdown };
    match route(ask, &path).await {
        Ok(response) => response,
        Err(error) => error_reply(&error),
    }
}

fn bearer(request: &Request<Incoming>, cluster: &Cluster) -> Option<User> {
    let header = request.headers().get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let token = header.strip_prefix("Bearer ").or_else(|| header.strip_prefix("bearer "))?;
    cluster.tokens.verify(token.trim(), cluster)
}

async fn route(ask: Ask, path: &str) -> ApiResult<Response<Body>> {
    let segments: Vec<String> =
        path.split('/').filter(|s| !s.is_empty()).map(slipway_dialect::percent::decode).collect();
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [] => Ok(json_reply(StatusCode::OK, &discovery::paths(&ask.cluster))),
        ["api"] => Ok(discovery::core_versions(&ask)),
        ["apis"] => Ok(discovery::groups(&ask)),
        ["api", "v1"] => discovery::resources(&ask, "", "v1"),
        ["apis", group] => discovery::group(&ask, group),
        ["apis", group, version] => discovery::resources(&ask, group, version),
        ["openapi", "v2"] => Ok(openapi::v2(&ask)),
        ["openapi", "v3"] => Ok(openapi::v3_index(&ask)),
        ["openapi", "v3", "api", "v1"] => openapi::v3(&ask, "", "v1"),
        ["openapi", "v3", "apis", group, version] => openapi::v3(&ask, group, version),
        ["api", "v1", rest @ ..] => resources::handle(ask, "", "v1", rest).await,
        ["apis", group, version, rest @ ..] => resources::handle(ask, group, version, rest).await,
        _ => Err(ApiError::no_such_path()),
    }
}

fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.4+slipway", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "rust", "compiler": "rustc",
        "platform": format!("linux/{}", if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }),
    })
}
