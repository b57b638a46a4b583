//! Live fan-out: text to everybody who listens now. In-process, or through Redis to all processes.
//!
//! It may lose: while Redis is away nothing is heard, and [`Heard::Gap`] says so when it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{broadcast, mpsc};

use crate::{BusError, LiveUrl};

const CHANNEL: &str = "slipway:live";
/// What waits to be sent; beyond it new text is dropped, because nobody may be slowed by this.
const BACKLOG: usize = 4096;
const RECONNECT_EVERY: Duration = Duration::from_millis(300);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Text(Arc<str>),
    /// Something may have been missed: look again.
    Gap,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Live {
    heard: broadcast::Sender<Heard>,
    /// Without Redis what is said is heard here at once.
    outgoing: Option<mpsc::Sender<String>>,
    up: Arc<AtomicBool>,
}

impl Live {
    pub fn in_process() -> Self {
        Self { heard: broadcast::channel(BACKLOG).0, outgoing: None, up: Arc::new(AtomicBool::new(true)) }
    }

    pub async fn connect(url: &LiveUrl) -> Result<Self, BusError> {
        let LiveUrl::Redis(address) = url else { return Ok(Self::in_process()) };
        let (heard, _) = broadcast::channel(BACKLOG);
        let refuse = |error: redis::RedisError| BusError::Refused { why: error.to_string() };
        let client = redis::Client::open(address.url.as_str()).map_err(refuse)?;
        // The first connections are made now, so that a wrong address is told at start.
        let listening = subscribe(&client).await?;
        let sending = sender(&client).await?;
        let (outgoing, queue) = mpsc::channel(BACKLOG);
        let up = Arc::new(AtomicBool::new(true));
        tokio::spawn(listen(client.clone(), listening, heard.clone(), up.clone()));
        tokio::spawn(send(client, sending, queue));
        Ok(Self { heard, outgoing: Some(outgoing), up })
    }

    /// Never waits. Everybody who listens may hear it, the sender's own process included.
    pub fn say(&self, text: String) {
        match &self.outgoing {
            None => {
                let _ = self.heard.send(Heard::Text(text.into()));
            }
            Some(outgoing) => {
                if outgoing.try_send(text).is_err() {
                    tracing::debug!("The cache is slow or unreachable; live text was dropped.");
                }
            }
        }
    }

    /// Whether the cache is connected; always, within one process.
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    pub fn listen(&self) -> broadcast::Receiver<Heard> {
        self.heard.subscribe()
    }

    /// Whether other processes hear what is said here.
    pub fn reaches_others(&self) -> bool {
        self.outgoing.is_some()
    }
}

fn away(error: impl ToString) -> BusError {
    BusError::Unavailable { why: error.to_string() }
}

async fn subscribe(client: &redis::Client) -> Result<redis::aio::PubSub, BusError> {
    let connect = async {
        let mut connection = client.get_async_pubsub().await?;
        connection.subscribe(CHANNEL).await?;
        Ok::<_, redis::RedisError>(connection)
    };
    tokio::time::timeout(CONNECT_TIMEOUT, connect).await.map_err(away)?.map_err(away)
}

async fn sender(client: &redis::Client) -> Result<redis::aio::MultiplexedConnection, BusError> {
    let connect = client.get_multiplexed_async_connection();
    tokio::time::timeout(CONNECT_TIMEOUT, connect).await.map_err(away)?.map_err(away)
}

async fn listen(
    client: redis::Client,
    mut connection: redis::aio::PubSub,
    heard: broadcast::Sender<Heard>,
    up: Arc<AtomicBool>,
) {
    loop {
        let mut messages = connection.on_message();
        while let Some(message) = messages.next().await {
            if let Ok(text) = message.get_payload::<String>() {
                let _ = heard.send(Heard::Text(text.into()));
            }
        }
        drop(messages);
        up.store(false, Ordering::Relaxed);
        tracing::warn!("Lost the connection to the cache; reconnecting.");
        connection = loop {
            tokio::time::sleep(RECONNECT_EVERY).await;
            // Ends with the process: only this task and the bus hold the sender.
            if heard.strong_count() <= 1 {
                return;
            }
            if let Ok(again) = subscribe(&client).await {
                break again;
            }
        };
        up.store(true, Ordering::Relaxed);
        let _ = heard.send(Heard::Gap);
    }
}

async fn send(
    client: redis::Client,
    mut connection: redis::aio::MultiplexedConnection,
    mut queue: mpsc::Receiver<String>,
) {
    while let Some(text) = queue.recv().await {
        let said: redis::RedisResult<()> =
            redis::cmd("PUBLISH").arg(CHANNEL).arg(&text).query_async(&mut connection).await;
        if said.is_err() {
            tokio::time::sleep(RECONNECT_EVERY).await;
            if let Ok(again) = sender(&client).await {
                connection = again;
            }
        }
    }
}
