//! T8 for HTTP/2: calls as gRPC makes them, straight to a backend that knows nothing but HTTP/2 and through a tunnel to it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use slipway_tunnel::{Carrier, Payload};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{DOMAIN, Platform, body, name};

const PATIENCE: Duration = Duration::from_secs(20);

/// A backend of gRPC: HTTP/2 without asking, and nothing else.
async fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a caller");
            let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request)) });
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

fn status(number: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", number.parse().expect("a value"));
    trailers.insert("grpc-message", "what it says".parse().expect("a value"));
    trailers
}

/// Says every message again, and at the end how it went. One path says nothing but that.
fn answer(request: Request<Incoming>) -> Response<Payload> {
    let asked = format!("{:?} {}", request.version(), request.headers()["te"].to_str().expect("text"));
    let mut response = match request.uri().path() {
        "/echo.Echo/Refused" => {
            let mut response = Response::new(body(""));
            response.headers_mut().extend(status("7"));
            response
        }
        _ => {
            let messages = BodyStream::new(request.into_body()).map(|frame| frame.map_err(Into::into));
            let end = futures::stream::iter([Ok(Frame::trailers(status("0")))]);
            Response::new(StreamBody::new(messages.chain(end)).boxed_unsync())
        }
    };
    response.headers_mut().insert("content-type", "application/grpc+proto".parse().expect("a value"));
    response.headers_mut().insert("x-asked", asked.parse().expect("a value"));
    response
}

type Http2 = hyper::client::conn::http2::SendRequest<Payload>;

async fn http2(address: SocketAddr) -> Http2 {
    let stream = TcpStream::connect(address).await.expect("connected");
    stream.set_nodelay(true).expect("set");
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

fn call(host: &str, method: &str, body: Payload) -> Request<Payload> {
    Request::builder()
        .method(Method::POST)
        .uri(format!("http://{host}/echo.Echo/{method}"))
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .expect("a request")
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    head: Vec<(String, String)>,
    messages: Vec<Bytes>,
    trailers: Option<HeaderMap>,
}

/// One call with messages that go back and forth: the next is said when the last was heard.
async fn converse(sender: &mut Http2, host: &str) -> Seen {
    let (mut say, said) = futures::channel::mpsc::channel::<Result<Frame<Bytes>, _>>(1);
    let said: Payload = StreamBody::new(said).boxed_unsync();
    let answer = sender.send_request(call(host, "Converse", said)).await.expect("an answer before the end");
    assert_eq!(answer.version(), Version::HTTP_2);
    let head = head(&answer);
    let mut body = answer.into_body();
    let mut messages = Vec::new();
    for message in ["one", "two", "three"] {
        say.send(Ok(Frame::data(Bytes::from(message)))).await.expect("it is open");
        messages.push(body.frame().await.expect("more").expect("read").into_data().expect("data"));
    }
    say.close_channel();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        trailers = frame.expect("read").into_trailers().ok();
    }
    Seen { head, messages, trailers }
}

async fn once(sender: &mut Http2, host: &str, method: &str, message: Vec<u8>) -> Seen {
    let answer = sender.send_request(call(host, method, body(message))).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    let head = head(&answer);
    let collected = answer.into_body().collect().await.expect("a body");
    let trailers = collected.trailers().cloned();
    Seen { head, messages: vec![collected.to_bytes()], trailers }
}

fn head(answer: &Response<Incoming>) -> Vec<(String, String)> {
    let shown = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), value.to_str().expect("text").to_owned())
    };
    let mut all: Vec<_> = answer.headers().iter().filter(|(name, _)| *name != "date").map(shown).collect();
    all.sort();
    all
}

async fn calls(address: SocketAddr, host: &str) -> Vec<Seen> {
    let mut sender = http2(address).await;
    let mut seen = vec![
        converse(&mut sender, host).await,
        once(&mut sender, host, "Once", b"a message".to_vec()).await,
        once(&mut sender, host, "Once", Vec::new()).await,
        once(&mut sender, host, "Once", vec![7; 3_000_000]).await,
        once(&mut sender, host, "Refused", b"a message".to_vec()).await,
    ];
    let many = (0..50).map(|_| {
        let mut sender = sender.clone();
        async move { converse(&mut sender, host).await }
    });
    seen.extend(futures::future::join_all(many).await);
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t8_a_call_of_grpc_says_the_same_with_and_without_a_tunnel() {
    let (platform, local) = (Platform::start().await, backend().await);
    for carrier in [Carrier::Raw, Carrier::WebSocket] {
        let runtime = format!("prod{}", carrier as u8);
        let _agent = platform.connect(&runtime, local, carrier);
        platform.until_open(&runtime, 1).await;
        let host = format!("{}.{DOMAIN}", name(&runtime));
        let both = async { (calls(local, &host).await, calls(platform.address, &host).await) };
        let (straight, through) = tokio::time::timeout(PATIENCE, both).await.expect("in time");
        assert_eq!(through, straight);
        let ended = through[0].trailers.as_ref().expect("trailers");
        assert_eq!((&ended["grpc-status"], through[0].messages.len()), (&"0".parse().expect("it"), 3));
        assert!(
            through[4].trailers.is_none() && through[4].head.contains(&("grpc-status".into(), "7".into()))
        );
    }
}

/// Whoever gives a call up in the middle gives it up at the backend, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_ends_at_the_backend() {
    let ended = std::sync::Arc::new(tokio::sync::Notify::new());
    let (platform, seen) = (Platform::start().await, ended.clone());
    let local = crate::support::listen(move |request: Request<Incoming>| {
        let seen = seen.clone();
        async move {
            tokio::spawn(async move {
                let _ = request.into_body().collect().await;
                seen.notify_one();
            });
            Response::new(StreamBody::new(futures::stream::pending()).boxed_unsync())
        }
    })
    .await;
    let _agent = platform.connect("prod", local, Carrier::WebSocket);
    platform.until_open("prod", 1).await;
    let host = format!("{}.{DOMAIN}", name("prod"));
    let mut sender = http2(platform.address).await;
    let (mut say, said) = futures::channel::mpsc::channel::<Result<Frame<Bytes>, _>>(1);
    let said: Payload = StreamBody::new(said).boxed_unsync();
    say.send(Ok(Frame::data(Bytes::from("one")))).await.expect("it is open");
    let answer = sender.send_request(call(&host, "Converse", said)).await.expect("an answer");
    drop(say.send(Ok(Frame::data(Bytes::from("two")))).await);
    drop((answer, say, sender));
    tokio::time::timeout(PATIENCE, ended.notified()).await.expect("it is told");
}
