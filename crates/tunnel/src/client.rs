//! The end of a tunnel's connection that asks: the platform's.
//!
//! In: a byte stream, requests. Out: answers, and requests that were never sent, for another tunnel. It decides for both ends which
//! window a stream has ([`crate::window`]): its own by its settings, the other end's by asking it to.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use h2::ext::Protocol;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use crate::pulse::{Beat, Heard, Pulse, Telling};
use crate::reading::Reading;
use crate::stream::{Duplex, Received, send};
use crate::window::{Change, Windows};
use crate::{Payload, TunnelError, limits, window};

/// What the other end is asked with to give its streams another window: an extended CONNECT of this protocol, whose path is the number
/// of bytes. An end that does not know it refuses, and keeps the window that it has.
pub(crate) const WINDOW: &str = "slipway-window";

/// A request may go on after its answer has ended, but not for ever.
const BEHIND_THE_ANSWER: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 30 });

/// Sends requests through one connection.
pub(crate) struct Client {
    sender: SendRequest<Bytes>,
    windows: Arc<Windows>,
    reading: Reading,
    ended: Arc<AtomicBool>,
}

pub(crate) enum Failed {
    /// Nothing of it went out.
    Unsent(Request<Payload>),
    Broken(h2::Error),
}

pub(crate) enum Answer {
    Plain(Response<Payload>),
    /// To an extended CONNECT: what comes after the head is a stream of bytes.
    Opened(Response<()>, Duplex),
}

impl Client {
    pub(crate) fn is_closed(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Sends it once.
    pub(crate) async fn send(&self, request: Request<Payload>) -> Result<Answer, Failed> {
        let Some(open) = self.windows.enter().await else { return Err(Failed::Unsent(request)) };
        let Ok(mut sender) = self.sender.clone().ready().await else { return Err(Failed::Unsent(request)) };
        let connecting = request.method() == Method::CONNECT;
        let ends = !connecting && request.body().is_end_stream();
        let Ok((answer, stream)) = sender.send_request(head_of(&request), ends) else {
            return Err(Failed::Unsent(request));
        };
        // One of the two directions counts as the stream: the answer, which is never over before it was read.
        let (mut stream, mut whole) = (Some(stream), None);
        if !connecting && let Some(stream) = stream.take_if(|_| !ends) {
            let (answered, over) = oneshot::channel();
            let sending = send(request.into_body(), stream, Some(open.other_way()));
            tokio::spawn(async move {
                tokio::select! {
                    () = sending => {}
                    () = until_over(over) => {}
                }
            });
            whole = Some(answered);
        }
        let answer = answer.await.map_err(Failed::Broken)?;
        let (parts, body) = answer.into_parts();
        match stream {
            Some(stream) if connecting && parts.status.is_success() => {
                let duplex = Duplex::new(stream, body, Some(open), &self.reading);
                Ok(Answer::Opened(Response::from_parts(parts, ()), duplex))
            }
            _ => {
                let body = Received::new(body, &parts.headers, Some(open), &self.reading);
                Ok(Answer::Plain(Response::from_parts(parts, body.telling(whole).payload())))
            }
        }
    }
}

/// Until nobody needs the rest of a request: `whole` is told that its answer was read to the end, or goes with whoever wanted that. The
/// other end may take no more of it and say nothing, for as long as the tunnel is open.
async fn until_over(whole: oneshot::Receiver<()>) {
    if whole.await.is_ok() {
        tokio::time::sleep(BEHIND_THE_ANSWER).await;
    }
}

/// Without the body; the request itself is kept for when it cannot be sent.
fn head_of(request: &Request<Payload>) -> Request<()> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.version_mut() = http::Version::HTTP_2;
    *head.headers_mut() = request.headers().clone();
    if let Some(protocol) = request.extensions().get::<Protocol>() {
        head.extensions_mut().insert(protocol.clone());
    }
    head
}

/// What keeps a connection going; it ends when nobody does.
pub(crate) struct Driver<IO: AsyncRead + AsyncWrite + Unpin> {
    connection: Connection<Heard<IO>, Bytes>,
    sender: SendRequest<Bytes>,
    pulse: Pulse,
    windows: Arc<Windows>,
    reading: Reading,
    ended: Arc<AtomicBool>,
    /// The other end keeps its windows as they are.
    fixed: bool,
}

/// Waiters and handles know that it is over, however it ends.
impl<IO: AsyncRead + AsyncWrite + Unpin> Drop for Driver<IO> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.windows.close();
    }
}

/// Greets the other end. It may be asked at once.
pub(crate) async fn handshake<IO>(io: IO) -> Result<(Client, Driver<IO>), TunnelError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let (io, heard) = Heard::new(io);
    let (sender, mut connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(window::SMALLEST)
        .initial_connection_window_size(window::BUDGET)
        .max_frame_size(limits::FRAME)
        .max_header_list_size(limits::HEADERS)
        .max_concurrent_reset_streams(limits::LEFT)
        .reset_stream_duration(limits::REMEMBERED)
        .max_local_error_reset_streams(Some(limits::ASTRAY))
        .handshake(io)
        .await?;
    let pings = connection.ping_pong().ok_or(TunnelError::Silent)?;
    let windows = Windows::new();
    let ended = Arc::<AtomicBool>::default();
    let reading = Reading::default();
    let client = Client {
        sender: sender.clone(),
        windows: windows.clone(),
        reading: reading.clone(),
        ended: ended.clone(),
    };
    let pulse = Pulse::new(pings, heard);
    let mut driver = Driver { connection, sender, pulse, windows, reading, ended, fixed: false };
    // Whether anybody is there is known soon, and not after a first pause.
    driver.pulse.ask();
    Ok((client, driver))
}

/// A change of windows that is under way.
struct Changing {
    change: Change,
    /// Ours, until the other end has said that it knows.
    ours: Option<Telling>,
    /// The other end's, until it has answered.
    theirs: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
}

enum Step {
    Closed,
    Answered,
    Told(bool),
    Wanted,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Driver<IO> {
    /// Until the connection ends.
    pub(crate) async fn run(mut self) -> Result<(), TunnelError> {
        let mut changing = None;
        loop {
            match self.step(&mut changing).await? {
                Step::Closed => return Ok(()),
                Step::Answered => {
                    self.windows.beat();
                    self.heard(&mut changing);
                }
                Step::Told(taken) => {
                    self.fixed |= !taken;
                    if let Some(changing) = &mut changing {
                        changing.theirs = None;
                    }
                }
                Step::Wanted => {}
            }
            if let Some(done) = changing.take_if(|one| one.ours.is_none() && one.theirs.is_none()) {
                self.windows.done(&done.change);
            }
            if changing.is_none() {
                changing = self.windows.next().map(|change| self.begin(change));
            }
        }
    }

    async fn step(&mut self, changing: &mut Option<Changing>) -> Result<Step, TunnelError> {
        let idle = changing.is_none();
        let theirs = async {
            match changing.as_mut().and_then(|changing| changing.theirs.as_mut()) {
                Some(telling) => telling.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = &mut self.connection => Ok(ended.map(|()| Step::Closed)?),
            beat = std::future::poll_fn(|context| self.pulse.poll(context)) => match beat {
                Beat::Answered => Ok(Step::Answered),
                Beat::Silent => Err(TunnelError::Silent),
            },
            taken = theirs => Ok(Step::Told(taken)),
            () = self.windows.wanted.notified(), if idle => Ok(Step::Wanted),
        }
    }

    fn begin(&mut self, change: Change) -> Changing {
        let connection = &mut self.connection;
        let set = |window| connection.set_initial_window_size(window).is_ok();
        let ours = Some(Telling::begin(change.window, set, &mut self.pulse));
        let theirs = (!self.fixed).then(|| -> Pin<Box<dyn Future<Output = bool> + Send>> {
            Box::pin(tell(self.sender.clone(), change.window))
        });
        Changing { change, ours, theirs }
    }

    fn heard(&mut self, changing: &mut Option<Changing>) {
        let Some(Changing { ours: ours @ Some(_), .. }) = changing else { return };
        let connection = &mut self.connection;
        let set = |window| connection.set_initial_window_size(window).is_ok();
        if ours.as_mut().is_some_and(|telling| telling.heard(set, &mut self.pulse)) {
            *ours = None;
            self.reading.windows_changed();
        }
    }
}

/// Whether the other end gives its streams this window from now on.
async fn tell(sender: SendRequest<Bytes>, window: u32) -> bool {
    let mut ask = Request::new(());
    *ask.method_mut() = Method::CONNECT;
    *ask.uri_mut() = format!("http://runtime/{window}").parse().expect("a number is a path");
    ask.extensions_mut().insert(Protocol::from_static(WINDOW));
    let Ok(mut sender) = sender.ready().await else { return false };
    let Ok((answer, _ends)) = sender.send_request(ask, true) else { return false };
    answer.await.is_ok_and(|answer| answer.status() == StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;
