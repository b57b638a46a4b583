//! How many requests of a connection are under way, so that one of HTTP/2 that asks for nothing can go.
//!
//! HTTP/1.1 has a time for its next head; HTTP/2 has none, and who sends half of a head or nothing would stay for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::watch;

#[derive(Clone)]
pub(super) struct Requests(Arc<watch::Sender<usize>>);

impl Default for Requests {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Requests {
    pub(super) fn one(&self) -> UnderWay {
        self.0.send_modify(|count| *count += 1);
        UnderWay(self.clone())
    }

    /// Until there was none for this long.
    pub(super) async fn unused(&self, long: Duration) {
        let mut counts = self.0.subscribe();
        loop {
            if *counts.borrow_and_update() == 0 && tokio::time::timeout(long, counts.changed()).await.is_err()
            {
                return;
            }
            if *counts.borrow() > 0 && counts.changed().await.is_err() {
                return;
            }
        }
    }
}

pub(super) struct UnderWay(Requests);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// A body at whose end a request is over.
pub(super) struct Until<B> {
    pub(super) body: B,
    pub(super) _end: UnderWay,
}

impl<B: Body + Unpin> Body for Until<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
