//! How the bytes of a tunnel travel: as they are, or inside of WebSocket frames.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frames::Framed;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carrier {
    /// Through everything that lets browsers through.
    #[default]
    WebSocket,
    /// Nothing between the two HTTP/2 halves but TLS.
    Raw,
}

impl Carrier {
    /// What an agent asks to upgrade to.
    pub fn protocol(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Raw => crate::PROTOCOL,
        }
    }

    pub fn of_protocol(protocol: &str) -> Option<Self> {
        [Self::WebSocket, Self::Raw].into_iter().find(|one| one.protocol().eq_ignore_ascii_case(protocol))
    }
}

/// Proves that the other side understood that it is to speak WebSocket (RFC 6455, 4.2.2).
pub fn accept_key(key: &str) -> String {
    let digest =
        Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    base64::engine::general_purpose::STANDARD.encode(digest)
}

/// A tunnel's bytes, whichever way they travel.
pub enum Carried<IO> {
    Raw(IO),
    Framed(Framed<IO>),
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Carried<IO> {
    /// `io` after the upgrade was answered; `ours` is the platform's side.
    pub fn new(carrier: Carrier, io: IO, ours: bool) -> Self {
        match carrier {
            Carrier::Raw => Self::Raw(io),
            Carrier::WebSocket => Self::Framed(Framed::new(io, ours)),
        }
    }
}

macro_rules! either {
    ($self:ident, $one:ident => $call:expr) => {
        match $self.get_mut() {
            Carried::Raw($one) => {
                let $one = Pin::new($one);
                $call
            }
            Carried::Framed($one) => {
                let $one = Pin::new($one);
                $call
            }
        }
    };
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Carried<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, one => one.poll_read(context, into))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Carried<IO> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, one => one.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, one => one.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Raw(one) => one.is_write_vectored(),
            Self::Framed(one) => one.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, one => one.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, one => one.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn the_example_of_the_standard_is_answered() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn bytes_come_out_as_they_went_in_whichever_way_they_travel() {
        for carrier in [Carrier::Raw, Carrier::WebSocket] {
            let (one, other) = tokio::io::duplex(10_000);
            let (mut ours, mut theirs) =
                (Carried::new(carrier, one, true), Carried::new(carrier, other, false));
            let sent: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
            let expected = sent.clone();
            let writer = tokio::spawn(async move {
                theirs.write_all(&sent).await.expect("written");
                theirs.flush().await.expect("flushed");
                theirs.shutdown().await.expect("closed");
                theirs
            });
            let mut received = vec![0; expected.len()];
            ours.read_exact(&mut received).await.expect("read");
            assert!(received == expected, "{carrier:?}");
            assert_eq!(ours.read(&mut [0; 1]).await.expect("the end"), 0);
            writer.await.expect("no panic");
        }
    }
}
