//! Subscriptions: `graphql-transport-ws` on a WebSocket, which a page can open.
//!
//! A page can set no header on one, so a pass comes with `connection_init` as `authorization`, or with a `subscribe` as
//! `extensions.pass`; never in the address. Who opens one and shows nothing good is let go of soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_graphql::dynamic::Schema;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Data, Executor, Request, Response};
use async_graphql_axum::{GraphQLProtocol, GraphQLWebSocket};
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::http::HeaderValue;
use futures::StreamExt as _;
use slipway_graphql::MESSAGE_BYTES_MAX;
use tokio::sync::OwnedSemaphorePermit;

use super::schema::Shown;

pub(super) const PROTOCOL: &str = "graphql-transport-ws";

/// A connection on which nothing goes on.
const IDLE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Whoever is between us and the page closes connections on which nothing is said.
const KEEPALIVE: Duration = Duration::from_secs(20);

pub(super) fn answer(
    schema: Schema,
    protocol: GraphQLProtocol,
    upgrade: WebSocketUpgrade,
    place: OwnedSemaphorePermit,
) -> axum::response::Response {
    let upgrade = upgrade.protocols([PROTOCOL]).max_message_size(MESSAGE_BYTES_MAX);
    upgrade.on_upgrade(move |socket| async move {
        let _place = place;
        serve(schema, protocol, socket).await;
    })
}

async fn serve(schema: Schema, protocol: GraphQLProtocol, socket: WebSocket) {
    let executor = Counted { schema, under_way: Arc::default() };
    let under_way = executor.under_way.clone();
    let serving = GraphQLWebSocket::new(socket, executor, protocol)
        .on_connection_init(|payload| async move { shown(&payload) })
        .keepalive_timeout(KEEPALIVE)
        .serve();
    let idle = async {
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if under_way.load(Ordering::Relaxed) > 0 {
                since = Instant::now();
            } else if since.elapsed() > IDLE {
                return;
            }
        }
    };
    tokio::select! { () = serving => {}, () = idle => {} }
}

/// The pass of the connection, if it has one.
fn shown(payload: &serde_json::Value) -> async_graphql::Result<Data> {
    let mut data = Data::default();
    let given = ["authorization", "Authorization"].iter().find_map(|name| payload[name].as_str());
    if let Some(given) = given {
        data.insert(Shown(HeaderValue::from_str(given).map_err(|_| "`authorization` is no pass")?));
    }
    Ok(data)
}

/// Knows whether anything is under way.
struct Counted {
    schema: Schema,
    under_way: Arc<AtomicUsize>,
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self { schema: self.schema.clone(), under_way: self.under_way.clone() }
    }
}

struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Executor for Counted {
    async fn execute(&self, request: Request) -> Response {
        let _counted = UnderWay::new(&self.under_way);
        self.schema.execute(request).await
    }

    fn execute_stream(
        &self,
        request: Request,
        session_data: Option<Arc<Data>>,
    ) -> BoxStream<'static, Response> {
        let counted = UnderWay::new(&self.under_way);
        let said = self.schema.execute_stream_with_session_data(request, session_data.unwrap_or_default());
        said.map(move |response| {
            let _ = &counted;
            response
        })
        .boxed()
    }
}
