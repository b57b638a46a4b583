//! How many bytes went over a connection, counted where they pass.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Of one connection or of many.
#[derive(Debug, Default)]
pub struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
}

impl Traffic {
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// A stream whose bytes are counted, in each of these.
pub(crate) struct Counting<IO> {
    pub(crate) io: IO,
    pub(crate) traffic: Vec<Arc<Traffic>>,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Counting<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        let read = (buffer.filled().len() - before) as u64;
        for traffic in &self.traffic {
            traffic.received.fetch_add(read, Ordering::Relaxed);
        }
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Counting<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(context, bytes);
        self.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.wrote(&polled);
        polled
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

impl<IO> Counting<IO> {
    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(written)) = polled {
            for traffic in &self.traffic {
                traffic.sent.fetch_add(*written as u64, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_passes_is_counted_once_each_way() {
        let (near, mut far) = tokio::io::duplex(16);
        let (one, all) = (Arc::<Traffic>::default(), Arc::<Traffic>::default());
        let mut counting = Counting { io: near, traffic: vec![one.clone(), all.clone()] };
        counting.write_all(b"seven b").await.expect("written");
        far.write_all(b"three").await.expect("written");
        let mut heard = [0; 5];
        counting.read_exact(&mut heard).await.expect("read");
        for traffic in [one, all] {
            assert_eq!((traffic.sent(), traffic.received()), (7, 5));
        }
    }
}
