//! How an Application fares, as that changes: server-sent events, each the whole of what is reported of it.
//!
//! In: the Application. Out: its state now, and again whenever it is another one, until it is gone, or whoever looks may not any
//! more. Nothing is compared for it: it is what its engine saw last. Where another process of this runtime looks after it,
//! the custom resource alone says how it fares.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use slipway_api::application as wire;
use slipway_reconcile::Key;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

use super::{AppPath, Asker, Proxy, Refusal, app_key};
use crate::report::outward::masked;
use crate::report::view;

const QUEUE: usize = 4;
/// Whoever is between us and the reader closes connections on which nothing is said. It is also how often the copy of a custom
/// resource is looked at that others look after; that asks nobody.
const BEAT: Duration = Duration::from_secs(5);

pub(super) async fn live(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    path: AppPath,
) -> Result<Response, Refusal> {
    let place = proxy.stream()?;
    let key = app_key(path);
    // From before it is looked at, so that nothing falls between.
    let news = proxy.running()?.reporter.news();
    let first = proxy.state(&key)?;
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let _place = place;
        let follow = follow(&proxy, &key, first, news, &sender);
        let over = tokio::select! {
            over = follow => over,
            () = sender.closed() => return,
            message = proxy.until_revoked(&asker) => Some(message),
        };
        if let Some(message) = over {
            let data = serde_json::json!({"message": message});
            let _ = sender.try_send(format!("event: failed\ndata: {data}\n\n").into());
        } else {
            let _ = sender.try_send(Bytes::from_static(b"event: end\ndata: {}\n\n"));
        }
    });
    let events = futures::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Bytes>| {
        let event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response())
}

/// Until it is gone (`None`), or cannot be followed: why.
async fn follow(
    proxy: &Proxy,
    key: &Key,
    first: wire::Application,
    mut news: broadcast::Receiver<Key>,
    sender: &mpsc::Sender<Bytes>,
) -> Option<String> {
    let mut said = None;
    let mut now: Result<_, Refusal> = Ok(first);
    loop {
        match now {
            Ok(state) if said.as_ref() == Some(&state) => {}
            Ok(state) => {
                let data = serde_json::to_string(&state).unwrap_or_default();
                sender.send(format!("data: {data}\n\n").into()).await.ok()?;
                said = Some(state);
            }
            // Gone.
            Err(refusal) if refusal.status.is_client_error() => return None,
            Err(refusal) => return Some(refusal.message),
        }
        loop {
            match tokio::time::timeout(BEAT, news.recv()).await {
                Ok(Ok(about)) if about != *key => {}
                Ok(Ok(_) | Err(RecvError::Lagged(_))) => break,
                Ok(Err(RecvError::Closed)) => return Some("the runtime stops".into()),
                Err(_) => {
                    sender.send(Bytes::from_static(b": still here\n\n")).await.ok()?;
                    break;
                }
            }
        }
        now = proxy.state(key);
    }
}

impl Proxy {
    /// As it was last reported, or as far as its custom resource tells.
    fn state(&self, key: &Key) -> Result<wire::Application, Refusal> {
        let app = self.application(key)?;
        let running = self.running()?;
        if let Some(reported) = running.reporter.reported(key) {
            return Ok(reported);
        }
        let place = view::Place {
            destination_name: app.spec.destination.name.clone(),
            destination_server: app.spec.destination.server.clone(),
            git_sources: Vec::new(),
        };
        Ok(masked(view::application(&app, place, None)))
    }
}
