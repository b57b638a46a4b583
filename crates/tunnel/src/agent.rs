//! The runtime's half: keeps one connection to the platform open and answers what comes through it.
//!
//! In: where the platform is, a credential, one local address. Out: what that address answers.
//! Does not know: what is behind the address. The platform cannot name another one: a request has a path and nothing more.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use slipway_model::Backoff;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::dial::Dial;
use crate::headers::without_hops;
use crate::sessions::empty;
use crate::{Payload, limits, upgrade};

/// How the connection fares, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    Connecting,
    Open,
    /// It is tried again after this long.
    Waiting {
        error: String,
        retry_in: Duration,
    },
}

pub struct Agent {
    pub dial: Dial,
    /// Everything that comes through the tunnel goes here and nowhere else.
    pub local: SocketAddr,
    pub state: watch::Sender<Connection>,
}

/// The first pause after a connection broke; it doubles up to the longest.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(10);

impl Agent {
    /// Until it is cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let mut backoff = Backoff::new(SHORTEST, LONGEST);
        while !cancel.is_cancelled() {
            self.state.send_replace(Connection::Connecting);
            let error = match self.dial.connect().await {
                Ok(io) => {
                    self.state.send_replace(Connection::Open);
                    let opened = tokio::time::Instant::now();
                    let ended = serve(io, self.local, &cancel).await;
                    // One that is cut right after it was opened is no reason to hurry.
                    if opened.elapsed() > limits::PING_EVERY {
                        backoff.reset();
                    }
                    ended.err().map_or_else(
                        || "the platform closed the connection".to_owned(),
                        |error| error.to_string(),
                    )
                }
                Err(error) => error.to_string(),
            };
            let retry_in = jittered(backoff.failed());
            self.state.send_replace(Connection::Waiting { error, retry_in });
            tokio::select! {
                () = tokio::time::sleep(retry_in) => {}
                () = cancel.cancelled() => {}
            }
        }
    }
}

/// Between half and the whole of it: a thousand agents of one server that died do not come back in one moment.
fn jittered(pause: Duration) -> Duration {
    let share = getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX));
    pause.mul_f64(0.5 + share / 2.0)
}

/// Answers requests that come through `io` until it ends.
pub async fn serve<IO>(io: IO, local: SocketAddr, cancel: &CancellationToken) -> Result<(), hyper::Error>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let local = Arc::new(Local::new(local));
    let service = service_fn(move |request| {
        let local = local.clone();
        async move { Ok::<_, Infallible>(local.answer(request).await) }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .initial_stream_window_size(limits::STREAM_WINDOW)
        .initial_connection_window_size(limits::CONNECTION_WINDOW)
        .max_concurrent_streams(limits::STREAMS)
        .max_header_list_size(limits::HEADERS)
        .keep_alive_interval(limits::PING_EVERY)
        .keep_alive_timeout(limits::PING_WITHIN);
    let connection = builder.serve_connection(TokioIo::new(io), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = cancel.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    // Answers that are on their way get a while to arrive.
    tokio::time::timeout(LONGEST, connection).await.unwrap_or(Ok(()))
}

struct Local {
    address: String,
    client: Client<HttpConnector, Payload>,
}

impl Local {
    fn new(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(5)));
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Self { address: address.to_string(), client }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Payload> {
        let websocket =
            request.extensions().get::<Protocol>().is_some_and(|wanted| wanted.as_str() == "websocket");
        if request.method() == Method::CONNECT {
            return match websocket {
                true => self.open_websocket(request).await,
                false => {
                    refusal(StatusCode::METHOD_NOT_ALLOWED, "only WebSockets can be opened through a tunnel")
                }
            };
        }
        let (mut parts, body) = request.into_parts();
        self.readdress(&mut parts);
        let request = Request::from_parts(parts, body.map_err(Into::into).boxed_unsync());
        match self.client.request(request).await {
            Ok(mut response) => {
                without_hops(response.headers_mut());
                response.map(|body| body.map_err(Into::into).boxed_unsync())
            }
            Err(error) => {
                tracing::debug!(%error, "The local address did not answer a request of the tunnel.");
                refusal(
                    StatusCode::BAD_GATEWAY,
                    "the runtime is connected, but what should answer there does not",
                )
            }
        }
    }

    async fn open_websocket(&self, mut request: Request<Incoming>) -> Response<Payload> {
        let theirs = hyper::upgrade::on(&mut request);
        let (mut parts, _) = request.into_parts();
        self.readdress(&mut parts);
        parts.method = Method::GET;
        parts.extensions.clear();
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        let mut response = match self.client.request(Request::from_parts(parts, empty())).await {
            Ok(response) => response,
            Err(error) => {
                tracing::debug!(%error, "The local address opened no WebSocket.");
                return refusal(
                    StatusCode::BAD_GATEWAY,
                    "the runtime is connected, but what should answer there does not",
                );
            }
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            upgrade::join(theirs, hyper::upgrade::on(&mut response));
            let (mut parts, _) = response.into_parts();
            without_hops(&mut parts.headers);
            parts.status = StatusCode::OK;
            parts.version = Version::HTTP_2;
            return Response::from_parts(parts, empty());
        }
        without_hops(response.headers_mut());
        response.map(|body| body.map_err(Into::into).boxed_unsync())
    }

    /// The path is the caller's, everything before it ours.
    fn readdress(&self, parts: &mut http::request::Parts) {
        without_hops(&mut parts.headers);
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri = Uri::builder().scheme("http").authority(self.address.as_str()).path_and_query(path).build();
        parts.uri = uri.unwrap_or_else(|_| Uri::from_static("/"));
        parts.version = Version::HTTP_11;
    }
}

fn refusal(status: StatusCode, sentence: &'static str) -> Response<Payload> {
    let body = Full::from(sentence).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
