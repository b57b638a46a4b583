//! Server-sent events of REST as what a subscription says. When REST ends the stream, the subscription ends.

use async_graphql::Value;
use axum::response::Response;
use futures::{Stream, StreamExt as _};
use slipway_api::application::ProxyOperation;
use slipway_api::proxy::{PodLogEntry, PodLogFailed};

type Said = async_graphql::Result<Value>;

pub(super) fn of(operation: ProxyOperation, answer: Response) -> impl Stream<Item = Said> + Send + 'static {
    let body = answer.into_body().into_data_stream();
    let events = futures::stream::unfold((body, String::new()), async |(mut body, mut text)| {
        loop {
            if let Some(end) = text.find("\n\n") {
                let event = text[..end].to_owned();
                text.drain(..end + 2);
                return Some((event, (body, text)));
            }
            // Events are whole texts in what our own REST sends: no character is cut.
            text.push_str(&String::from_utf8_lossy(&body.next().await?.ok()?));
        }
    });
    let words = events.map(|event| {
        let part = |name: &str| {
            let mut lines = event.lines();
            lines.find_map(|line| line.strip_prefix(name).map(|rest| rest.trim_start().to_owned()))
        };
        (part("event:").unwrap_or_default(), part("data:").unwrap_or_default())
    });
    let words = words.take_while(|(name, _)| futures::future::ready(name != "end"));
    words.filter_map(move |(name, data)| futures::future::ready(said(operation, &name, &data)))
}

/// `None`: nothing is said, the connection is kept.
fn said(operation: ProxyOperation, name: &str, data: &str) -> Option<Said> {
    if data.is_empty() {
        return None;
    }
    if name != "failed" {
        return Some(value(data));
    }
    let failure: PodLogFailed = serde_json::from_str(data)
        .unwrap_or_else(|_| PodLogFailed { pod: String::new(), message: data.to_owned() });
    if operation != ProxyOperation::Logs {
        return Some(Err(failure.message.into()));
    }
    let entry = PodLogEntry { pod: failure.pod, failed: Some(failure.message), ..PodLogEntry::default() };
    Some(value(&serde_json::to_string(&entry).unwrap_or_default()))
}

fn value(data: &str) -> Said {
    let read: serde_json::Value = serde_json::from_str(data)?;
    Ok(Value::from_json(read)?)
}
