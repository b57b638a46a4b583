//! Whether the other end is still there: a ping every few seconds, and what else was heard of it.
//!
//! A connection that swallows everything is noticed after [`limits::PING_EVERY`] and [`limits::PING_WITHIN`]. An answer that is late
//! because much else comes is no silence.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::limits;

/// What pings of the other end alone could be: whose answers go nowhere may still be heard asking.
const FEW: u64 = 256;

/// Counts what is heard.
pub(crate) struct Heard<IO> {
    io: IO,
    bytes: Arc<AtomicU64>,
}

impl<IO> Heard<IO> {
    pub(crate) fn new(io: IO) -> (Self, Arc<AtomicU64>) {
        let bytes = Arc::<AtomicU64>::default();
        (Self { io, bytes: bytes.clone() }, bytes)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Heard<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, into))?;
        self.bytes.fetch_add((into.filled().len() - before) as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Heard<IO> {
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
        pieces: &[io::IoSlice<'_>],
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

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// The other end answered: it has read whatever was sent before that ping.
    Answered,
    Silent,
}

pub(crate) struct Pulse {
    pings: PingPong,
    timer: Pin<Box<Sleep>>,
    heard: Arc<AtomicU64>,
    /// What was heard when the ping went out that has no answer.
    waiting: Option<u64>,
    again: bool,
}

impl Pulse {
    pub(crate) fn new(pings: PingPong, heard: Arc<AtomicU64>) -> Self {
        let timer = Box::pin(tokio::time::sleep(limits::PING_EVERY));
        Self { pings, timer, heard, waiting: None, again: false }
    }

    /// Asks now, or as soon as the last one was answered.
    pub(crate) fn ask(&mut self) {
        if self.waiting.is_some() {
            self.again = true;
        } else {
            self.send();
        }
    }

    fn send(&mut self) {
        self.again = false;
        if self.pings.send_ping(Ping::opaque()).is_ok() {
            self.waiting = Some(self.heard.load(Ordering::Relaxed));
            self.timer.as_mut().reset(Instant::now() + limits::PING_WITHIN);
        }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Beat> {
        if self.waiting.is_some()
            && let Poll::Ready(Ok(_)) = self.pings.poll_pong(context)
        {
            self.waiting = None;
            self.timer.as_mut().reset(Instant::now() + limits::PING_EVERY);
            if self.again {
                self.send();
            }
            return Poll::Ready(Beat::Answered);
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            let now = self.heard.load(Ordering::Relaxed);
            match self.waiting {
                None => {
                    self.send();
                    if self.waiting.is_none() {
                        // The connection is ending, and says so itself.
                        self.timer.as_mut().reset(Instant::now() + limits::PING_WITHIN);
                    }
                    // Whoever waits for the answer is told of it.
                    context.waker().wake_by_ref();
                }
                Some(before) if now - before > FEW => {
                    self.waiting = Some(now);
                    self.timer.as_mut().reset(Instant::now() + limits::PING_WITHIN);
                }
                Some(_) => return Poll::Ready(Beat::Silent),
            }
        }
    }
}

/// A window that the other end is told, until it has said that it has it.
pub(crate) struct Telling {
    window: u32,
    sent: bool,
}

impl Telling {
    /// `set` says whether the connection took it: not while the other end has still to say yes to the last one.
    pub(crate) fn begin(window: u32, set: impl FnOnce(u32) -> bool, pulse: &mut Pulse) -> Self {
        let sent = set(window);
        pulse.ask();
        Self { window, sent }
    }

    /// After a beat: whether it is in effect. A second one is taken when the first was said yes to, and changes nothing.
    pub(crate) fn heard(&mut self, set: impl FnOnce(u32) -> bool, pulse: &mut Pulse) -> bool {
        let taken = set(self.window);
        if taken && self.sent {
            return true;
        }
        self.sent |= taken;
        pulse.ask();
        false
    }
}
