//! One stream of a tunnel's connection: as the body of a message, or as bytes both ways once it was upgraded.
//!
//! In: the two halves of a stream as HTTP/2 has them. Out: bodies, and something to read and write. What was handed on is what the
//! other end may send again: whoever stops reading stops its own stream. Does not know requests.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use crate::Payload;
use crate::reading::{Read, Reading};
use crate::window::{Moved, Open};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What carries more than a message of its own may tell whoever counts.
pub(crate) type Counted = Option<Open>;

/// What the other end sends, as a body.
pub(crate) struct Received {
    /// Goes before the stream.
    _read: Read,
    stream: RecvStream,
    length: Option<u64>,
    counted: Counted,
    data_ended: bool,
    /// Whoever sends the other way hears by this that all of it was read, or that nobody wants the rest.
    whole: Option<oneshot::Sender<()>>,
}

impl Drop for Received {
    fn drop(&mut self) {
        if self.stream.is_end_stream()
            && let Some(whole) = self.whole.take()
        {
            let _ = whole.send(());
        }
    }
}

impl Received {
    pub(crate) fn new(
        mut stream: RecvStream,
        headers: &HeaderMap,
        counted: Counted,
        reading: &Reading,
    ) -> Self {
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let length = length.or_else(|| stream.is_end_stream().then_some(0));
        let _read = reading.begin(&mut stream);
        Self { _read, stream, length, counted, data_ended: false, whole: None }
    }

    pub(crate) fn telling(mut self, whole: Option<oneshot::Sender<()>>) -> Self {
        self.whole = whole;
        self
    }

    pub(crate) fn payload(self) -> Payload {
        self.boxed_unsync()
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if !this.data_ended {
            match ready!(this.stream.poll_data(context)) {
                Some(Ok(bytes)) => {
                    let _ = this.stream.flow_control().release_capacity(bytes.len());
                    if let Some(counted) = &mut this.counted {
                        counted.carried(bytes.len());
                    }
                    this.length = this.length.map(|length| length.saturating_sub(bytes.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                // Nothing went wrong; the other end wants no more and has said all.
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => this.data_ended = true,
            }
        }
        match ready!(this.stream.poll_trailers(context)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) if error.reason() == Some(Reason::NO_ERROR) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map(SizeHint::with_exact).unwrap_or_default()
    }
}

/// To the other end a small piece costs as much as one of some hundred bytes: a connection whose reader leaves many of them unread is
/// ended by h2, for all of its streams. So of many that come one soon after the other, each waits for a moment for those behind it.
const SMALL: usize = 1 << 10;
const TOGETHER: usize = 16 << 10;
const MANY: usize = 64;
const SOON: Duration = Duration::from_millis(2);
const MOMENT: Duration = Duration::from_millis(1);

/// Small pieces one soon after the other.
#[derive(Default)]
struct Run {
    pieces: usize,
    last: Option<Instant>,
}

impl Run {
    /// One more has come: whether it is one of many.
    fn goes_on(&mut self) -> bool {
        let soon = self.last.is_some_and(|last| last.elapsed() < SOON);
        self.pieces = if soon { self.pieces + 1 } else { 0 };
        self.pieces >= MANY
    }
}

/// What a body gives next: a frame, how it broke, or its end.
type Next = Option<Result<Frame<Bytes>, BoxError>>;

/// Sends a body to its end, with its trailers. One that breaks is reset, so that nobody takes half of it for the whole.
pub(crate) async fn send(mut body: Payload, mut to: SendStream<Bytes>, mut moved: Option<Moved>) {
    let (mut behind, mut run): (Option<Next>, _) = (None, Run::default());
    loop {
        let frame = match behind.take() {
            Some(frame) => frame,
            None => tokio::select! {
                frame = body.frame() => frame,
                // Also while nothing is to be sent: whoever reads no more is not sent to.
                _ = std::future::poll_fn(|context| to.poll_reset(context)) => return,
            },
        };
        let frame = match frame {
            None => return drop(to.send_data(Bytes::new(), true)),
            Some(Err(_)) => return to.send_reset(Reason::INTERNAL_ERROR),
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(bytes) => {
                let bytes = match bytes.len() < SMALL && run.goes_on() {
                    true => with_those_behind(&mut body, bytes, &mut behind).await,
                    false => bytes,
                };
                run.last = Some(Instant::now());
                let last = match &behind {
                    Some(next) => next.is_none(),
                    None => body.is_end_stream(),
                };
                let count = bytes.len();
                if send_bytes(&mut to, bytes, last).await.is_err() || last {
                    return;
                }
                if let Some(moved) = &mut moved {
                    moved.carried(count);
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    return drop(to.send_trailers(trailers));
                }
            }
        }
    }
}

/// A piece with those that come behind it in a moment. What is no piece stays `behind`.
async fn with_those_behind(body: &mut Payload, first: Bytes, behind: &mut Option<Next>) -> Bytes {
    let mut all = BytesMut::from(&first[..]);
    let until = tokio::time::Instant::now() + MOMENT;
    while all.len() < TOGETHER && !body.is_end_stream() {
        match tokio::time::timeout_at(until, body.frame()).await {
            Err(_) => break,
            Ok(Some(Ok(frame))) if frame.is_data() => {
                all.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
            Ok(next) => {
                *behind = Some(next);
                break;
            }
        }
    }
    all.freeze()
}

async fn send_bytes(to: &mut SendStream<Bytes>, mut bytes: Bytes, last: bool) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        let room = std::future::poll_fn(|context| poll_room(to, context, bytes.len())).await?;
        let piece = bytes.split_to(room.min(bytes.len()));
        let ends = last && bytes.is_empty();
        to.send_data(piece, ends)?;
        if ends {
            return Ok(());
        }
    }
    if last { to.send_data(Bytes::new(), true) } else { Ok(()) }
}

/// How many bytes may be sent now.
fn poll_room(
    to: &mut SendStream<Bytes>,
    context: &mut Context<'_>,
    wanted: usize,
) -> Poll<Result<usize, h2::Error>> {
    to.reserve_capacity(wanted);
    loop {
        let room = to.capacity();
        if room > 0 {
            return Poll::Ready(Ok(room));
        }
        if let Poll::Ready(reset) = to.poll_reset(context) {
            return Poll::Ready(Err(reset.map_or_else(|error| error, Into::into)));
        }
        match ready!(to.poll_capacity(context)) {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Poll::Ready(Err(error)),
            None => return Poll::Ready(Err(Reason::CANCEL.into())),
        }
    }
}

/// A stream that became a connection.
pub(crate) struct Duplex {
    /// Goes before the stream.
    _read: Read,
    to: SendStream<Bytes>,
    from: RecvStream,
    rest: Bytes,
    counted: Counted,
}

impl Duplex {
    pub(crate) fn new(
        to: SendStream<Bytes>,
        mut from: RecvStream,
        counted: Counted,
        reading: &Reading,
    ) -> Self {
        Self { _read: reading.begin(&mut from), to, from, rest: Bytes::new(), counted }
    }
}

/// The most that is taken over at a time.
const PIECE: usize = 64 << 10;

impl AsyncRead for Duplex {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.rest.is_empty() {
            match ready!(this.from.poll_data(context)) {
                Some(Ok(bytes)) => this.rest = bytes,
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let taken = this.rest.len().min(into.remaining());
        into.put_slice(&this.rest[..taken]);
        this.rest.advance(taken);
        let _ = this.from.flow_control().release_capacity(taken);
        if let Some(counted) = &mut this.counted {
            counted.carried(taken);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let wanted = bytes.len().min(PIECE);
        let room = ready!(poll_room(&mut self.to, context, wanted)).map_err(io::Error::other)?;
        let taken = room.min(wanted);
        self.to.send_data(Bytes::copy_from_slice(&bytes[..taken]), false).map_err(io::Error::other)?;
        if let Some(counted) = &mut self.counted {
            counted.carried(taken);
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // One that was reset needs no end.
        let _ = self.to.send_data(Bytes::new(), true);
        Poll::Ready(Ok(()))
    }
}
