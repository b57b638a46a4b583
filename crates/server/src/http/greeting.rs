//! The first bytes of a connection: whether it speaks HTTP/2 from the start (RFC 9113, 3.3) or HTTP/1.1.
//!
//! In: a connection of which nothing was read. Out: which of the two, and the connection as if nothing had been. With TLS both ends have
//! agreed before; the first bytes say the same.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) struct Greeting(Vec<u8>);

impl Greeting {
    /// As far as it takes to tell.
    pub(super) async fn read(io: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let (mut read, mut buffer) = (Vec::new(), [0; HTTP2.len()]);
        while read.len() < HTTP2.len() && HTTP2.starts_with(&read) {
            let left = HTTP2.len() - read.len();
            match io.read(&mut buffer[..left]).await? {
                0 => break,
                count => read.extend_from_slice(&buffer[..count]),
            }
        }
        Ok(Self(read))
    }

    pub(super) fn is_http2(&self) -> bool {
        self.0 == HTTP2
    }

    /// The connection with what was read of it.
    pub(super) fn before<IO>(self, io: IO) -> Begun<IO> {
        Begun { first: self.0, io }
    }
}

/// A connection whose first bytes come again.
pub(super) struct Begun<IO> {
    first: Vec<u8>,
    io: IO,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Begun<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.io).poll_read(context, into);
        }
        let taken = self.first.len().min(into.remaining());
        into.put_slice(&self.first[..taken]);
        self.first.drain(..taken);
        if self.first.is_empty() {
            self.first = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Begun<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
