//! How the bytes of a tunnel travel: as they are, or inside of WebSocket frames.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use bytes::{Buf, Bytes};
use futures::{Sink, Stream};
use sha1::{Digest, Sha1};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// Frames of others may be larger; ours are not, so that a ping never waits long behind one.
const FRAME: usize = 64 << 10;
/// What HTTP/2 sends in one go stays far below; more is somebody else's protocol.
const FRAME_LIMIT: usize = 1 << 20;

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
    Framed(Box<Framed<IO>>),
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Carried<IO> {
    /// `io` after the upgrade was answered; `ours` is the platform's side.
    pub async fn new(carrier: Carrier, io: IO, ours: bool) -> Self {
        match carrier {
            Carrier::Raw => Self::Raw(io),
            Carrier::WebSocket => {
                let role = if ours { Role::Server } else { Role::Client };
                let limits = WebSocketConfig::default()
                    .max_frame_size(Some(FRAME_LIMIT))
                    .max_message_size(Some(FRAME_LIMIT))
                    .max_write_buffer_size(4 * FRAME_LIMIT);
                let frames = WebSocketStream::from_raw_socket(io, role, Some(limits)).await;
                Self::Framed(Box::new(Framed { frames, rest: Bytes::new() }))
            }
        }
    }
}

pub struct Framed<IO> {
    frames: WebSocketStream<IO>,
    /// Of a frame that was not read to its end.
    rest: Bytes,
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Framed<IO> {
    /// The next bytes; empty at the end.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            if !self.rest.is_empty() {
                return Poll::Ready(Ok(std::mem::take(&mut self.rest)));
            }
            match ready!(Pin::new(&mut self.frames).poll_next(context)) {
                Some(Ok(Message::Binary(bytes))) => self.rest = bytes,
                // Answered by the library.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Text(_))) => {
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a text frame in a tunnel",
                    )));
                }
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(Bytes::new())),
                Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => {
                    return Poll::Ready(Ok(Bytes::new()));
                }
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Framed<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = ready!(self.poll_bytes(context))?;
        let taken = bytes.len().min(into.remaining());
        into.put_slice(&bytes[..taken]);
        bytes.advance(taken);
        self.rest = bytes;
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Framed<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.frames).poll_ready(context)).map_err(broken)?;
        let taken = bytes.len().min(FRAME);
        let frame = Message::Binary(Bytes::copy_from_slice(&bytes[..taken]));
        Pin::new(&mut self.frames).start_send(frame).map_err(broken)?;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.frames).poll_flush(context).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.frames).poll_close(context)) {
            Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(broken(error))),
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
                let $one = Pin::new(&mut **$one);
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
                tokio::join!(Carried::new(carrier, one, true), Carried::new(carrier, other, false));
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

    #[tokio::test]
    async fn a_frame_that_is_too_large_ends_the_connection() {
        let (one, mut other) = tokio::io::duplex(10_000);
        let mut ours = Carried::new(Carrier::WebSocket, one, true).await;
        // A binary frame of 2^32 bytes, masked.
        other.write_all(&[0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4]).await.expect("written");
        assert!(ours.read(&mut [0; 1]).await.is_err());
    }
}
