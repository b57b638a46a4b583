//! Whoever is at the other end of a WebSocket: what is said to them, and whether they are there.
//!
//! They are asked every so often, however much is said meanwhile: who only listens says nothing but the answers to that. Does not
//! know what is said.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use futures::stream::SplitSink;
use futures::{SinkExt as _, Stream, StreamExt as _};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

/// It also keeps the connection: whoever is on the way closes one on which nothing is said.
pub(super) const PING_EVERY: Duration = Duration::from_secs(20);
/// Nothing was heard for so long, no answer to a ping either, or nothing was taken: nobody is there.
pub(super) const GONE_AFTER: Duration = Duration::from_secs(70);

/// Says all of it and closes; until then, or until nobody takes it.
pub(super) async fn tell(
    mut to: SplitSink<WebSocket, Message>,
    mut said: impl Stream<Item = Message> + Unpin,
    ping_every: Duration,
) {
    let mut beat = interval_at(Instant::now() + ping_every, ping_every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = said.next() => message,
            _ = beat.tick() => Some(Message::Ping(Bytes::new())),
        };
        let Some(message) = message else { break };
        if !matches!(timeout(GONE_AFTER, to.send(message)).await, Ok(Ok(()))) {
            return;
        }
    }
    let _ = timeout(GONE_AFTER, to.close()).await;
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::ws::WebSocketUpgrade;
    use axum::response::Response;
    use axum::routing::get;
    use tokio_tungstenite::tungstenite;

    use super::*;

    /// Something is said again and again, with no pause that is as long as a ping's.
    async fn talk(upgrade: WebSocketUpgrade) -> Response {
        upgrade.on_upgrade(|socket| async move {
            let (to, _from) = socket.split();
            let words = futures::stream::unfold(0, async |count| {
                tokio::time::sleep(Duration::from_millis(20)).await;
                (count < 50).then(|| (Message::Text("word".into()), count + 1))
            });
            tell(to, Box::pin(words), Duration::from_millis(100)).await;
        })
    }

    #[tokio::test]
    async fn who_only_listens_is_asked_whether_they_are_there() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", get(talk))).await });
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let (mut words, mut pings) = (0, 0);
        while let Some(Ok(heard)) = socket.next().await {
            match heard {
                tungstenite::Message::Text(_) => words += 1,
                tungstenite::Message::Ping(_) => pings += 1,
                _ => {}
            }
        }
        assert!(words == 50 && pings >= 3, "{words} words and {pings} pings");
    }
}
