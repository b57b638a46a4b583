//! The runtime's half: keeps one connection to the platform open and answers what comes through it.
//!
//! In: where the platform is, a credential, one local address. Out: what that address answers.
//! Does not know: what is behind the address. The platform cannot name another one: a request has a path and nothing more.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use h2::ext::Protocol;
use http::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use slipway_model::Backoff;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::dial::Dial;
use crate::headers::{is_grpc, spoken, without_hops};
use crate::server::answer_through;
use crate::sessions::empty;
use crate::traffic::{Counting, Traffic};
use crate::upgrade::{self, Side};
use crate::window::BUDGET;
use crate::{Payload, TunnelError, limits};

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
    /// Of all its connections.
    pub traffic: Arc<Traffic>,
}

/// The first pause after a connection broke; it doubles up to the longest.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(10);
/// What the system keeps of an answer of the local address, and what a stream of HTTP/2 to it may.
const RECEIVED: usize = 256 << 10;
const HTTP2_WINDOW: u32 = 64 << 10;

impl Agent {
    /// Until it is cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let local = Arc::new(Local::new(self.local));
        self.keep(move |request| local.clone().answered(request), cancel).await;
    }

    /// The same for a local address whose owner is this process: it is asked without a connection to itself, but for WebSockets.
    pub async fn run_inside<A, F>(self, answer: A, cancel: CancellationToken)
    where
        A: Fn(Request<Payload>) -> F,
        F: Future<Output = Response<Payload>> + Send + 'static,
    {
        let local = Arc::new(Local::new(self.local));
        let answer = move |mut request: Request<Payload>| -> Answered {
            if request.method() == Method::CONNECT {
                return local.clone().answered(request);
            }
            without_hops(request.headers_mut());
            *request.version_mut() = spoken(request.uri());
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
            let answered = answer(request);
            Box::pin(async move {
                let mut response = answered.await;
                without_hops(response.headers_mut());
                response
            })
        };
        self.keep(answer, cancel).await;
    }

    async fn keep(self, answer: impl Fn(Request<Payload>) -> Answered, cancel: CancellationToken) {
        let mut backoff = Backoff::new(SHORTEST, LONGEST);
        while !cancel.is_cancelled() {
            self.state.send_replace(Connection::Connecting);
            let error = match self.dial.connect().await {
                Ok(io) => {
                    let io = Counting { io, traffic: vec![self.traffic.clone()] };
                    self.state.send_replace(Connection::Open);
                    let opened = tokio::time::Instant::now();
                    let ended = answer_through(io, &answer, &cancel).await;
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

type Answered = Pin<Box<dyn Future<Output = Response<Payload>> + Send>>;

/// Between half and the whole of it: a thousand agents of one server that died do not come back in one moment.
fn jittered(pause: Duration) -> Duration {
    let share = getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX));
    pause.mul_f64(0.5 + share / 2.0)
}

/// Answers requests that come through `io` until it ends.
pub async fn serve<IO>(io: IO, local: SocketAddr, cancel: &CancellationToken) -> Result<(), TunnelError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let local = Arc::new(Local::new(local));
    answer_through(io, move |request| local.clone().answered(request), cancel).await
}

struct Local {
    address: String,
    client: Client<HttpConnector, Payload>,
    /// For gRPC, which knows nothing but HTTP/2.
    http2: Client<HttpConnector, Payload>,
}

impl Local {
    fn new(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(5)));
        // What a caller does not read waits in the system, too, which takes megabytes for each otherwise.
        connector.set_recv_buffer_size(Some(RECEIVED));
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new());
        builder.http2_initial_stream_window_size(HTTP2_WINDOW).http2_initial_connection_window_size(BUDGET);
        builder.http2_max_frame_size(limits::FRAME);
        let http2 = builder.clone().http2_only(true).build(connector.clone());
        // And here: no more than on the way.
        let client = builder.http1_max_buf_size(limits::BUFFER).build(connector);
        Self { address: address.to_string(), client, http2 }
    }

    fn answered(self: Arc<Self>, request: Request<Payload>) -> Answered {
        Box::pin(async move { self.answer(request).await })
    }

    async fn answer(&self, request: Request<Payload>) -> Response<Payload> {
        if request.method() == Method::CONNECT {
            return match is_websocket(&request) {
                true => self.open_websocket(request).await,
                false => {
                    refusal(StatusCode::METHOD_NOT_ALLOWED, "only WebSockets can be opened through a tunnel")
                }
            };
        }
        let (mut parts, body) = request.into_parts();
        let http2 = spoken(&parts.uri) == Version::HTTP_2 && is_grpc(&parts.headers);
        self.readdress(&mut parts);
        let client = if http2 {
            // Its name for the host is the address itself.
            parts.headers.remove(HOST);
            parts.version = Version::HTTP_2;
            &self.http2
        } else {
            &self.client
        };
        match client.request(Request::from_parts(parts, body)).await {
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

    async fn open_websocket(&self, mut request: Request<Payload>) -> Response<Payload> {
        let theirs = Side::of(&mut request);
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
            upgrade::join(theirs, Side::Connection(hyper::upgrade::on(&mut response)));
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

pub(crate) fn is_websocket(request: &Request<Payload>) -> bool {
    let wanted = request.extensions().get::<Protocol>();
    request.method() == Method::CONNECT && wanted.is_some_and(|wanted| wanted.as_str() == "websocket")
}

fn refusal(status: StatusCode, sentence: &'static str) -> Response<Payload> {
    let body = Full::from(sentence).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
