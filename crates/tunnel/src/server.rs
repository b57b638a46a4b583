//! The end of a tunnel's connection that answers: the runtime's, or a process of the platform towards another one.
//!
//! In: a byte stream, and what answers a request. Out: answers. Does not know what a request means but for one: the other end says
//! which window streams have ([`crate::client::WINDOW`]), because it knows how many it opens.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::ext::Protocol;
use h2::server::{Connection, SendResponse};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::client::WINDOW;
use crate::pulse::{Beat, Heard, Pulse, Telling};
use crate::reading::Reading;
use crate::stream::{Duplex, Received, send};
use crate::{Payload, TunnelError, limits, window};

/// Answers that are on their way get a while to arrive.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// Of an extended CONNECT: the stream, once it was answered with yes.
#[derive(Clone)]
pub(crate) struct Opening(Arc<Mutex<Option<oneshot::Receiver<Duplex>>>>);

impl Opening {
    pub(crate) fn take(&self) -> Option<oneshot::Receiver<Duplex>> {
        self.0.lock().expect("not poisoned").take()
    }
}

/// Answers requests that come through `io` until it ends. A WebSocket comes as an extended CONNECT.
pub async fn answer_through<IO, A, F>(
    io: IO,
    answer: A,
    cancel: &CancellationToken,
) -> Result<(), TunnelError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Request<Payload>) -> F,
    F: Future<Output = Response<Payload>> + Send + 'static,
{
    let (io, heard) = Heard::new(io);
    let mut connection = h2::server::Builder::new()
        .enable_connect_protocol()
        .initial_window_size(window::SMALLEST)
        .initial_connection_window_size(window::BUDGET)
        .max_frame_size(limits::FRAME)
        .max_concurrent_streams(window::STREAMS + 8)
        .max_header_list_size(limits::HEADERS)
        .max_pending_accept_reset_streams(limits::LEFT)
        .max_concurrent_reset_streams(limits::LEFT)
        .reset_stream_duration(limits::REMEMBERED)
        .max_local_error_reset_streams(Some(limits::ASTRAY))
        .handshake(io)
        .await?;
    let pings = connection.ping_pong().ok_or(TunnelError::Silent)?;
    let mut pulse = Pulse::new(pings, heard);
    let reading = Reading::default();
    let mut telling: Option<(Telling, SendResponse<Bytes>)> = None;
    let mut leaving = std::pin::pin!(None::<tokio::time::Sleep>);
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(accepted) = accepted else { return Ok(()) };
                let (request, mut respond) = accepted?;
                match asked_window(&request) {
                    None => take(request, respond, &answer, &reading),
                    Some(window) if telling.is_none() => {
                        telling = Some((Telling::begin(window, set(&mut connection), &mut pulse), respond));
                    }
                    // Its own end waits for one before it asks for another.
                    Some(_) => say(&mut respond, StatusCode::CONFLICT),
                }
            }
            beat = std::future::poll_fn(|context| pulse.poll(context)) => {
                if beat == Beat::Silent {
                    return Err(TunnelError::Silent);
                }
                let told = telling.as_mut().is_some_and(|(telling, _)| telling.heard(set(&mut connection), &mut pulse));
                if let Some((_, mut respond)) = telling.take_if(|_| told) {
                    reading.windows_changed();
                    say(&mut respond, StatusCode::NO_CONTENT);
                }
            }
            () = cancel.cancelled(), if leaving.is_none() => {
                connection.graceful_shutdown();
                leaving.set(Some(tokio::time::sleep(LEAVE_WITHIN)));
            }
            () = async { match leaving.as_mut().as_pin_mut() { Some(late) => late.await, None => std::future::pending().await } } => {
                return Ok(());
            }
        }
    }
}

fn set<IO: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<IO, Bytes>,
) -> impl FnOnce(u32) -> bool {
    move |window| connection.set_initial_window_size(window).is_ok()
}

/// The window that the other end asks for.
fn asked_window(request: &Request<RecvStream>) -> Option<u32> {
    let protocol = request.extensions().get::<Protocol>();
    let asks = request.method() == Method::CONNECT && protocol.is_some_and(|one| one.as_str() == WINDOW);
    let bytes = request.uri().path().trim_start_matches('/').parse::<u32>().unwrap_or(window::SMALLEST);
    asks.then(|| bytes.clamp(window::SMALLEST, window::LARGEST))
}

fn say(respond: &mut SendResponse<Bytes>, status: StatusCode) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    let _ = respond.send_response(response, true);
}

fn take<A, F>(request: Request<RecvStream>, respond: SendResponse<Bytes>, answer: &A, reading: &Reading)
where
    A: Fn(Request<Payload>) -> F,
    F: Future<Output = Response<Payload>> + Send + 'static,
{
    let (mut parts, body) = request.into_parts();
    if parts.method == Method::CONNECT {
        let (opened, opening) = oneshot::channel();
        parts.extensions.insert(Opening(Arc::new(Mutex::new(Some(opening)))));
        let answered = answer(Request::from_parts(parts, crate::sessions::empty()));
        tokio::spawn(open(answered, respond, body, opened, reading.clone()));
        return;
    }
    let body = Received::new(body, &parts.headers, None, reading).payload();
    tokio::spawn(respond_with(answer(Request::from_parts(parts, body)), respond));
}

/// What answers is given up when nobody waits for it any more.
async fn wanted<F: Future>(answered: F, respond: &mut SendResponse<Bytes>) -> Option<F::Output> {
    tokio::select! {
        response = answered => Some(response),
        _ = std::future::poll_fn(|context| respond.poll_reset(context)) => None,
    }
}

async fn respond_with<F: Future<Output = Response<Payload>>>(answered: F, mut respond: SendResponse<Bytes>) {
    let Some(response) = wanted(answered, &mut respond).await else { return };
    pass(response, &mut respond).await;
}

async fn pass(response: Response<Payload>, respond: &mut SendResponse<Bytes>) {
    let (parts, body) = response.into_parts();
    let ends = body.is_end_stream();
    let Ok(stream) = respond.send_response(Response::from_parts(parts, ()), ends) else { return };
    if !ends {
        send(body, stream, None).await;
    }
}

async fn open<F: Future<Output = Response<Payload>>>(
    answered: F,
    mut respond: SendResponse<Bytes>,
    body: RecvStream,
    opened: oneshot::Sender<Duplex>,
    reading: Reading,
) {
    let Some(response) = wanted(answered, &mut respond).await else { return };
    if !response.status().is_success() {
        return pass(response, &mut respond).await;
    }
    let (parts, _) = response.into_parts();
    if let Ok(stream) = respond.send_response(Response::from_parts(parts, ()), false) {
        let _ = opened.send(Duplex::new(stream, body, None, &reading));
    }
}
