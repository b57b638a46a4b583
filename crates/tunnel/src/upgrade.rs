//! Two upgraded streams, one copied into the other until both have ended.

use std::io;

use http::Request;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use crate::server::Opening;
use crate::stream::Duplex;

/// What becomes a stream of bytes once it was answered.
pub(crate) enum Side {
    /// A connection of HTTP/1.1.
    Connection(OnUpgrade),
    /// A stream of a tunnel, which somebody else opens.
    Opening(oneshot::Receiver<Duplex>),
    Open(Duplex),
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Side {
    pub(crate) fn of<B>(request: &mut Request<B>) -> Self {
        let opening = request.extensions_mut().remove::<Opening>();
        match opening.and_then(|opening| opening.take()) {
            Some(opening) => Self::Opening(opening),
            None => Self::Connection(hyper::upgrade::on(request)),
        }
    }

    async fn opened(self) -> io::Result<Box<dyn Io>> {
        Ok(match self {
            Self::Connection(upgrade) => Box::new(TokioIo::new(upgrade.await.map_err(io::Error::other)?)),
            Self::Opening(opening) => Box::new(opening.await.map_err(io::Error::other)?),
            Self::Open(duplex) => Box::new(duplex),
        })
    }
}

/// Goes on by itself. A side that ends is shut down towards the other; a side that breaks ends both.
pub(crate) fn join(one: Side, other: Side) {
    tokio::spawn(async move {
        let (mut one, mut other) = match tokio::try_join!(one.opened(), other.opened()) {
            Ok(both) => both,
            Err(error) => {
                tracing::debug!(%error, "An upgrade did not come about.");
                return;
            }
        };
        if let Err(error) = tokio::io::copy_bidirectional(&mut one, &mut other).await {
            tracing::debug!(%error, "An upgraded stream broke.");
        }
    });
}
