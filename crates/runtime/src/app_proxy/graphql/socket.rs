//! Subscriptions: `graphql-transport-ws` on a WebSocket, which a page can open.
//!
//! A page can set no header on one, so a pass comes with `connection_init` as `authorization`, or with a `subscribe` as
//! `extensions.pass`; never in the address. Who opens one and shows nothing good is let go of soon, and so is who is gone; who
//! only listens is not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_graphql::dynamic::Schema;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Data, Executor, Request, Response};
use async_graphql_axum::{GraphQLProtocol, GraphQLWebSocket};
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::http::HeaderValue;
use futures::StreamExt as _;
use futures::channel::mpsc;
use futures::future::ready;
use slipway_graphql::MESSAGE_BYTES_MAX;
use tokio::sync::OwnedSemaphorePermit;

use super::super::peer::{GONE_AFTER, PING_EVERY, tell};
use super::schema::Shown;

pub(super) const PROTOCOL: &str = "graphql-transport-ws";

/// A connection on which nothing goes on.
const IDLE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Operations of one connection at once.
const UNDER_WAY_MAX: usize = 16;

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
    let (under_way, counted) = (executor.under_way.clone(), executor.under_way.clone());
    let (to, from) = socket.split();
    let heard = Arc::new(Mutex::new(Instant::now()));
    let hears = heard.clone();
    let from = from.inspect(move |_| *hears.lock().expect("no panic while locked") = Instant::now());
    // The library reads as fast as somebody writes, and keeps all that they begin: who begins more than any page does is let go of.
    let from = from.take_while(move |_| ready(counted.load(Ordering::Relaxed) <= UNDER_WAY_MAX));
    let (say, said) = mpsc::channel(1);
    let serving = GraphQLWebSocket::new_with_pair(say, from, executor, protocol)
        .on_connection_init(|payload| async move { shown(&payload) })
        .serve();
    let idle = async {
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if heard.lock().expect("no panic while locked").elapsed() > GONE_AFTER {
                return;
            }
            if under_way.load(Ordering::Relaxed) > 0 {
                since = Instant::now();
            } else if since.elapsed() > IDLE {
                return;
            }
        }
    };
    // When it ends, so does what is said, and then the connection.
    let serving = async {
        serving.await;
        std::future::pending::<()>().await;
    };
    tokio::select! { () = serving => {}, () = tell(to, said, PING_EVERY) => {}, () = idle => {} }
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
