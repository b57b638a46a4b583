//! GraphQL at `/app-proxy/api/graphql`: the operations of REST, by another door.
//!
//! In: a document of one field, its `request`, and a pass for that operation. Out: what its sister in REST answers ([`sister`]), by the
//! fields that were asked for. Nothing is decided, limited or done here: a pass is looked at where REST looks at it. No cookie
//! and no key is looked at. The schema is made from the types of the contract ([`types`]) and the table of [`fields`].

mod document;
mod fields;
mod schema;
mod sister;
mod socket;
mod stream;
mod types;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_graphql::dynamic::Schema;
use async_graphql_axum::GraphQLProtocol;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use tokio::sync::Semaphore;

use super::Refusal;
use schema::{Refused, Shown};

/// A commit, with what GraphQL writes around it.
const BODY_BYTES_MAX: usize = 5 << 20;
/// Connections of pages at once; how many logs go on is limited where they are read.
const SOCKETS_MAX: usize = 256;

#[derive(Clone)]
struct Door {
    schema: Schema,
    sockets: Arc<Semaphore>,
}

pub(super) fn router(rest: Router) -> Router {
    let door = Door { schema: schema::schema(&rest), sockets: Arc::new(Semaphore::new(SOCKETS_MAX)) };
    Router::new()
        .route(
            "/app-proxy/api/graphql",
            post(query).get(subscribe).layer(DefaultBodyLimit::max(BODY_BYTES_MAX)),
        )
        .with_state(door)
}

/// As clients are generated from it.
pub fn sdl() -> String {
    schema::schema(&Router::new()).sdl()
}

async fn query(
    State(door): State<Door>,
    headers: HeaderMap,
    Json(request): Json<async_graphql::Request>,
) -> Result<Response, Refusal> {
    super::asking::pass(&headers)?;
    let shown = Shown(headers[header::AUTHORIZATION].clone());
    let refused = Refused::default();
    let answer = door.schema.execute(request.data(shown).data(refused.clone())).await;
    // What HTTP has a word for is said in it too; the rest is an answer with errors in it.
    let status = StatusCode::from_u16(refused.0.load(Ordering::Relaxed)).ok();
    let said = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::PAYLOAD_TOO_LARGE,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE,
    ];
    let status = status.filter(|status| said.contains(status)).unwrap_or(StatusCode::OK);
    Ok((status, Json(answer)).into_response())
}

async fn subscribe(
    State(door): State<Door>,
    headers: HeaderMap,
    protocol: Result<GraphQLProtocol, StatusCode>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Refusal> {
    let asked = headers.get(header::SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok());
    let is_ours =
        asked.is_some_and(|asked| asked.split(',').next().is_some_and(|one| one.trim() == socket::PROTOCOL));
    let (Ok(protocol), true) = (protocol, is_ours) else {
        let message = format!("a WebSocket here speaks `{}`", socket::PROTOCOL);
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "BAD_PROTOCOL", message));
    };
    let place = door.sockets.clone().try_acquire_owned().map_err(|_| {
        let message = format!("{SOCKETS_MAX} pages are connected to this runtime: try again later");
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_CONNECTIONS", message)
    })?;
    Ok(socket::answer(door.schema, protocol, upgrade, place))
}
