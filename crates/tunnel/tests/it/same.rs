//! T8 in short: what is asked and answered through a tunnel is what it is without one. Each case goes both ways, straight to the
//! backend and through the tunnel, and the two answers are held against each other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use slipway_tunnel::{Carrier, Payload};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::carried::{backend as socket_backend, shown};
use crate::support::{DOMAIN, Platform, body, listen, name, text};

/// Answers as its path says, and repeats what it heard.
async fn backend(request: Request<Incoming>) -> Response<Payload> {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match parts.as_slice() {
        ["status", code] => {
            let status = StatusCode::from_bytes(code.as_bytes()).expect("a status");
            let mut answer = text(status, if status == 204 || status == 304 { "" } else { "said" });
            answer.headers_mut().insert("location", "/elsewhere?a=b".parse().expect("a value"));
            answer
        }
        ["bytes", count] => text(StatusCode::OK, vec![b'x'; count.parse().expect("a number")]),
        ["chunks", count] => {
            let count = count.parse::<usize>().expect("a number");
            let chunks = (0..count).map(|at| Ok(Frame::data(Bytes::from(format!("chunk {at}\n")))));
            Response::new(StreamBody::new(stream::iter(chunks)).boxed_unsync())
        }
        ["headers"] => {
            let mut answer = text(StatusCode::OK, "");
            for (name, value) in
                [("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-empty", ""), ("x-long", "y")]
            {
                let value = if name == "x-long" { value.repeat(8_000) } else { value.to_owned() };
                answer.headers_mut().append(name, value.parse().expect("a value"));
            }
            answer
        }
        // What came, with its headers and trailers, while it comes.
        ["echo", ..] => {
            let heard = format!(
                "{} {} type={} te={} many={:?}\n",
                request.method(),
                request.uri(),
                shown(request.headers(), "content-type"),
                shown(request.headers(), "te"),
                request.headers().get_all("x-many").iter().collect::<Vec<_>>(),
            );
            let head = stream::iter([Ok(Frame::data(Bytes::from(heard)))]);
            let rest = http_body_util::BodyStream::new(request.into_body()).map(|frame| {
                frame.map_err(|error| -> Box<dyn std::error::Error + Send + Sync> { error.into() })
            });
            let mut answer = Response::new(StreamBody::new(head.chain(rest)).boxed_unsync());
            answer.headers_mut().insert("trailer", "x-sum".parse().expect("a value"));
            answer
        }
        _ => text(StatusCode::NOT_FOUND, "nothing here"),
    }
}

/// All that a caller can see of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: StatusCode,
    headers: BTreeMap<String, Vec<String>>,
    body: Bytes,
    trailers: BTreeMap<String, Vec<String>>,
}

fn all(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        // The time, and how one connection frames it.
        if !["date", "connection", "transfer-encoding"].contains(&name.as_str()) {
            out.entry(name.to_string()).or_default().push(value.to_str().expect("text").to_owned());
        }
    }
    out
}

async fn ask(address: SocketAddr, host: &str, mut request: Request<Payload>) -> Seen {
    let stream = tokio::net::TcpStream::connect(address).await.expect("connected");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
    tokio::spawn(connection);
    request.headers_mut().insert("host", host.parse().expect("a host"));
    let answer = sender.send_request(request).await.expect("an answer");
    let (parts, body) = answer.into_parts();
    let collected = body.collect().await.expect("a body");
    let trailers = collected.trailers().map(all).unwrap_or_default();
    Seen { status: parts.status, headers: all(&parts.headers), body: collected.to_bytes(), trailers }
}

fn streamed(chunks: usize, trailer: Option<&str>) -> Payload {
    let data = (0..chunks).map(|at| Ok(Frame::data(Bytes::from(format!("part {at};")))));
    let trailer = trailer.map(|value| {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", value.parse().expect("a value"));
        Ok(Frame::trailers(trailers))
    });
    StreamBody::new(stream::iter(data.chain(trailer).collect::<Vec<_>>())).boxed_unsync()
}

fn cases() -> Vec<(String, Request<Payload>)> {
    let mut cases = Vec::new();
    let mut case = |what: &str, request: http::request::Builder, body: Payload| {
        cases.push((what.to_owned(), request.body(body).expect("a request")));
    };
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        case(method.as_str(), Request::builder().method(&method).uri("/echo/a"), body("what was sent"));
    }
    for status in [200, 201, 204, 301, 304, 400, 401, 404, 418, 429, 500, 503] {
        case("a status", Request::builder().uri(format!("/status/{status}")), body(""));
        case(
            "the same of HEAD",
            Request::builder().method("HEAD").uri(format!("/status/{status}")),
            body(""),
        );
    }
    for count in [0, 1, 65_535, 65_536, 65_537, 1_000_000] {
        case("a length", Request::builder().uri(format!("/bytes/{count}")), body(""));
        case("its HEAD", Request::builder().method("HEAD").uri(format!("/bytes/{count}")), body(""));
        case("a body", Request::builder().method("POST").uri("/echo"), body(vec![b'y'; count]));
    }
    case("chunks", Request::builder().uri("/chunks/500"), body(""));
    case("no chunk", Request::builder().uri("/chunks/0"), body(""));
    case("headers", Request::builder().uri("/headers"), body(""));
    for path in [
        "/echo?a=b%20c&d=%2F",
        "/echo/%2e%2e/x",
        "/echo//double",
        "/echo/%F0%9F%9A%A2",
        "/echo?",
        "/echo/;a=b",
    ] {
        case(path, Request::builder().uri(path), body(""));
    }
    let many = Request::builder().uri("/echo").header("x-many", "one").header("x-many", "two");
    case("a header twice", many, body(""));
    case("a stream", Request::builder().method("POST").uri("/echo"), streamed(300, None));
    let grpc = Request::builder()
        .method("POST")
        .uri("/echo/grpc.Service/Call")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("trailer", "x-sum");
    case("trailers both ways, as gRPC has them", grpc, streamed(3, Some("42")));
    let patient = Request::builder().method("POST").uri("/echo").header("expect", "100-continue");
    case("100 Continue", patient, body("only when asked"));
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t8_what_passes_through_a_tunnel_is_what_it_is_without_one() {
    let (platform, local) = (Platform::start().await, listen(backend).await);
    for carrier in [Carrier::Raw, Carrier::WebSocket] {
        let runtime = format!("prod{}", carrier as u8);
        let _agent = platform.connect(&runtime, local, carrier);
        platform.until_open(&runtime, 1).await;
        let host = format!("{}.{DOMAIN}", name(&runtime));
        let mut compared = 0;
        for ((what, straight), (_, through)) in cases().into_iter().zip(cases()) {
            let place = straight.uri().clone();
            let straight = ask(local, &host, straight).await;
            let through = ask(platform.address, &host, through).await;
            assert_eq!(through, straight, "{what} {place} by {carrier:?}");
            compared += 1;
        }
        assert!(compared > 60, "{compared}");
    }
}

/// The answer begins before the request ends, and goes on after it did: neither waits for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t8_both_directions_end_by_themselves() {
    let (platform, local) = (Platform::start().await, listen(backend).await);
    let _agent = platform.connect("prod", local, Carrier::WebSocket);
    platform.until_open("prod", 1).await;
    let host = format!("{}.{DOMAIN}", name("prod"));
    for address in [local, platform.address] {
        let stream = tokio::net::TcpStream::connect(address).await.expect("connected");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        let (mut parts, sent) = futures::channel::mpsc::channel::<Result<Frame<Bytes>, _>>(1);
        let request = Request::builder().method("POST").uri("/echo").header("host", &host);
        let sent: Payload = StreamBody::new(sent).boxed_unsync();
        let request = request.body(sent).expect("a request");
        let sending = tokio::spawn(async move { sender.send_request(request).await });
        parts.send(Ok(Frame::data(Bytes::from("first;")))).await.expect("sent");
        let mut answer =
            sending.await.expect("no panic").expect("an answer before the request ends").into_body();
        let mut heard = String::new();
        for (wanted, next) in [("first;", Some("second;")), ("second;", None)] {
            while !heard.contains(wanted) {
                let frame = tokio::time::timeout(Duration::from_secs(20), answer.frame()).await;
                let frame =
                    frame.expect("it comes while the request goes on").expect("a frame").expect("read");
                heard.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data")));
            }
            match next {
                Some(next) => parts.send(Ok(Frame::data(Bytes::from(next)))).await.expect("sent"),
                None => parts.close_channel(),
            }
        }
        assert!(answer.frame().await.is_none(), "it ends when the request does");
    }
}

/// Messages of every kind, one in pieces, and how it was closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t8_a_websocket_says_the_same_with_and_without_a_tunnel() {
    let (platform, local) = (Platform::start().await, listen(socket_backend).await);
    let _agent = platform.connect("prod", local, Carrier::Raw);
    platform.until_open("prod", 1).await;
    let mut both = Vec::new();
    for address in [local, platform.address] {
        let stream = tokio::net::TcpStream::connect(address).await.expect("connected");
        let uri = format!("ws://{}.{DOMAIN}/socket", name("prod"));
        let (mut socket, answer) = tokio_tungstenite::client_async(uri, stream).await.expect("opened");
        let mut heard = vec![format!("{}", answer.status())];
        for message in [
            Message::text("plain"),
            Message::text("ünïcödé 🚢"),
            Message::binary(vec![0_u8, 255, 1]),
            Message::binary(vec![7_u8; 200_000]),
            Message::Ping(Bytes::from("are you there")),
            Message::text(""),
        ] {
            socket.send(message).await.expect("sent");
            let answer = socket.next().await.expect("an answer").expect("read");
            heard.push(format!(
                "{} {:?}",
                answer.len(),
                answer.into_data().iter().take(40).collect::<Vec<_>>()
            ));
        }
        let frame = CloseFrame { code: 4001.into(), reason: "enough".into() };
        socket.close(Some(frame)).await.expect("closed");
        while let Some(Ok(message)) = socket.next().await {
            heard.push(format!("{message:?}"));
        }
        both.push(heard);
    }
    assert_eq!(both[0], both[1]);
    assert!(both[0].last().expect("something").contains("4001"), "{:?}", both[0]);
}
