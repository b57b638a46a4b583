//! Reads more at a time than it was asked for, while much comes.
//!
//! TLS asks for four kilobytes at a time, which is a call of the system for each. What is kept for it goes with the first
//! little thing that comes: a connection that is idle, but for pings, costs what it would without this.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const MUCH: usize = 64 << 10;
/// Whoever sends no more at a time is not sending much.
const LITTLE: usize = 4 << 10;

pub struct ReadAhead<IO> {
    io: IO,
    ahead: BytesMut,
    /// The last read took all that was asked for: there is more, most likely.
    more: bool,
}

impl<IO> ReadAhead<IO> {
    pub fn new(io: IO) -> Self {
        Self { io, ahead: BytesMut::new(), more: false }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for ReadAhead<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.ahead.is_empty() && (!this.more || into.remaining() >= MUCH) {
            let before = into.remaining();
            ready!(Pin::new(&mut this.io).poll_read(context, into))?;
            this.more = into.remaining() == 0 && before > 0;
            return Poll::Ready(Ok(()));
        }
        if this.ahead.is_empty() {
            this.ahead.reserve(MUCH);
            let read = tokio_util::io::poll_read_buf(Pin::new(&mut this.io), context, &mut this.ahead);
            this.more = ready!(read)? >= LITTLE;
        }
        let taken = this.ahead.len().min(into.remaining());
        into.put_slice(&this.ahead[..taken]);
        this.ahead.advance(taken);
        if this.ahead.is_empty() && !this.more {
            this.ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for ReadAhead<IO> {
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn every_byte_comes_once_and_nothing_is_kept_while_few_come() {
        let (near, mut far) = tokio::io::duplex(200_000);
        let mut ahead = ReadAhead::new(near);
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let writer = tokio::spawn(async move {
            far.write_all(&sent).await.unwrap();
            far
        });
        let mut heard = Vec::new();
        let mut piece = vec![0; 4096];
        while heard.len() < expected.len() {
            let count = ahead.read(&mut piece).await.unwrap();
            heard.extend_from_slice(&piece[..count]);
        }
        assert!(heard == expected);
        let mut far = writer.await.unwrap();
        far.write_all(&[7; 40]).await.unwrap();
        assert_eq!(ahead.read(&mut piece).await.unwrap(), 40);
        assert!(futures::future::poll_immediate(ahead.read(&mut piece)).await.is_none());
        assert_eq!(ahead.ahead.capacity(), 0);
        drop(far);
        assert_eq!(ahead.read(&mut piece).await.unwrap(), 0);
    }
}
