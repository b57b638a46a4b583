//! Opening a tunnel, and going through one.

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use slipway_access::Who;
use slipway_tunnel::{Carrier, TunnelName, accept_key, label_of};

use crate::ctx::Server;
use crate::gitops::peers;
use crate::gitops::tunnels::{self, Named};
use crate::http::error::ApiError;
use crate::http::roles::Role;
use crate::http::router::RequestInfo;
use crate::identity::auth::Caller;

/// `GET /api/agent/tunnel`: a runtime's connection becomes a tunnel, named by who the key says that it is.
pub(crate) async fn open(
    State(server): State<Server>,
    caller: Caller,
    mut request: Request,
) -> Result<Response, ApiError> {
    let Who::Runtime { name } = &caller.principal.who else {
        return Err(ApiError::forbidden("this needs a runtime's key"));
    };
    let name = TunnelName::new(caller.principal.account, name)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let wanted = text(request.headers(), header::UPGRADE);
    let carrier = Carrier::of_protocol(wanted).ok_or_else(|| {
        ApiError::bad_request(format!(
            "this opens tunnels and nothing else: ask to upgrade to {} or {}",
            Carrier::WebSocket.protocol(),
            Carrier::Raw.protocol()
        ))
    })?;
    let answer = agree(carrier, request.headers())?;
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(tunnels::serve(server, caller, name, carrier, upgrade));
    Ok(answer)
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn agree(carrier: Carrier, asked: &HeaderMap) -> Result<Response, ApiError> {
    let mut answer = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(carrier.protocol()));
    if carrier == Carrier::WebSocket {
        let key = text(asked, header::SEC_WEBSOCKET_KEY);
        let protocols = text(asked, header::SEC_WEBSOCKET_PROTOCOL);
        if key.is_empty() || !protocols.split(',').any(|one| one.trim() == slipway_tunnel::PROTOCOL) {
            return Err(ApiError::bad_request(format!(
                "a WebSocket here needs a key and the protocol `{}`",
                slipway_tunnel::PROTOCOL
            )));
        }
        let accept = HeaderValue::from_str(&accept_key(key)).expect("base64 is a header");
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        let protocol = HeaderValue::from_static(slipway_tunnel::PROTOCOL);
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(answer)
}

/// `GET /api/agent/peer`: another process of the platform, for tunnels that are held here.
pub(crate) async fn peer(State(server): State<Server>, mut request: Request) -> Result<Response, ApiError> {
    if text(request.headers(), header::UPGRADE) != Carrier::Raw.protocol() {
        return Err(ApiError::bad_request("this is for processes of the platform"));
    }
    let credential = text(request.headers(), header::AUTHORIZATION).to_owned();
    let process = peers::admit(&server, &credential).await.map_err(|why| {
        let from = request.extensions().get::<RequestInfo>().cloned().unwrap_or_default().address;
        tracing::warn!(from, why, "Refused a connection that is for processes of the platform.");
        ApiError::refused_credential(why)
    })?;
    let answer = agree(Carrier::Raw, request.headers())?;
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(peers::serve(server, process, upgrade));
    Ok(answer)
}

/// `/tunnels/<name>/app-proxy/…` and `/tunnels/<name>/webhooks/…`: a tunnel without a host of its own.
pub(crate) async fn by_path(
    State(server): State<Server>,
    Path((label, rest)): Path<(String, String)>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let name = TunnelName::of_label(&label).ok_or_else(|| ApiError::not_found("this tunnel"))?;
    if !["app-proxy/", "webhooks/"].iter().any(|part| rest.starts_with(part)) {
        return Err(ApiError::not_found("this path of a runtime: only /app-proxy and /webhooks are reached"));
    }
    // As it was sent: what was decoded once must not be decoded again.
    let whole = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let below = whole.splitn(4, '/').nth(3).map(|rest| format!("/{rest}")).unwrap_or_default();
    *request.uri_mut() =
        below.parse::<Uri>().map_err(|_| ApiError::bad_request("this path cannot be sent on"))?;
    let from = request.extensions().get::<RequestInfo>().cloned().unwrap_or_default().address;
    tunnels::forward(&server, &name, &from, Named::Path, request).await
}

/// Requests for a host below the tunnel domain are for a runtime and see nothing of the platform.
pub(crate) async fn by_host(State(server): State<Server>, request: Request, next: Next) -> Response {
    let Some(domain) = server.inner.config.network.tunnel_domain.clone() else {
        return next.run(request).await;
    };
    let domain = domain.split(':').next().unwrap_or_default().to_owned();
    if !is_below(&request, &domain) {
        return next.run(request).await;
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let answer = through(&server, &domain, request).await;
    answer.unwrap_or_else(|error| for_pages(&server, origin, error.into_response()))
}

/// A runtime that is away is told of where the platform's pages can read it; with its answers it says so itself.
fn for_pages(server: &Server, origin: Option<HeaderValue>, mut response: Response) -> Response {
    if let Some(origin) = origin.filter(|origin| *origin == server.public_url()) {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    response
}

/// Whether anything in the request names a host of the domain: then it is no request for the platform.
fn is_below(request: &Request, domain: &str) -> bool {
    let hosts = request.headers().get_all(header::HOST).iter().filter_map(|host| host.to_str().ok());
    let suffix = format!(".{}", domain.to_ascii_lowercase());
    hosts.chain(request.uri().authority().map(|authority| authority.as_str())).any(|host| {
        let host = host.rsplit_once(':').map_or(host, |(name, _)| name);
        host.to_ascii_lowercase().ends_with(&suffix)
    })
}

async fn through(server: &Server, domain: &str, request: Request) -> Result<Response, ApiError> {
    if !server.inner.roles.has(Role::TunnelServer) {
        return Err(ApiError::misdirected(format!(
            "this process has the roles {}; tunnels are served by {}: send the request to a process with that role",
            server.inner.roles,
            Role::TunnelServer.name()
        )));
    }
    let (parts, body) = request.into_parts();
    let name = label_of(&parts, domain).map_err(|error| ApiError::misdirected(error.to_string()))?;
    let from = parts.extensions.get::<RequestInfo>().cloned().unwrap_or_default().address;
    tunnels::forward(server, &name, &from, Named::Host, Request::from_parts(parts, body)).await
}
