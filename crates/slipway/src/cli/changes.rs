//! The server's change stream, for commands that watch: a GraphQL subscription over a WebSocket, as the web pages use it.
//!
//! In: a client of the server. Out: what changed, one batch at a time, so that a burst is one answer. A connection that is
//! lost is opened again; what happened meanwhile is `All`. It fetches nothing.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::{SinkExt as _, StreamExt as _};
use reqwest::header;
use serde_json::{Value, json};
use slipway_api::{Client, ClientError};
use slipway_model::Next;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;

const PATH: &str = "/2.0/api/graphql";
const RETRY_AFTER: Duration = Duration::from_millis(500);
const RETRIES_MAX: u32 = 60;
/// Proxies close connections on which nothing is said.
const PING_EVERY: Duration = Duration::from_secs(15);

type Socket = WebSocketStream<reqwest::Upgraded>;

/// What changed since the last batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Something may have been missed: fetch everything again.
    pub(crate) all: bool,
    /// Ids of what changed of the kind that is watched.
    pub(crate) ids: Vec<String>,
}

impl Batch {
    /// Whether this one may have changed.
    pub(crate) fn concerns(&self, id: &str) -> bool {
        self.all || self.ids.iter().any(|changed| changed == id)
    }
}

pub(crate) struct Changes {
    client: Client,
    /// `build`, `application`, …
    kind: &'static str,
    socket: Socket,
}

impl Changes {
    /// From now on: what is fetched afterwards misses nothing.
    pub(crate) async fn open(client: &Client, kind: &'static str) -> anyhow::Result<Self> {
        Ok(Self { client: client.clone(), kind, socket: connect(client).await? })
    }

    /// Waits for the next change of the kind, and takes what else has arrived by then.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Batch> {
        let mut unanswered = false;
        loop {
            let mut batch = Batch::default();
            match tokio::time::timeout(PING_EVERY, self.socket.next()).await {
                Err(_) if !unanswered => {
                    unanswered = true;
                    // Whether it was lost is found out by the next read.
                    let _ = self.socket.send(text(&json!({"type": "ping"}))).await;
                    continue;
                }
                Ok(Some(Ok(message))) if self.add(&mut batch, &message)? => unanswered = false,
                _ => return self.reconnected().await,
            }
            while let Some(Some(Ok(message))) = futures::FutureExt::now_or_never(self.socket.next()) {
                if !self.add(&mut batch, &message)? {
                    return self.reconnected().await;
                }
            }
            if batch != Batch::default() {
                return Ok(batch);
            }
        }
    }

    /// `false` when the subscription is over.
    fn add(&self, batch: &mut Batch, message: &Message) -> anyhow::Result<bool> {
        let Message::Text(text) = message else { return Ok(!message.is_close()) };
        let said: Value =
            serde_json::from_str(text).context("the change stream sent something unreadable")?;
        match said["type"].as_str() {
            Some("next") => {}
            Some("complete" | "error") => return Ok(false),
            _ => return Ok(true),
        }
        let change = &said["payload"]["data"]["changes"];
        match change["kind"].as_str() {
            Some("all") => batch.all = true,
            Some(kind) if kind == self.kind => {
                let id = change["id"].as_str().unwrap_or_default().to_owned();
                if !batch.ids.contains(&id) {
                    batch.ids.push(id);
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Whatever happened meanwhile was not told.
    async fn reconnected(&mut self) -> anyhow::Result<Batch> {
        note!("The connection was lost; reconnecting …");
        for _ in 0..RETRIES_MAX {
            match connect(&self.client).await {
                Ok(socket) => {
                    self.socket = socket;
                    return Ok(Batch { all: true, ids: Vec::new() });
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(_) => tokio::time::sleep(RETRY_AFTER).await,
            }
        }
        bail!("the server did not come back")
    }
}

/// Asks again while the server is away: a watch outlives a restart.
pub(crate) async fn patiently<T>(ask: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut failures = 0;
    loop {
        match ask().await {
            Err(error) if is_passing(&error) && failures < RETRIES_MAX => failures += 1,
            answer => return answer,
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

fn is_passing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(|error| error.next() == Next::Retry)
}

fn is_final(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(|error| error.next() == Next::NeedsHuman)
}

fn text(value: &Value) -> Message {
    Message::text(value.to_string())
}

async fn connect(client: &Client) -> anyhow::Result<Socket> {
    let request = client
        .request(reqwest::Method::GET, PATH)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, generate_key())
        .header(header::SEC_WEBSOCKET_PROTOCOL, "graphql-transport-ws");
    let answer = client.send(request).await?;
    if answer.status() != reqwest::StatusCode::SWITCHING_PROTOCOLS {
        bail!(
            "{} has no change stream to watch: a proxy in between may not pass WebSockets on",
            client.base()
        );
    }
    let upgraded = answer.upgrade().await.context("cannot open the change stream")?;
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
    socket.send(text(&json!({"type": "connection_init"}))).await?;
    answered(&mut socket, "connection_ack").await?;
    let query = "subscription Changes { changes { kind id } }";
    socket.send(text(&json!({"id": "1", "type": "subscribe", "payload": {"query": query}}))).await?;
    // Messages are read in order: whoever answers this has read the subscription.
    socket.send(text(&json!({"type": "ping"}))).await?;
    answered(&mut socket, "pong").await?;
    Ok(socket)
}

async fn answered(socket: &mut Socket, wanted: &str) -> anyhow::Result<()> {
    while let Some(message) = socket.next().await {
        if let Message::Text(text) = message? {
            let said: Value = serde_json::from_str(&text).unwrap_or_default();
            match said["type"].as_str() {
                Some(kind) if kind == wanted => return Ok(()),
                Some("error") => bail!("the server refused the change stream: {}", said["payload"]),
                _ => {}
            }
        }
    }
    bail!("the server closed the change stream")
}
