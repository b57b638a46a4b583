//! Connections: who is at the other end, which HTTP they speak, how long a head may take, how it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse as _;
use axum::{BoxError, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use slipway_tunnel::ReadAhead;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::greeting::Greeting;
use super::tls::Tls;
use super::under_way::{Requests, Until};

/// A client that sends its head byte by byte is let go.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
const HEADERS_MAX: usize = 100;
/// What is kept of a connection whose other end does not read, and the most that a head may have.
const BUFFER: usize = 64 << 10;
/// What the system may keep for whoever does not read, beside what is already on its way. Without it that is megabytes for each.
const UNSENT: u32 = 128 << 10;
/// Of HTTP/2: requests at once on one connection, what each may send ahead, and all of them.
const STREAMS: u32 = 128;
const WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const HEADER_BYTES: u32 = 64 << 10;
/// Requests that were taken back before anybody looked at them.
const RESETS: usize = 20;

/// Serves until `stop`, then lets what is under way finish.
pub async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
    serve_with(listener, None, app, stop).await;
}

/// The same, with TLS where there is a certificate.
pub async fn serve_with(listener: TcpListener, tls: Option<Arc<Tls>>, app: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: the next moment has some again.
                tracing::warn!(%error, "Cannot accept a connection.");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
        let (app, stop) = (app.clone(), stop.clone());
        match &tls {
            None => connections.spawn(connection(stream, peer, app, stop)),
            Some(tls) => {
                let acceptor = tls.acceptor();
                connections.spawn(async move {
                    // As long as a head may take, for whoever sends a greeting byte by byte.
                    match tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(ReadAhead::new(stream))).await {
                        Ok(Ok(stream)) => connection(stream, peer, app, stop).await,
                        Ok(Err(error)) => {
                            tracing::debug!(%error, %peer, "A connection did not begin with TLS.")
                        }
                        Err(_) => tracing::debug!(%peer, "A connection took too long to begin with TLS."),
                    }
                })
            }
        };
    }
    connections.close();
    connections.wait().await;
}

/// What a connection may take: in tests much less.
#[derive(Clone, Copy)]
struct Limits {
    /// Until its first bytes say what it speaks, and then for each head of HTTP/1.1.
    head: Duration,
    /// A connection of HTTP/2 that asks for nothing goes after this.
    idle: Duration,
    /// One that swallows everything is known to be dead after twice this.
    ping: Duration,
}

const LIMITS: Limits =
    Limits { head: HEAD_TIMEOUT, idle: Duration::from_secs(60), ping: Duration::from_secs(20) };

async fn connection<IO>(io: IO, peer: SocketAddr, app: Router, stop: CancellationToken)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if let Err(error) = limited(io, peer, app, stop, LIMITS).await {
        tracing::debug!(%error, %peer, "A connection ended with an error.");
    }
}

async fn limited<IO>(
    mut io: IO,
    peer: SocketAddr,
    app: Router,
    stop: CancellationToken,
    limits: Limits,
) -> Result<(), BoxError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let greeting = tokio::select! {
        greeting = tokio::time::timeout(limits.head, Greeting::read(&mut io)) => greeting??,
        // Nothing is under way.
        () = stop.cancelled() => return Ok(()),
    };
    let (http2, io) = (greeting.is_http2(), TokioIo::new(greeting.before(io)));
    let requests = Requests::default();
    let counted = requests.clone();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer));
        named(&mut request);
        let many = request.headers().len() > HEADERS_MAX;
        let (app, under_way) = (app.clone(), counted.one());
        async move {
            if many {
                return Ok(axum::http::StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into_response());
            }
            let answer = app.oneshot(request).await;
            // It is over when its last byte was handed on.
            answer.map(|answer| answer.map(|body| axum::body::Body::new(Until { body, _end: under_way })))
        }
    });
    if http2 {
        let connection = http2_of(limits).serve_connection(io, service);
        let mut connection = std::pin::pin!(connection);
        let unused = requests.unused(limits.idle);
        tokio::select! {
            ended = connection.as_mut() => return Ok(ended?),
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
            () = unused => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended?,
                    // Whoever holds it open all the same is let go, but not with what was asked before the other end heard of it.
                    () = requests.unused(limits.head) => {}
                }
                return Ok(());
            }
        }
        return Ok(connection.await?);
    }
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER);
    let mut connection = std::pin::pin!(http.serve_connection(io, service).with_upgrades());
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}

/// Frames that are many and small, resets one after the other and heads without an end are counted by h2 itself; what a connection may
/// keep that nobody reads is the window of a stream times the streams.
fn http2_of(limits: Limits) -> hyper::server::conn::http2::Builder<TokioExecutor> {
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(BUFFER)
        .max_header_list_size(HEADER_BYTES)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.ping);
    http
}

/// Requests of HTTP/2 say whom they are for in another place; everything behind the listener reads `Host`. Two that differ stay two.
fn named<B>(request: &mut hyper::Request<B>) {
    if request.version() != axum::http::Version::HTTP_2 || request.headers().contains_key(header::HOST) {
        return;
    }
    let host = request.uri().authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    if let Some(host) = host {
        request.headers_mut().insert(header::HOST, host);
    }
}

#[cfg(test)]
mod tests;
